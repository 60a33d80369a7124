// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers
import Synchronization

/// Apple's clock as its answers show it, beside ours: a wrong one makes client secrets invalid and new sign-ins wait.
package final class AppleClock: Sendable {
    private let clock: WallClock
    private let clockGuard: ClockGuard
    private let telemetry: Telemetry
    private let isSkewed = Atomic<Bool>(false)
    private let last = NIOLockedValueBox<Observation?>(nil)

    private struct Observation: Equatable {
        var date: Timestamp
        /// On our clock.
        var second: Int64
    }

    /// Half of what a client secret is dated back: beyond the whole of it Apple takes ours for tokens from the future.
    static let limit = Duration.seconds(30)

    package init(clock: WallClock, clockGuard: ClockGuard, telemetry: Telemetry) {
        self.clock = clock
        self.clockGuard = clockGuard
        self.telemetry = telemetry
    }

    /// - Parameter date: what an answer that has just come is dated, in whole seconds, cut off.
    package func observe(_ date: Timestamp) {
        let now = clock.now
        // Of thousands of answers in a second, one says it all.
        let observation = Observation(date: date, second: now.milliseconds / 1000)
        let isNew = last.withLockedValue { last in
            defer { last = observation }
            return last != observation
        }
        guard isNew else { return }
        let date = date.advanced(by: .milliseconds(500))
        clockGuard.hear(apple: date)
        let skew = now.duration(to: date)
        telemetry.appleClock(skew: skew)
        // Only well within the limit does an episode end, so that a clock at its edge is not news every second.
        let isOff = skew > Self.limit || skew < .zero - Self.limit
        let isRight = skew < Self.limit / 2 && skew > .zero - Self.limit / 2
        if isOff, !isSkewed.exchange(true, ordering: .relaxed) { telemetry.clockSkewed(skew) }
        if isRight, isSkewed.exchange(false, ordering: .relaxed) { telemetry.clockRight(skew) }
    }
}
