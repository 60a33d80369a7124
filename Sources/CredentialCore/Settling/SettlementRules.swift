// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package struct SettlementRules: Sendable {
    package var policy: RefreshPolicy
    /// How soon siwatch looks again at a row that has begun to wait for a sign-in.
    package var pollInterval: Duration
    /// When this process last began to take sign-ins: at its start, or after it stood still. `longestWaitForGrant` counts from here or from
    /// the row's arrival, whichever is later.
    package var startedAt: Timestamp
    package var breaker: BreakerRules
    package var revocationLimit: RevocationLimitRules
    /// The users that an operator knows to be good, by app.
    package var canaries: [String: Set<String>]
    /// Finds forgotten users, at the cost of a keyed hash and a look-up for each sign-in and event. Without it, nobody counts as forgotten.
    package var pseudonymizer: (any UserPseudonymizer)?

    package init(
        policy: RefreshPolicy,
        pollInterval: Duration,
        startedAt: Timestamp,
        breaker: BreakerRules? = nil,
        revocationLimit: RevocationLimitRules = RevocationLimitRules(),
        canaries: [String: Set<String>] = [:],
        pseudonymizer: (any UserPseudonymizer)? = nil
    ) {
        (self.policy, self.pollInterval, self.startedAt) = (policy, pollInterval, startedAt)
        self.breaker = breaker ?? BreakerRules(policy: policy)
        (self.revocationLimit, self.canaries, self.pseudonymizer) = (revocationLimit, canaries, pseudonymizer)
    }

    package func isCanary(_ userID: String, of app: String) -> Bool { canaries[app]?.contains(userID) ?? false }

    /// When to look again at a request to revoke that waits for a sign-in of its user. The longer it has waited, or the further it is dated
    /// ahead, the rarer siwatch looks, so that thousands of waiting requests do not hold up the others. New events go before waiting ones
    /// anyway.
    func requestRetry(requestedAt: Timestamp, at now: Timestamp) -> Duration {
        let waited = requestedAt > now ? now.duration(to: requestedAt) : requestedAt.duration(to: now)
        guard waited < Self.longestWaitForGrant else { return Self.longestSignInRetry }
        // Not beyond the end of the wait for a sign-in that is not on its way.
        let retry = min(waited / 8, Self.longestWaitForGrant - waited)
        return max(retry, min(pollInterval, Self.longestSignInRetry))
    }

    /// The wait for a grant that is not on its way. A code lives for less: five minutes.
    package static let longestWaitForGrant = Duration.seconds(360)
    /// How often siwatch looks at a notification of an unknown client.
    package static let unknownClientRetry = Duration.seconds(60)
    /// How far ahead of Apple's clock a sign-in may be dated and is taken at once: an `iat` may be ahead by a second, and siwatch knows
    /// Apple's clock to a second and the time that an answer was on its way. Any other sign-in waits for its time. Taken sooner, it would
    /// count as newer than another sign-in of its user.
    package static let longestLead = Duration.seconds(3)
    /// How often siwatch looks at a grant that waits for its client. Rare, because many may wait: only a start makes a client known, and a
    /// start makes its grants due at once.
    static let waitingGrantRetry = Duration.seconds(6 * 3600)
    /// How often siwatch looks at a grant that waits for its time, because not its date but the clock may be wrong.
    static let aheadRetry = Duration.seconds(600)
    package static let longestGrantWait = Duration.seconds(7 * 86_400)
    /// The longest time between two looks at a row that waits for a sign-in.
    static let longestSignInRetry = Duration.seconds(60)
    /// How often siwatch looks at a request to revoke while another request revokes its tokens.
    static let repeatedRevocationRetry = Duration.seconds(30)
    /// How long a request for a token of an import waits for later lines, one of which may be a newer sign-in of the user.
    static let longestRestOfImport = Duration.seconds(3600)
    /// How long after a rejection the notification that explains it may come.
    package static let longestWaitForNotification = Duration.seconds(3600)
}
