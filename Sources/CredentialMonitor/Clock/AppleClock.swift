// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers
import Synchronization

/// Compares our clock with Apple's, as its answers show it. A wrong clock makes new sign-ins wait.
package final class AppleClock: Sendable {
    private let clock: WallClock
    private let clockGuard: ClockGuard
    private let telemetry: Telemetry
    private let isSkewed = Atomic<Bool>(false)
    private let last = NIOLockedValueBox<Observation?>(nil)

    private let lastSkew = NIOLockedValueBox<Duration?>(nil)

    private struct Observation: Equatable {
        var date: Timestamp
        /// By our clock.
        var second: Int64
    }

    /// A skew that an operator hears of.
    static let limit = Duration.seconds(30)

    package init(clock: WallClock, clockGuard: ClockGuard, telemetry: Telemetry) {
        self.clock = clock
        self.clockGuard = clockGuard
        self.telemetry = telemetry
    }

    /// How far Apple's clock is ahead of ours, to a second or two; nil until Apple has answered.
    package var skew: Duration? { lastSkew.withLockedValue { $0 } }

    /// The longest exchange whose answer tells the time to a second or two.
    static let longestExactExchange = Duration.seconds(2)

    /// - Parameters:
    ///   - date: the `Date` of an answer that has just come, cut to whole seconds.
    ///   - duration: from the beginning of the exchange, by a clock that never steps. After a freeze it may be long.
    package func observe(_ date: Timestamp, after duration: Duration) {
        let now = clock.now
        // Of thousands of answers in a second, one is enough.
        let observation = Observation(date: date, second: now.milliseconds / 1000)
        let isNew = last.withLockedValue { last in
            defer { last = observation }
            return last != observation
        }
        guard isNew else { return }
        var date = date.advanced(by: .milliseconds(500))
        let isExact = duration <= Self.longestExactExchange
        // Nobody knows for how long a slow answer was on its way. Of the times that Apple's clock may show, the nearest to ours is no alarm.
        if !isExact { date = max(date, min(now, date.advanced(by: duration))) }
        guard clockGuard.hear(apple: date, isExact: isExact) else { return }
        let skew = now.duration(to: date)
        lastSkew.withLockedValue { $0 = skew }
        telemetry.appleClock(skew: skew)
        // A skew ends only at half the limit, so that a clock at the limit is not reported every second.
        let isOff = skew > Self.limit || skew < .zero - Self.limit
        let isRight = skew < Self.limit / 2 && skew > .zero - Self.limit / 2
        if isOff, !isSkewed.exchange(true, ordering: .relaxed) { telemetry.clockSkewed(skew) }
        if isRight, isSkewed.exchange(false, ordering: .relaxed) { telemetry.clockRight(skew) }
    }
}
