// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// Gives out the time only while it can be trusted. Code that deletes, expires or erases by age asks here, and waits if there is none.
package final class ClockGuard: Sendable {
    private let clock: WallClock
    private let uptime: @Sendable () -> Duration
    private let telemetry: Telemetry
    private let state: NIOLockedValueBox<State>

    private struct State {
        var trust: ClockTrust
        /// Whether the log has said that the clock is wrong.
        var isTold = false
    }

    /// - Parameter uptime: reads a clock that never steps.
    package init(clock: WallClock, uptime: @escaping @Sendable () -> Duration, telemetry: Telemetry) {
        self.clock = clock
        self.uptime = uptime
        self.telemetry = telemetry
        state = NIOLockedValueBox(State(trust: ClockTrust(wall: clock.now, uptime: uptime())))
    }

    /// Now. Nil if the clock has stepped, differs from Apple's, or is not proven yet.
    package var trusted: Timestamp? { look() }

    /// Whether the clock is known to be wrong: it has stepped, or it differs from Apple's.
    var isWrong: Bool {
        look()
        return state.withLockedValue(\.isTold)
    }

    /// Now by Apple's clock, to a second or two, as its last answer showed it. Until Apple has been heard, it is now by ours.
    package var appleTime: Timestamp {
        state.withLockedValue { $0.trust.appleTime(wall: clock.now, uptime: uptime()) }
    }

    /// Whether Apple has been heard, so that `appleTime` is not only our own.
    package var knowsAppleTime: Bool {
        state.withLockedValue { $0.trust.knowsAppleTime(wall: clock.now, uptime: uptime()) }
    }

    /// Whether Apple should be asked for its time: the clock has stepped since, or Apple's last answer had an odd date.
    package var needsApple: Bool {
        look()
        return state.withLockedValue(\.trust.needsApple)
    }

    /// Takes in the time of Apple's clock.
    ///
    /// - Returns: whether it is believed.
    func hear(apple date: Timestamp, isExact: Bool) -> Bool {
        let isBelieved = state.withLockedValue { $0.trust.hear(apple: date, isExact: isExact, wall: clock.now, uptime: uptime()) }
        look()
        return isBelieved
    }

    @discardableResult
    private func look() -> Timestamp? {
        let (now, doubt, wasTold) = state.withLockedValue { state in
            let (now, uptime) = (clock.now, uptime())
            let (doubt, wasTold) = (state.trust.look(wall: now, uptime: uptime), state.isTold)
            switch doubt {
            case .stepped, .skewed: state.isTold = true
            case .unproven: break
            case nil: state.isTold = false
            }
            return (now, doubt, wasTold)
        }
        // Outside the lock, because work waits for the lock.
        telemetry.clockHeld(doubt != nil)
        switch doubt {
        case .stepped?, .skewed?: if !wasTold { telemetry.clockDoubted(doubt!) }
        case .unproven?: break
        case nil: if wasTold { telemetry.clockTrusted() }
        }
        return doubt == nil ? now : nil
    }
}
