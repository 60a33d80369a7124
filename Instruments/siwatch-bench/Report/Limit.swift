// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The most that this machine could do, measured with a program that does one thing only.
struct Limit: Sendable {
    var label: String
    var reading: Reading
    /// How much the machine's speed varied meanwhile, if known.
    var spread: ClosedRange<Double>?

    enum Reading: Sendable {
        case perSecond(Double)
        /// The limit could not be measured, for this reason.
        case unknown(String)
    }

    init(_ label: String, _ reading: Reading, spread: ClosedRange<Double>? = nil) {
        self.label = label
        self.reading = reading
        self.spread = spread
    }

    /// The median of several measurements of one limit. The array must not be empty.
    static func median(_ label: String, _ rates: [Double]) -> Limit {
        Limit(label, .perSecond(rates.median), spread: rates.min()!...rates.max()!)
    }

    /// The mean of two measurements of one limit, before and after the figure beside it, because other programs use the machine too.
    static func mean(_ before: Limit, _ after: Limit) -> Limit {
        switch (before.reading, after.reading) {
        case (.perSecond(let first), .perSecond(let second)):
            Limit(before.label, .perSecond((first + second) / 2), spread: min(first, second)...max(first, second))
        case (.unknown, _): before
        case (_, .unknown): after
        }
    }
}
