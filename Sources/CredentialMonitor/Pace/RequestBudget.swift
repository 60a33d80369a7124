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
        /// Apple blamed clients.
        var pauses: ClientPauses

        var rate: Double { limits.maxRequestsPerSecond * share }
        /// A fifth of a second's worth may gather while nobody asks.
        var capacity: Double { max(rate / 5, 1) }
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
    ///   - longestPause: of a client, after answers that blame it, however often they come.
    ///   - lease: of the app's lane. The limits hold for a fleet, so only its owner has permits.
    package init(_ limits: RequestLimits, longestPause: Duration = RefreshPolicy.longestPause, lease: LaneLease = .endless) {
        self.lease = lease
        var state = State(limits: limits, permits: 0, pauses: ClientPauses(longest: longestPause))
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

    /// Takes up to `count` permits, none while Apple asked for patience or the app is another replica's.
    ///
    /// - Parameters:
    ///   - isProbing: whether the app's breaker is open: a single one then, in `BreakerRules.probeInterval`.
    ///   - goesFirst: whether what cannot be had now is kept for the same caller's next call.
    package func take(upTo count: Int, at now: Timestamp, isProbing: Bool = false, goesFirst: Bool = false) -> Int {
        state.withLockedValue { state in
            guard isOurs, state.throttled?.holds(at: now) != true else { return 0 }
            refill(&state, at: now)
            if isProbing, let probedAt = state.probedAt, Pause(start: probedAt, length: BreakerRules.probeInterval).holds(at: now) {
                return 0
            }
            let free = max(Int(state.permits) - (goesFirst ? 0 : state.wanted), 0)
            let taken = min(isProbing ? min(count, 1) : count, free)
            if goesFirst { state.wanted = min(count - taken, Int(state.capacity)) }
            state.permits -= Double(taken)
            if isProbing, taken > 0 { state.probedAt = now }
            return taken
        }
    }

    /// - Parameter isProbing: as they were taken. Another lane's permits say nothing of the probe.
    package func giveBack(_ count: Int, isProbing: Bool = false) {
        state.withLockedValue { state in
            state.permits = min(state.permits + Double(count), state.capacity)
            // An unused probe may be taken at once.
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
            return state.permits < 1 && state.throttled?.holds(at: now) != true
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

    /// Whether Apple asked for patience.
    package func isPaused(at now: Timestamp) -> Bool {
        state.withLockedValue { $0.throttled?.holds(at: now) ?? false }
    }

    // MARK: Clients that Apple blames

    /// How many questions may be claimed of each client that Apple blames: none in its pause, and one after it. Of all others any number.
    package func quotas(at now: Timestamp) -> [String: Int] {
        state.withLockedValue { $0.pauses.quotas(at: now) }
    }

    /// Whether nothing of a client is to be sent.
    package func isPaused(_ client: String, at now: Timestamp) -> Bool {
        state.withLockedValue { $0.pauses.holds(client, at: now) }
    }

    /// Whether a question of a client may be sent now, right before that: what was claimed before a pause is not, and after it one is.
    package func maySend(of client: String, at now: Timestamp) -> Bool {
        state.withLockedValue { $0.pauses.send(of: client, at: now) }
    }

    /// Pauses a client after an answer that blames it, ever longer.
    ///
    /// - Parameters:
    ///   - others: clients that wait with it, because nothing tells them apart.
    ///   - isForeign: whether a lane with a budget of its own asked. It begins a pause here, and lengthens none.
    ///   - askedAt: when the request was sent.
    /// - Returns: how long the client is paused now; nil where it was already.
    package func pause(
        _ client: String,
        and others: Set<String> = [],
        isForeign: Bool = false,
        askedAt: Timestamp,
        at now: Timestamp
    ) -> Duration? {
        state.withLockedValue { $0.pauses.blame(client, and: others, isForeign: isForeign, askedAt: askedAt, at: now) }
    }

    /// Has clients tried by single questions that Apple blamed before this process started.
    package func suspect(_ clients: Set<String>) {
        guard !clients.isEmpty else { return }
        state.withLockedValue { state in for client in clients { state.pauses.suspect(client) } }
    }

    /// Ends the blame of a client that Apple has accepted.
    ///
    /// - Returns: whether it was paused.
    package func resume(_ client: String) -> Bool {
        state.withLockedValue { $0.pauses.accept(client) }
    }

    /// Whether any client is blamed.
    package var isAnyBlamed: Bool { state.withLockedValue(\.pauses.isAnyBlamed) }

    /// Ends all blame: the configuration is another one.
    package func resume() {
        state.withLockedValue { state in
            state.pauses = ClientPauses(longest: state.pauses.longest)
            state.probedAt = nil
        }
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
