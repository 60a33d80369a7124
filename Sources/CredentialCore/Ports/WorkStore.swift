// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Where work waits and state is kept: claim it, settle it.
///
/// A claim sets a row's due time to the end of its lease and counts an attempt, durably. A settlement is one transaction and returns
/// after the commit. Settling twice changes nothing: the second finds no claim that matches.
package protocol WorkStore: Sendable {
    /// Claims up to `limit` due notifications, oldest first. A row suspected of killing the process comes alone, and only if
    /// `suspects` allows: where nothing else is under way that it could take along.
    func claimNotifications(
        upTo limit: Int,
        at now: Timestamp,
        lease: Duration,
        suspects: Bool
    ) async throws -> [ClaimedNotification]

    /// Claims up to `limit` due grants that bring a token or nothing. Those with a code wait for their own lane.
    func claimGrants(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedGrant]

    /// Claims up to `limit` credentials of an app whose check is due, longest due first; those of `preferred` clients before all others.
    /// A pending rejection is no reason to ask before the daily check.
    func claimDueCredentials(
        of app: String,
        upTo limit: Int,
        at now: Timestamp,
        policy: RefreshPolicy,
        preferring preferred: Set<String>
    ) async throws -> [DueCredential]

    /// Claims the first check that comes next of each of these clients, up to `limit`, though it is not due yet.
    func claimFirstChecks(of clients: Set<String>, upTo limit: Int, at now: Timestamp, policy: RefreshPolicy) async throws
        -> [DueCredential]

    /// Claims up to `limit` pending rejections of an app that may be believed now, those first that have waited longest.
    func claimPendingRejections(
        of app: String,
        admittedBy admissions: [AdmissionRule],
        upTo limit: Int,
        at now: Timestamp,
        policy: RefreshPolicy
    ) async throws -> [DueCredential]

    /// Takes up to `limit` credentials of an app's canaries that have not been taken within `BreakerRules.canaryInterval`. Noted durably,
    /// so that a crash repeats none.
    func takeCanaries(_ userIDs: Set<String>, of app: String, upTo limit: Int, at now: Timestamp) async throws -> [DueCredential]

    /// Applies, logs and removes, all in one transaction.
    ///
    /// - Throws: `StoreError`; nothing of the batch is in the store then, unless it is `outcomeUnknown`.
    func settle(_ settlements: [Settlement], under rules: SettlementRules, at now: Timestamp) async throws -> SettledBatch
}

extension WorkStore {
    package func claimNotifications(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedNotification] {
        try await claimNotifications(upTo: limit, at: now, lease: lease, suspects: true)
    }

    package func claimDueCredentials(of app: String, upTo limit: Int, at now: Timestamp, policy: RefreshPolicy) async throws
        -> [DueCredential]
    {
        try await claimDueCredentials(of: app, upTo: limit, at: now, policy: policy, preferring: [])
    }
}

/// Keeps a store in shape: old evidence goes, erased tokens leave its files.
package protocol StoreMaintenance: Sendable {
    /// Deletes what has passed its retention. Only at a time that can be trusted.
    func forget(at now: Timestamp) async throws

    /// Makes what was erased unreadable in the files too.
    func sweep(at now: Timestamp) async throws

    /// Looks at the rejections that were believed an hour ago or earlier.
    ///
    /// - Returns: of how many of them no notification has come, by app. Each is counted once.
    func countMissedNotifications(at now: Timestamp) async throws -> [String: Int]
}

extension StoreMaintenance {
    package func maintain(at now: Timestamp) async throws {
        try await forget(at: now)
        try await sweep(at: now)
    }
}

/// Tells that somebody committed, in whatever process.
package protocol CommitWatch: Sendable {
    /// An element soon after each commit; several may share one. A hint and never a proof.
    func commits() -> AsyncStream<Void>
}

/// What the store needs to know to settle.
package struct SettlementRules: Sendable {
    package var policy: RefreshPolicy
    /// How soon an event is asked again while a newer grant of its user waits.
    package var pollInterval: Duration
    /// When this process became ready: the six minutes of such a wait count from here or from the row's arrival, whichever is later.
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
    /// How long a notification may come after the rejection that it explains.
    package static let longestWaitForNotification = Duration.seconds(3600)
}

package enum StoreError: Error, Sendable {
    /// Another connection holds the lock; later.
    case busy
    /// No space is left. It heals itself when space returns.
    case full
    /// This batch breaks a rule of the schema: repeating it cannot help.
    case refused(String)
    /// The file is not what SQLite wrote.
    case damaged(String)
    /// The system does not let this process write the file.
    case readOnly(String)
    /// Reading or writing failed, and whether the commit happened is not known.
    case outcomeUnknown(String)
}
