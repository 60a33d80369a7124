// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Whether the wall clock is right enough to forget by it, judged by a clock that never steps and by Apple's.
///
/// What Apple's clock showed, and the time that has passed since, say what the wall clock should show. Where Apple has not been heard
/// lately, a wall clock that has not stepped for an hour is believed.
package struct ClockTrust: Sendable {
    /// Why it cannot be told whether something is old.
    package enum Doubt: String, Sendable {
        /// The process is young and has not heard Apple.
        case unproven
        case stepped
        /// Apple's clock shows another time.
        case skewed
    }

    /// More than any clock drifts between two looks, and less than does harm.
    package static let largestStep = Duration.seconds(60)
    /// As far as clocks may differ by default (`queues.clock_skew`).
    package static let largestSkew = Duration.seconds(300)
    package static let hold = Duration.seconds(3600)
    /// After a week the clock that never steps may itself be off by a minute.
    private static let longestMemory = Duration.seconds(7 * 86_400)

    private var seen: (wall: Timestamp, uptime: Duration)
    private var steadySince: Duration
    private var hasStepped = false
    private var apple: (date: Timestamp, uptime: Duration)?

    /// - Parameter uptime: what a clock that never steps shows.
    package init(wall: Timestamp, uptime: Duration) {
        seen = (wall, uptime)
        steadySince = uptime
    }

    /// Takes in what Apple's clock shows.
    package mutating func hear(apple date: Timestamp, at uptime: Duration) {
        apple = (date, uptime)
    }

    /// Looks at both clocks.
    ///
    /// - Returns: why the wall clock cannot be trusted; nil where it can.
    package mutating func look(wall: Timestamp, uptime: Duration) -> Doubt? {
        let expected = seen.wall.advanced(by: uptime - seen.uptime)
        seen = (wall, uptime)
        if expected.isFurther(than: Self.largestStep, from: wall) {
            hasStepped = true
            steadySince = uptime
        }
        if let apple, uptime - apple.uptime < Self.longestMemory {
            let right = apple.date.advanced(by: uptime - apple.uptime)
            return right.isFurther(than: Self.largestSkew, from: wall) ? .skewed : nil
        }
        guard uptime - steadySince < Self.hold else { return nil }
        return hasStepped ? .stepped : .unproven
    }
}

extension Timestamp {
    fileprivate func isFurther(than distance: Duration, from other: Timestamp) -> Bool {
        let difference = duration(to: other)
        return difference > distance || difference < .zero - distance
    }
}
