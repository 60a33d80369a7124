// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A moment as whole milliseconds since 1970-01-01T00:00:00Z, as the tables hold it.
///
/// Facts are ordered by exact comparison and ties have a meaning, so a moment is an integer and never a `Double`.
package struct Timestamp: Hashable, Sendable {
    package var milliseconds: Int64

    package init(milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    /// The end of time where so many seconds do not fit.
    package init(seconds: Int64) {
        self.milliseconds = Int64(clamping: Int128(seconds) * 1000)
    }

    /// Before any that can be told.
    package static let earliest = Timestamp(milliseconds: .min)

    /// The moments that a table accepts: 2019, when Sign in with Apple began, to 2100.
    /// Seconds or microseconds in place of milliseconds fall outside.
    package static let legal = Timestamp(milliseconds: 1_546_300_800_000)...Timestamp(milliseconds: 4_102_444_800_000)
}

extension Timestamp: Comparable {
    package static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.milliseconds < right.milliseconds
    }
}

extension Timestamp: InstantProtocol {
    package typealias Duration = Swift.Duration

    /// Stops at the end of time.
    package func advanced(by duration: Duration) -> Timestamp {
        Timestamp(milliseconds: Int64(clamping: Int128(milliseconds) + duration.wholeMilliseconds))
    }

    package func duration(to other: Timestamp) -> Duration {
        .milliseconds(Int128(other.milliseconds) - Int128(milliseconds))
    }
}

/// As the tables hold it: a whole number.
extension Timestamp: Codable {
    package init(from decoder: any Decoder) throws {
        milliseconds = try decoder.singleValueContainer().decode(Int64.self)
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(milliseconds)
    }
}

extension Duration {
    package static func minutes(_ count: Int) -> Duration { .seconds(count * 60) }
    package static func hours(_ count: Int) -> Duration { .minutes(count * 60) }
    package static func days(_ count: Int) -> Duration { .hours(count * 24) }

    /// Whole milliseconds, rounded towards zero; the ends of the range where it does not fit.
    package var milliseconds: Int64 { Int64(clamping: wholeMilliseconds) }

    fileprivate var wholeMilliseconds: Int128 { attoseconds / 1_000_000_000_000_000 }

    /// Seconds as a floating-point number, the base unit of metrics.
    package var inSeconds: Double {
        // To convert 128 bits takes a microsecond. What is shorter than three centuries has fewer, to the nanosecond.
        if let nanoseconds = Int64(exactly: attoseconds / 1_000_000_000) { return Double(nanoseconds) / 1e9 }
        return Double(attoseconds) / 1e18
    }
}

/// The greater of two moments, where an absent one is less than any.
package func latest(_ left: Timestamp?, _ right: Timestamp?) -> Timestamp? {
    guard let left else { return right }
    guard let right else { return left }
    return max(left, right)
}

/// Whether a register stands strictly above another: an absent one on the left never does, an absent one on the right always gives way.
package func isGreater(_ left: Timestamp?, than right: Timestamp?) -> Bool {
    guard let left else { return false }
    guard let right else { return true }
    return left > right
}
