// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// A moment by Apple's clock, as whole milliseconds since 1970-01-01T00:00:00Z.
package struct Moment: Hashable, Sendable {
    package var milliseconds: Int64

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// Whole seconds, rounded down: the unit of `iat` and `exp`.
    package var seconds: Int64 { Int64((Double(milliseconds) / 1000).rounded(.down)) }

    /// The machine's time plus the lead of Apple's clock.
    package static func now(aheadBy offset: Duration = .zero) -> Moment {
        Moment(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) + offset
    }

    /// Later by a duration. A sum beyond the end of time is the end of time, because a test may script any moment.
    package static func + (moment: Moment, duration: Duration) -> Moment {
        let (sum, overflow) = moment.milliseconds.addingReportingOverflow(duration.wholeMilliseconds)
        return Moment(milliseconds: overflow ? (duration < .zero ? .min : .max) : sum)
    }

    package static func - (later: Moment, earlier: Moment) -> Duration {
        .milliseconds(later.milliseconds.subtractingReportingOverflow(earlier.milliseconds).partialValue)
    }
}

extension Moment: Comparable {
    package static func < (left: Moment, right: Moment) -> Bool { left.milliseconds < right.milliseconds }
}

/// A control route writes a moment as its bare number of milliseconds.
extension Moment: Codable {
    package init(from decoder: any Decoder) throws { try self.init(milliseconds: decoder.singleValueContainer().decode(Int64.self)) }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(milliseconds)
    }
}

extension Duration {
    /// Whole milliseconds, rounded towards zero.
    var wholeMilliseconds: Int64 { components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000 }
}
