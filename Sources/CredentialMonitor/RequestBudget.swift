// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
internal import NIOConcurrencyHelpers

/// How much of Apple an app may take up.
package struct RequestLimits: Sendable, Equatable {
    package var maxRequestsPerSecond: Double
    package var maxConcurrentRequests: Int

    package init(maxRequestsPerSecond: Double, maxConcurrentRequests: Int = 64) {
        self.maxRequestsPerSecond = maxRequestsPerSecond
        self.maxConcurrentRequests = maxConcurrentRequests
    }

    /// A fifth of a second's worth may gather while nobody asks.
    fileprivate var capacity: Double { max(maxRequestsPerSecond / 5, 1) }
}

/// How many requests an app may send now. Permits come first, then claims.
package final class RequestBudget: Sendable {
    private let state: NIOLockedValueBox<State>

    private struct State {
        var limits: RequestLimits
        /// Permits that may be taken now.
        var permits: Double
        var refilledAt: Timestamp?
        /// Apple asked for less.
        var throttled: Pause?
        /// Apple blamed our configuration.
        var blamed: Pause?
        /// Pauses in a row for that reason.
        var misconfigurations = 0
        /// The permit that is out is the one that tries whether the blame still holds.
        var isProbing = false
    }

    private struct Pause {
        var start: Timestamp
        var length: Duration

        /// A start that has yet to come is from a clock that has since been set back, and stalls nothing.
        func holds(at now: Timestamp) -> Bool {
            start <= now && now < start.advanced(by: length)
        }
    }

    /// How soon to look again when all permits are taken.
    static let refill = Duration.milliseconds(100)

    package init(_ limits: RequestLimits) {
        state = NIOLockedValueBox(State(limits: limits, permits: limits.capacity))
    }

    /// Changing them ends no pause.
    package var limits: RequestLimits {
        get { state.withLockedValue(\.limits) }
        set { state.withLockedValue { $0.limits = newValue } }
    }

    /// Takes up to `count` permits, none while the app is paused, and a single one to probe after its configuration was blamed.
    package func take(upTo count: Int, at now: Timestamp) -> Int {
        state.withLockedValue { state in
            guard !isPaused(state, at: now) else { return 0 }
            refill(&state, at: now)
            let isProbe = state.misconfigurations > 0
            let taken = min(isProbe ? min(count, 1) : count, Int(state.permits))
            state.permits -= Double(taken)
            state.isProbing = isProbe && taken > 0
            if state.isProbing {
                state.blamed = Pause(start: now, length: RefreshPolicy.pause(afterFailures: state.misconfigurations))
            }
            return taken
        }
    }

    package func giveBack(_ count: Int) {
        state.withLockedValue { state in
            state.permits = min(state.permits + Double(count), state.limits.capacity)
            // An unused probe may be taken at once.
            if count > 0, state.isProbing { state.blamed = nil }
        }
    }

    /// Whether claiming stopped for want of permits.
    package func isExhausted(at now: Timestamp) -> Bool {
        state.withLockedValue { state in
            refill(&state, at: now)
            return state.permits < 1 && !isPaused(state, at: now)
        }
    }

    package func pause(for duration: Duration, at now: Timestamp) {
        state.withLockedValue { $0.throttled = Pause(start: now, length: duration) }
    }

    /// Pauses after an answer that blames our configuration, ever longer. What was asked before a pause began counts with it: a
    /// hiccup that strikes all requests in flight is one.
    ///
    /// - Returns: how long the app is paused now; nil where it was already.
    package func pauseForMisconfiguration(askedAt: Timestamp, at now: Timestamp) -> Duration? {
        state.withLockedValue { state in
            if let blamed = state.blamed, blamed.holds(at: now), askedAt < blamed.start { return nil }
            state.misconfigurations += 1
            let length = RefreshPolicy.pause(afterFailures: state.misconfigurations)
            state.blamed = Pause(start: now, length: length)
            return length
        }
    }

    /// Ends the blame: after a 200, or because the configuration is another one.
    ///
    /// - Returns: whether the app was paused for its configuration.
    @discardableResult
    package func resume() -> Bool {
        state.withLockedValue { state in
            guard state.misconfigurations > 0 else { return false }
            state.misconfigurations = 0
            state.blamed = nil
            return true
        }
    }

    private func isPaused(_ state: State, at now: Timestamp) -> Bool {
        state.throttled?.holds(at: now) == true || state.blamed?.holds(at: now) == true
    }

    private func refill(_ state: inout State, at now: Timestamp) {
        let elapsed = state.refilledAt.map { max($0.duration(to: now), .zero).inSeconds } ?? 0
        state.refilledAt = now
        state.permits = min(state.permits + elapsed * state.limits.maxRequestsPerSecond, state.limits.capacity)
    }
}
