// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
internal import Synchronization

/// How many requests an app may send now. Permits come first, then claims.
package final class RequestBudget: Sendable {
    private let rate: Double
    private let capacity: Double
    private let state: Mutex<State>

    private struct State {
        /// Permits that may be taken now.
        var permits: Double
        var refilledAt: Timestamp?
        var pausedUntil: Timestamp?
        /// Answers in a row that blame our configuration.
        var misconfigurations = 0
    }

    /// How soon to look again when all permits are taken.
    static let refill = Duration.milliseconds(100)

    /// - Parameter maxRequestsPerSecond: the steady rate; a fifth of a second's worth may gather while nobody asks.
    package init(maxRequestsPerSecond: Double) {
        rate = maxRequestsPerSecond
        capacity = max(maxRequestsPerSecond / 5, 1)
        state = Mutex(State(permits: capacity))
    }

    /// Takes up to `count` permits, none while the app is paused, and a single one to probe after its configuration was blamed.
    package func take(upTo count: Int, at now: Timestamp) -> Int {
        state.withLock { state in
            if let pausedUntil = state.pausedUntil {
                // A pause further away than any is: the clock has been set back.
                guard now >= pausedUntil || pausedUntil > now.advanced(by: .seconds(86_400)) else { return 0 }
                state.pausedUntil = nil
            }
            refill(&state, at: now)
            let limit = state.misconfigurations > 0 ? min(count, 1) : count
            let taken = min(limit, Int(state.permits))
            state.permits -= Double(taken)
            if state.misconfigurations > 0, taken > 0 {
                state.pausedUntil = now.advanced(by: RefreshPolicy.pause(afterFailures: state.misconfigurations))
            }
            return taken
        }
    }

    package func giveBack(_ count: Int) {
        state.withLock { state in
            state.permits = min(state.permits + Double(count), capacity)
            // An unused probe may be taken at once.
            if count > 0, state.misconfigurations > 0 { state.pausedUntil = nil }
        }
    }

    /// Whether claiming stopped for want of permits.
    package func isExhausted(at now: Timestamp) -> Bool {
        state.withLock { state in
            refill(&state, at: now)
            return state.permits < 1 && state.pausedUntil == nil
        }
    }

    package func pause(for duration: Duration, at now: Timestamp) {
        state.withLock { $0.pausedUntil = latest($0.pausedUntil, now.advanced(by: duration)) }
    }

    /// - Returns: how long the app is paused now.
    func pauseForMisconfiguration(at now: Timestamp) -> Duration {
        state.withLock { state in
            state.misconfigurations += 1
            let pause = RefreshPolicy.pause(afterFailures: state.misconfigurations)
            state.pausedUntil = now.advanced(by: pause)
            return pause
        }
    }

    /// - Returns: whether the app was paused for its configuration.
    func resume() -> Bool {
        state.withLock { state in
            guard state.misconfigurations > 0 else { return false }
            state.misconfigurations = 0
            state.pausedUntil = nil
            return true
        }
    }

    private func refill(_ state: inout State, at now: Timestamp) {
        let elapsed = state.refilledAt.map { max($0.duration(to: now), .zero).inSeconds } ?? 0
        state.refilledAt = now
        state.permits = min(state.permits + elapsed * rate, capacity)
    }
}
