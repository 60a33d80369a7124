// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The facts about a metric before anything is measured.
package struct MetricDescription: Sendable {
    package enum Kind: Sendable {
        case counter
        case gauge
        /// Counts the values up to each bound, in the metric's own unit. The bound +Inf is added.
        case histogram(buckets: [Double])
    }

    package var name: String
    package var kind: Kind
    package var help: String

    /// The names of the labels that every series has; empty for a metric of one series.
    package var labels: [String]

    package init(_ name: String, _ kind: Kind, help: String, labels: [String] = []) {
        self.name = name
        self.kind = kind
        self.help = help
        self.labels = labels
    }
}
