// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Judges whether siwatch may delete by age under the wall clock, with a clock that never steps and with Apple's clock. The wall clock
/// should show what Apple's clock last showed, plus the time that has passed since. If Apple has not been heard for a week, siwatch
/// believes a wall clock that has not stepped for an hour.
package struct ClockTrust: Sendable {
    package enum Doubt: String, Sendable {
        /// The process is young and has not heard Apple.
        case unproven
        case stepped
        /// Apple's clock shows another time.
        case skewed
    }

    /// More than any clock drifts between two looks, and too little to do harm.
    static let largestStep = Duration.seconds(60)
    /// The greatest accepted difference from Apple's clock, as by default in `queues.clock_skew`.
    package static let largestSkew = Duration.seconds(300)
    package static let hold = Duration.seconds(3600)
    /// A skew that an operator hears of, because it makes new sign-ins wait.
    package static let noticedSkew = Duration.seconds(30)
    /// The longest exchange whose answer tells the time to a second or two. Nobody knows for how long a slower answer was on its way.
    package static let longestExactExchange = Duration.seconds(2)
    /// How long Apple's last date counts. After a week the clock that never steps may itself be off by a minute.
    private static let longestMemory = Duration.seconds(7 * 86_400)

    private var seen: (wall: Timestamp, uptime: Duration)
    private var steadySince: Duration
    private var hasStepped = false
    private var apple: (date: Timestamp, uptime: Duration)?
    /// Apple's clock, to a second or two.
    private var exact: (date: Timestamp, uptime: Duration)?
    /// An answer with another date than Apple's clock should show. A single server may be wrong; the next answer tells.
    private var stray: (date: Timestamp, uptime: Duration)?
    /// Whether the wall clock has stepped since. Or the clock that never steps stood still, with the machine.
    private(set) var hasSteppedSinceApple = false

    /// - Parameter uptime: the time of a clock that never steps.
    package init(wall: Timestamp, uptime: Duration) {
        seen = (wall, uptime)
        steadySince = uptime
    }

    /// Apple's clock by a `Date`, which is cut to the second: the middle of that second.
    package static func time(of date: Timestamp) -> Timestamp { date.advanced(by: .milliseconds(500)) }

    /// Takes in what Apple's clock shows, `isExact` if to a second or two, and says whether it is believed.
    @discardableResult
    package mutating func hear(apple date: Timestamp, isExact: Bool, wall: Timestamp, uptime: Duration) -> Bool {
        // A step that nobody has seen yet was before this.
        _ = look(wall: wall, uptime: uptime)
        // After a pause of the machine the wall clock may be right, and what Apple showed too late.
        let known = Self.carry(apple, to: uptime) ?? date
        if date.isFurther(than: Self.largestStep, from: known), date.isFurther(than: Self.largestStep, from: wall) {
            let last = Self.carry(stray, to: uptime)
            stray = (date, uptime)
            guard let last, !date.isFurther(than: Self.largestStep, from: last) else { return false }
        }
        stray = nil
        apple = (date, uptime)
        guard isExact else { return true }
        exact = (date, uptime)
        hasSteppedSinceApple = false
        return true
    }

    package var needsApple: Bool { hasSteppedSinceApple || stray != nil }

    /// The time by Apple's clock, as its last exact answer showed it. It is the time of the wall clock if there was none within a week. After
    /// a step it is the earlier of the two, because nobody knows which clock has stepped.
    package mutating func appleTime(wall: Timestamp, uptime: Duration) -> Timestamp {
        _ = look(wall: wall, uptime: uptime)
        guard let time = Self.carry(exact, to: uptime) else { return wall }
        return hasSteppedSinceApple ? min(wall, time) : time
    }

    /// Whether `appleTime` is Apple's, to `largestSkew` if no answer of the last week was exact.
    package mutating func knowsAppleTime(wall: Timestamp, uptime: Duration) -> Bool {
        let isRight = look(wall: wall, uptime: uptime) == nil
        return Self.carry(exact, to: uptime) != nil || isRight && Self.carry(apple, to: uptime) != nil
    }

    private static func carry(_ apple: (date: Timestamp, uptime: Duration)?, to uptime: Duration) -> Timestamp? {
        guard let apple, uptime - apple.uptime < longestMemory else { return nil }
        return apple.date.advanced(by: uptime - apple.uptime)
    }

    /// Looks at both clocks, and says why the wall clock cannot be trusted; nil if it can.
    package mutating func look(wall: Timestamp, uptime: Duration) -> Doubt? {
        let expected = seen.wall.advanced(by: uptime - seen.uptime)
        seen = (wall, uptime)
        if expected.isFurther(than: Self.largestStep, from: wall) {
            hasStepped = true
            steadySince = uptime
            hasSteppedSinceApple = true
        }
        if let right = Self.carry(apple, to: uptime) {
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
