// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What the store needs to know to settle.
package struct SettlementRules: Sendable {
    package var policy: RefreshPolicy
    /// How soon an event is asked again while a newer grant of its user waits.
    package var pollInterval: Duration
    /// When this process last began to take sign-ins: at its start, or after it stood still. The six minutes of such a wait count from here or
    /// from the row's arrival, whichever is later.
    package var startedAt: Timestamp
    package var breaker: BreakerRules
    /// The users whom an operator knows to be good, by app.
    package var canaries: [String: Set<String>]

    package init(
        policy: RefreshPolicy,
        pollInterval: Duration,
        startedAt: Timestamp,
        breaker: BreakerRules? = nil,
        canaries: [String: Set<String>] = [:]
    ) {
        self.policy = policy
        self.pollInterval = pollInterval
        self.startedAt = startedAt
        self.breaker = breaker ?? BreakerRules(policy: policy)
        self.canaries = canaries
    }

    package func isCanary(_ userID: String, of app: String) -> Bool { canaries[app]?.contains(userID) ?? false }

    /// Longer than a code lives (five minutes): a grant that still waits by then is late for other reasons.
    package static let longestWaitForGrant = Duration.seconds(360)
    /// How often a notification of an unknown client is looked at.
    package static let unknownClientRetry = Duration.seconds(60)
    /// How often a grant is looked at that waits for its client, or for its time where that is further off. Seldom, because they may be
    /// many: only a start makes a client known, and that makes its grants due at once.
    package static let waitingGrantRetry = Duration.seconds(6 * 3600)
    /// How long such grants wait.
    package static let longestGrantWait = Duration.seconds(7 * 86_400)
    /// How often a request to revoke is looked at that has waited for a sign-in for as long as an event waits.
    package static let lateSignInRetry = Duration.seconds(60)
    /// How often a request to revoke is looked at whose tokens another one is revoking.
    package static let repeatedRevocationRetry = Duration.seconds(30)
    /// How long a notification may come after the rejection that it explains.
    package static let longestWaitForNotification = Duration.seconds(3600)
}
