// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

package struct RequestLimits: Sendable, Equatable {
    package var maxRequestsPerSecond: Double
    package var maxConcurrentRequests: Int

    package init(maxRequestsPerSecond: Double, maxConcurrentRequests: Int = 64) {
        self.maxRequestsPerSecond = maxRequestsPerSecond
        self.maxConcurrentRequests = maxConcurrentRequests
    }
}

/// How many requests an app may send now. Lanes take permits first, then claim rows.
package final class RequestBudget: Sendable {
    private let state: NIOLockedValueBox<State>
    private let lease: LaneLease
    package let pauses: ClientPauses

    private struct State {
        var limits: RequestLimits
        var permits: Double
        var refilledAt: Timestamp?
        /// The share of the limit that is in use: halved when Apple struggles, then growing back.
        var share = 1.0
        var slowedAt: Timestamp?
        /// Pieces of work under way, in lanes that share their hands among apps.
        var underWay = 0
        /// Permits reserved for revocations, which go before checks.
        var wanted = 0
        /// When the refresh lane last took a probe's permit. No other lane may change it.
        var probedAt: Timestamp?
        var throttled: Pause?

        var rate: Double { limits.maxRequestsPerSecond * share }
        /// Unused permits gather up to the rate of a fifth of a second.
        var capacity: Double { max(rate / 5, 1) }
    }

    /// How soon to look again when all permits are taken.
    static let refill = Duration.milliseconds(100)
    /// The rate is halved at most once in this time, so that one bad moment costs one half, however many requests fail.
    private static let slowing = Duration.seconds(10)
    /// How long the share takes to grow, evenly, from nothing to the whole limit.
    private static let recovery = Duration.seconds(300)
    /// The share stays above zero, because some request has to notice the end of an outage.
    private static let leastShare = 1.0 / 32

    /// `longestPause` is that of a client. The limits hold for a fleet, so only the owner of the app's lane has permits.
    package init(_ limits: RequestLimits, longestPause: Duration = RefreshPolicy.longestPause, lease: LaneLease = .endless) {
        self.lease = lease
        pauses = ClientPauses(longest: longestPause)
        var state = State(limits: limits, permits: 0)
        state.permits = state.capacity
        self.state = NIOLockedValueBox(state)
    }

    /// Whether this replica asks Apple for the app. Check it before each request, because permits may be older than a change of owner.
    package var isOurs: Bool { lease.holds }

    package func rate(at now: Timestamp) -> Double {
        state.withLockedValue { state in
            refill(&state, at: now)
            return state.rate
        }
    }

    /// A change ends no pause.
    package var limits: RequestLimits {
        get { state.withLockedValue(\.limits) }
        set { state.withLockedValue { $0.limits = newValue } }
    }

    /// Takes up to `count` permits; none while Apple asks for patience or another replica owns the app. While the app is probed, there is
    /// one in each `BreakerRules.probeInterval`. Missing permits of a caller that goes first are kept for its next call.
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

    /// - Parameter isProbing: as the permits were taken. Other lanes' permits do not change the next probe.
    package func giveBack(_ count: Int, isProbing: Bool = false) {
        state.withLockedValue { state in
            state.permits = min(state.permits + Double(count), state.capacity)
            // An unused probe may be taken again at once.
            if count > 0, isProbing { state.probedAt = nil }
        }
    }

    /// How many more pieces of work the app may have under way. In a lane for all apps, a slow app must not take every hand.
    package var room: Int { state.withLockedValue { max($0.limits.maxConcurrentRequests - $0.underWay, 0) } }

    func whileUnderWay<Result>(_ body: () async -> Result) async -> Result {
        state.withLockedValue { $0.underWay += 1 }
        defer { state.withLockedValue { $0.underWay -= 1 } }
        return await body()
    }

    package var isWanted: Bool { state.withLockedValue { $0.wanted > 0 } }

    /// Whether claiming stopped because no permit is left.
    package func isExhausted(at now: Timestamp) -> Bool {
        state.withLockedValue { state in
            refill(&state, at: now)
            return state.permits < 1 && state.throttled?.holds(at: now) != true
        }
    }

    /// Halves the rate, because Apple throttles or gives no answer. It grows back within minutes. A request from before the last halving
    /// tells nothing new.
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
            // If several answers ask for a pause, the longest pause counts.
            if let throttled = state.throttled, throttled.holds(at: now), throttled.end > now.advanced(by: duration) { return }
            state.throttled = Pause(start: now, length: duration)
        }
    }

    package func isPaused(at now: Timestamp) -> Bool { state.withLockedValue { $0.throttled?.holds(at: now) ?? false } }

    package func resume() {
        pauses.forget()
        state.withLockedValue { $0.probedAt = nil }
    }

    private func refill(_ state: inout State, at now: Timestamp) {
        let sinceRefill = state.refilledAt.map { $0.duration(to: now) } ?? .zero
        // Another caller looked at the clock later but came first, and brought these permits. A clock that was set back is further off.
        if sinceRefill < .zero, sinceRefill > .seconds(-1) { return }
        let elapsed = max(sinceRefill, .zero).inSeconds
        state.refilledAt = now
        state.share = min(state.share + elapsed / Self.recovery.inSeconds, 1)
        state.permits = min(state.permits + elapsed * state.rate, state.capacity)
    }
}
