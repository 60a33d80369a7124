// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A moment as whole milliseconds since 1970-01-01T00:00:00Z, as the tables hold it. Never a `Double`, because facts are compared exactly
/// and ties have a meaning.
package struct Timestamp: Hashable, Comparable, Codable, InstantProtocol, Sendable {
    package var milliseconds: Int64

    package init(milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    /// Stops at the end of the range if the seconds do not fit.
    package init(seconds: Int64) {
        self.milliseconds = Int64(clamping: Int128(seconds) * 1000)
    }

    /// Earlier than every other moment.
    package static let earliest = Timestamp(milliseconds: .min)

    /// The moments that a table accepts, from 2019, when Sign in with Apple began: a value in seconds or microseconds falls outside.
    package static let legal = Timestamp(milliseconds: 1_546_300_800_000)...Timestamp(milliseconds: 4_102_444_800_000)

    package static func < (left: Timestamp, right: Timestamp) -> Bool { left.milliseconds < right.milliseconds }

    package typealias Duration = Swift.Duration

    package func advanced(by duration: Duration) -> Timestamp {
        Timestamp(milliseconds: Int64(clamping: Int128(milliseconds) + duration.wholeMilliseconds))
    }

    package func duration(to other: Timestamp) -> Duration {
        .milliseconds(Int128(other.milliseconds) - Int128(milliseconds))
    }

    // MARK: Coded as one whole number, as the tables hold it

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

    /// Whole milliseconds, rounded towards zero. Stops at the ends of the range if they do not fit.
    package var milliseconds: Int64 { Int64(clamping: wholeMilliseconds) }

    fileprivate var wholeMilliseconds: Int128 { attoseconds / 1_000_000_000_000_000 }

    /// Seconds as a floating-point number, the base unit of metrics.
    package var inSeconds: Double {
        // Converting 128 bits takes a microsecond. The nanoseconds of three centuries fit into 64 bits.
        if let nanoseconds = Int64(exactly: attoseconds / 1_000_000_000) { return Double(nanoseconds) / 1e9 }
        return Double(attoseconds) / 1e18
    }
}

/// The later of two moments. Nil is earlier than any moment.
package func latest(_ left: Timestamp?, _ right: Timestamp?) -> Timestamp? {
    guard let left else { return right }
    guard let right else { return left }
    return max(left, right)
}

/// Whether the left register is later than the right one. Nil on the left is never later; any moment is later than nil on the right.
package func isGreater(_ left: Timestamp?, than right: Timestamp?) -> Bool {
    guard let left else { return false }
    guard let right else { return true }
    return left > right
}

/// A clock whose instants are timestamps. It follows the machine's wall clock, so it may step: no loop sleeps on it beyond a poll interval.
package struct WallClock: Clock {
    package typealias Instant = Timestamp

    private let read: @Sendable () -> Timestamp
    private let wait: @Sendable (Timestamp, Duration?) async throws -> Void

    package init(
        now: @escaping @Sendable () -> Timestamp,
        sleep: @escaping @Sendable (_ deadline: Timestamp, _ tolerance: Duration?) async throws -> Void
    ) {
        self.read = now
        self.wait = sleep
    }

    package func showing(_ now: @escaping @Sendable () -> Timestamp) -> WallClock { WallClock(now: now, sleep: wait) }

    package var now: Timestamp { read() }
    package var minimumResolution: Duration { .milliseconds(1) }

    package func sleep(until deadline: Timestamp, tolerance: Duration?) async throws {
        try await wait(deadline, tolerance)
    }
}
