// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A clock whose instants are timestamps. Sleeping, due times and tests share it.
///
/// It follows the machine's wall clock, so it may step. No loop sleeps on it for longer than a poll interval.
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

    /// The same clock with other hands.
    package func showing(_ now: @escaping @Sendable () -> Timestamp) -> WallClock { WallClock(now: now, sleep: wait) }

    package var now: Timestamp { read() }
    package var minimumResolution: Duration { .milliseconds(1) }

    package func sleep(until deadline: Timestamp, tolerance: Duration?) async throws {
        try await wait(deadline, tolerance)
    }
}
