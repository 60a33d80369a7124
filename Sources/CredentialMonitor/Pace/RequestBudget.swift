// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// How much of Apple an app may take up.
package struct RequestLimits: Sendable, Equatable {
    package var maxRequestsPerSecond: Double
    package var maxConcurrentRequests: Int

    package init(maxRequestsPerSecond: Double, maxConcurrentRequests: Int = 64) {
        self.maxRequestsPerSecond = maxRequestsPerSecond
        self.maxConcurrentRequests = maxConcurrentRequests
    }
}

/// How many requests an app may send now. Permits come first, then claims.
package final class RequestBudget: Sendable {
    private let state: NIOLockedValueBox<State>
    /// After blame.
    private let longestPause: Duration
    private let lease: LaneLease

    private struct State {
        var limits: RequestLimits
        /// Permits that may be taken now.
        var permits: Double
        var refilledAt: Timestamp?
        /// The share of the limit that Apple bears: halved when it struggles, and growing back.
        var share = 1.0
        /// When it was last halved.
        var slowedAt: Timestamp?
        /// Pieces of work that are under way, of lanes that share their hands among apps.
        var underWay = 0
        /// Permits that whoever goes first could not get, and is to have before others.
        var wanted = 0
        /// When the lane that probes last took a permit while the breaker was open. No other lane may touch it.
        var probedAt: Timestamp?
        /// Apple asked for less.
        var throttled: Pause?
        /// Apple blamed our configuration.
        var blamed: Pause?
        /// Pauses in a row for that reason.
        var misconfigurations = 0
        /// The permit that is out is the one that tries whether the blame still holds.
        var isProbing = false

        var rate: Double { limits.maxRequestsPerSecond * share }
        /// A fifth of a second's worth may gather while nobody asks.
        var capacity: Double { max(rate / 5, 1) }
    }

    private struct Pause {
        var start: Timestamp
        var length: Duration

        /// A start that has yet to come is from a clock that has since been set back, and stalls nothing.
        func holds(at now: Timestamp) -> Bool {
            start <= now && now < end
        }

        var end: Timestamp { start.advanced(by: length) }
    }

    /// How soon to look again when all permits are taken.
    static let refill = Duration.milliseconds(100)
    /// The rate is halved at most once in this time, so that one bad moment costs one half however many requests it strikes.
    private static let slowing = Duration.seconds(10)
    /// From nothing back to the limit, evenly.
    private static let recovery = Duration.seconds(300)
    /// It goes on, however long an outage lasts: somebody has to notice its end.
    private static let leastShare = 1.0 / 32

    /// - Parameters:
    ///   - longestPause: after an answer that blames our configuration, however often it comes.
    ///   - lease: of the app's lane. The limits hold for a fleet, so only its owner has permits.
    package init(_ limits: RequestLimits, longestPause: Duration = RefreshPolicy.longestPause, lease: LaneLease = .endless) {
        self.longestPause = longestPause
        self.lease = lease
        var state = State(limits: limits, permits: 0)
        state.permits = state.capacity
        self.state = NIOLockedValueBox(state)
    }

    /// Whether the app is asked for from here. Permits may be older than that, so it is looked at before each request.
    package var isOurs: Bool { lease.holds }

    /// What may be sent in a second now, on average.
    package func rate(at now: Timestamp) -> Double {
        state.withLockedValue { state in
            refill(&state, at: now)
            return state.rate
        }
    }

    /// Changing them ends no pause.
    package var limits: RequestLimits {
        get { state.withLockedValue(\.limits) }
        set { state.withLockedValue { $0.limits = newValue } }
    }

    /// Takes up to `count` permits, none while the app is paused or another replica's, and a single one to probe after its configuration was
    /// blamed.
    ///
    /// - Parameters:
    ///   - isProbing: whether the app's breaker is open: a single one then, in `BreakerRules.probeInterval`.
    ///   - goesFirst: whether what cannot be had now is kept for the same caller's next call.
    package func take(upTo count: Int, at now: Timestamp, isProbing: Bool = false, goesFirst: Bool = false) -> Int {
        state.withLockedValue { state in
            guard isOurs, !isPaused(state, at: now) else { return 0 }
            refill(&state, at: now)
            if isProbing, let probedAt = state.probedAt, Pause(start: probedAt, length: BreakerRules.probeInterval).holds(at: now) {
                return 0
            }
            let isProbe = state.misconfigurations > 0
            let free = max(Int(state.permits) - (goesFirst ? 0 : state.wanted), 0)
            let taken = min(isProbe || isProbing ? min(count, 1) : count, free)
            if goesFirst { state.wanted = min(count - taken, Int(state.capacity)) }
            state.permits -= Double(taken)
            if isProbing, taken > 0 { state.probedAt = now }
            state.isProbing = isProbe && taken > 0
            if state.isProbing {
                state.blamed = Pause(start: now, length: pause(afterFailures: state.misconfigurations))
            }
            return taken
        }
    }

    /// - Parameter isProbing: as they were taken. Another lane's permits say nothing of the probe.
    package func giveBack(_ count: Int, isProbing: Bool = false) {
        state.withLockedValue { state in
            state.permits = min(state.permits + Double(count), state.capacity)
            // An unused probe may be taken at once.
            if count > 0, state.isProbing { state.blamed = nil }
            if count > 0, isProbing { state.probedAt = nil }
        }
    }

    /// How many more pieces of work the app may have under way: in a lane for all apps, a slow one is not to have every hand.
    package var room: Int { state.withLockedValue { max($0.limits.maxConcurrentRequests - $0.underWay, 0) } }

    package func whileUnderWay<Result>(_ body: () async -> Result) async -> Result {
        state.withLockedValue { $0.underWay += 1 }
        defer { state.withLockedValue { $0.underWay -= 1 } }
        return await body()
    }

    /// Whether somebody who goes first has not had all.
    package var isWanted: Bool { state.withLockedValue { $0.wanted > 0 } }

    /// Whether claiming stopped for want of permits.
    package func isExhausted(at now: Timestamp) -> Bool {
        state.withLockedValue { state in
            refill(&state, at: now)
            return state.permits < 1 && !isPaused(state, at: now)
        }
    }

    /// Halves the rate, because Apple throttles or gives no answer. It grows back within minutes, never above the limit.
    ///
    /// - Parameter askedAt: when the request was sent that came to nothing. One sent before the last halving tells nothing new.
    package func slowDown(askedAt: Timestamp, at now: Timestamp) {
        state.withLockedValue { state in
            refill(&state, at: now)
            if let slowedAt = state.slowedAt, slowedAt <= now,
                askedAt < slowedAt || now < slowedAt.advanced(by: Self.slowing)
            {
                return
            }
            state.share = max(state.share / 2, Self.leastShare)
            state.slowedAt = now
            state.permits = min(state.permits, state.capacity)
        }
    }

    package func pause(for duration: Duration, at now: Timestamp) {
        state.withLockedValue { state in
            // Of many answers at once, the one that asks for the longest pause counts.
            if let throttled = state.throttled, throttled.holds(at: now), throttled.end > now.advanced(by: duration) { return }
            state.throttled = Pause(start: now, length: duration)
        }
    }

    /// Pauses after an answer that blames our configuration, ever longer. What was asked before a pause began counts with it: a
    /// hiccup that strikes all requests in flight is one.
    ///
    /// - Returns: how long the app is paused now; nil where it was already.
    package func pauseForMisconfiguration(askedAt: Timestamp, at now: Timestamp) -> Duration? {
        state.withLockedValue { state in
            if let blamed = state.blamed, blamed.holds(at: now), askedAt < blamed.start { return nil }
            state.misconfigurations += 1
            let length = pause(afterFailures: state.misconfigurations)
            state.blamed = Pause(start: now, length: length)
            return length
        }
    }

    private func pause(afterFailures failures: Int) -> Duration { min(RefreshPolicy.pause(afterFailures: failures), longestPause) }

    /// Ends the blame: after a 200, or because the configuration is another one.
    ///
    /// - Returns: whether the app was paused for its configuration.
    @discardableResult
    package func resume() -> Bool {
        state.withLockedValue { state in
            guard state.misconfigurations > 0 else { return false }
            state.misconfigurations = 0
            state.blamed = nil
            state.probedAt = nil
            return true
        }
    }

    /// Whether Apple asked for patience, or has blamed our configuration.
    package func isPaused(at now: Timestamp) -> Bool {
        state.withLockedValue { isPaused($0, at: now) }
    }

    private func isPaused(_ state: State, at now: Timestamp) -> Bool {
        state.throttled?.holds(at: now) == true || state.blamed?.holds(at: now) == true
    }

    private func refill(_ state: inout State, at now: Timestamp) {
        let sinceRefill = state.refilledAt.map { $0.duration(to: now) } ?? .zero
        // Somebody has looked at the clock before another, and comes after him: that time has brought its permits. A clock that was set
        // back is further off.
        if sinceRefill < .zero, sinceRefill > .seconds(-1) { return }
        let elapsed = max(sinceRefill, .zero).inSeconds
        state.refilledAt = now
        state.share = min(state.share + elapsed / Self.recovery.inSeconds, 1)
        state.permits = min(state.permits + elapsed * state.rate, state.capacity)
    }
}
