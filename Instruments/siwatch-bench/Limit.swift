// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What this machine could do at most, by a program that does one thing only.
struct Limit: Sendable {
    var label: String
    var reading: Reading
    /// How much the machine changed meanwhile, where that is known.
    var spread: ClosedRange<Double>?

    enum Reading: Sendable {
        case perSecond(Double)
        /// Could not be measured, and why.
        case unknown(String)
    }

    init(_ label: String, _ reading: Reading, spread: ClosedRange<Double>? = nil) {
        self.label = label
        self.reading = reading
        self.spread = spread
    }

    /// Several measurements of one limit. There must be one.
    static func median(_ label: String, _ rates: [Double]) -> Limit {
        Limit(label, .perSecond(rates.median), spread: rates.min()!...rates.max()!)
    }

    /// Two measurements of one limit, taken before and after what is compared with it: others use the machine too.
    static func mean(_ before: Limit, _ after: Limit) -> Limit {
        switch (before.reading, after.reading) {
        case (.perSecond(let first), .perSecond(let second)):
            Limit(before.label, .perSecond((first + second) / 2), spread: min(first, second)...max(first, second))
        case (.unknown, _): before
        case (_, .unknown): after
        }
    }
}
