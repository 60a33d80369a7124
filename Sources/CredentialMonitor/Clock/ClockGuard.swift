// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Logging
import NIOConcurrencyHelpers

/// Gives out the time only while it can be trusted. Code that deletes, expires or erases by age asks here, and waits if there is none.
package final class ClockGuard: Sendable {
    private let clock: WallClock
    private let uptime: @Sendable () -> Duration
    private let telemetry: Telemetry
    private let state: NIOLockedValueBox<State>

    private struct State {
        var trust: ClockTrust
        var isWrong = false
        var skew: Duration?
        var last: Observation?
    }

    private struct Observation: Equatable {
        var date: Timestamp
        /// By our clock.
        var second: Int64
    }

    package init(clock: WallClock, uptime: @escaping @Sendable () -> Duration, telemetry: Telemetry) {
        (self.clock, self.uptime, self.telemetry) = (clock, uptime, telemetry)
        state = NIOLockedValueBox(State(trust: ClockTrust(wall: clock.now, uptime: uptime())))
    }

    /// Now. Nil if the clock has stepped, differs from Apple's, or is not proven yet.
    package var trusted: Timestamp? { look() }

    /// Whether the clock is known to be wrong: it has stepped, or it differs from Apple's.
    var isWrong: Bool {
        look()
        return state.withLockedValue(\.isWrong)
    }

    /// Now by Apple's clock, to a second or two, as its last answer showed it. Until Apple has been heard, it is now by ours.
    package var appleTime: Timestamp { state.withLockedValue { $0.trust.appleTime(wall: clock.now, uptime: uptime()) } }

    /// Whether Apple has been heard, so that `appleTime` is not only our own.
    package var knowsAppleTime: Bool {
        state.withLockedValue { $0.trust.knowsAppleTime(wall: clock.now, uptime: uptime()) }
    }

    /// Whether Apple should be asked for its time: the clock has stepped since, or Apple's last answer had an odd date.
    package var needsApple: Bool {
        look()
        return state.withLockedValue(\.trust.needsApple)
    }

    /// How far Apple's clock is ahead of ours, to a second or two; nil until Apple has answered.
    package var skew: Duration? { state.withLockedValue(\.skew) }

    /// Takes in the `Date` of an answer that has just come, cut to whole seconds, and the duration of the exchange by a clock that never
    /// steps. After a freeze it may be long.
    package func observe(_ date: Timestamp, after duration: Duration) {
        let now = clock.now
        // Of thousands of answers in a second, one is enough.
        let observation = Observation(date: date, second: now.milliseconds / 1000)
        let isNew = state.withLockedValue { state in
            defer { state.last = observation }
            return state.last != observation
        }
        guard isNew else { return }
        var date = ClockTrust.time(of: date)
        let isExact = duration <= ClockTrust.longestExactExchange
        // Of the times that Apple's clock may show, the nearest to ours is no alarm.
        if !isExact { date = max(date, min(now, date.advanced(by: duration))) }
        let isBelieved = state.withLockedValue { [date] in
            $0.trust.hear(apple: date, isExact: isExact, wall: clock.now, uptime: uptime())
        }
        look()
        guard isBelieved else { return }
        let skew = now.duration(to: date)
        state.withLockedValue { $0.skew = skew }
        telemetry.gauge(.appleClockSkew, skew.inSeconds)
        // A skew ends only at half the limit, so that a clock at the limit is not reported every second.
        let (isOff, isRight) = (skew.magnitude > ClockTrust.noticedSkew, skew.magnitude < ClockTrust.noticedSkew / 2)
        guard isOff || isRight else { return }
        telemetry.episode(.clockSkewed, until: .clockRight, isOff ? "" : nil, ["duration_ms": "\(skew.milliseconds)"])
    }

    @discardableResult
    private func look() -> Timestamp? {
        let (now, doubt) = state.withLockedValue { state in
            let now = clock.now
            let doubt = state.trust.look(wall: now, uptime: uptime())
            if doubt != .unproven { state.isWrong = doubt != nil }
            return (now, doubt)
        }
        // Outside the lock, because work waits for the lock.
        telemetry.gauge(.clockHeld, doubt == nil ? 0 : 1)
        if doubt != .unproven {
            let details: Logger.Metadata = doubt.map { ["reason": "\($0.rawValue)"] } ?? [:]
            telemetry.episode(.clockDoubted, until: .clockTrusted, doubt.map { _ in "" }, details)
        }
        return doubt == nil ? now : nil
    }
}

extension Duration {
    fileprivate var magnitude: Duration { self < .zero ? .zero - self : self }
}
