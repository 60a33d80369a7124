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

    /// Claims up to `limit` credentials of an app whose check is due, longest due first.
    func claimDueCredentials(of app: String, upTo limit: Int, at now: Timestamp, policy: RefreshPolicy) async throws -> [DueCredential]

    /// Applies, logs and removes, all in one transaction.
    ///
    /// - Throws: `StoreError`; nothing of the batch is in the store then, unless it is `outcomeUnknown`.
    func settle(_ settlements: [Settlement], under rules: SettlementRules, at now: Timestamp) async throws -> SettledBatch
}

extension WorkStore {
    package func claimNotifications(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedNotification] {
        try await claimNotifications(upTo: limit, at: now, lease: lease, suspects: true)
    }
}

/// Keeps a store in shape: old evidence goes, erased tokens leave its files.
package protocol StoreMaintenance: Sendable {
    func maintain(at now: Timestamp) async throws
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

    package init(policy: RefreshPolicy, pollInterval: Duration, startedAt: Timestamp) {
        self.policy = policy
        self.pollInterval = pollInterval
        self.startedAt = startedAt
    }

    /// Longer than a code lives (five minutes): a grant that still waits by then is late for other reasons.
    package static let longestWaitForGrant = Duration.seconds(360)
    /// How often a grant of an unknown client is looked at.
    package static let unknownClientRetry = Duration.seconds(60)
    /// How long such a grant waits.
    package static let unknownClientExpiry = Duration.seconds(7 * 86_400)
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
    /// Reading or writing failed, and whether the commit happened is not known.
    case outcomeUnknown(String)
}
