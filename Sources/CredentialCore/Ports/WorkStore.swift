// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Where work waits and state is kept: claim it, settle it.
///
/// A claim keeps a row from others until its lease ends and counts as an attempt, which outlives the process. A settlement is one
/// transaction and returns after the commit. Settling twice changes nothing: the second finds no claim that matches.
package protocol WorkStore: Sendable {
    /// Whether backends wait for its commits, and in no order: they have to be given their turn between two.
    var holdsBackendsUp: Bool { get }

    /// The longest that it may take to say anything, be it that it cannot: who has waited for less does not hang.
    var longestSilence: Duration { get }

    /// Claims up to `limit` due notifications, oldest first. A row suspected of killing the process comes alone, and only if
    /// `suspects` allows: where nothing else is under way that it could take along.
    func claimNotifications(
        upTo limit: Int,
        at now: Timestamp,
        lease: Duration,
        suspects: Bool
    ) async throws -> [ClaimedNotification]

    /// Claims up to `limit` due grants that bring a token or nothing. Those with a code have their own lane.
    func claimGrants(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedGrant]

    /// Claims up to `limit` due grants that bring a code, nearest deadline first: of each app as many as it has permits for, and besides
    /// those that are not to be sent, because their time is over or no app names their client. A row suspected of killing the process
    /// comes alone, and only if `suspects` allows.
    ///
    /// - Parameters:
    ///   - permits: by app.
    ///   - quotas: by client, the most that are claimed to be sent.
    func claimCodes(
        upTo limit: Int,
        permits: [String: Int],
        at now: Timestamp,
        lease: Duration,
        suspects: Bool,
        quotas: [String: Int]
    ) async throws -> [ClaimedCode]

    /// Claims up to `limit` due requests to revoke.
    func claimRevocationRequests(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedRevocationRequest]

    /// How many tokens wait to be revoked and are due, by app, up to `limit` each. Those of a paused app wait.
    ///
    /// - Parameter quotas: by client, the most that count.
    func dueRevocations(upTo limit: Int, at now: Timestamp, quotas: [String: Int]) async throws -> [String: Int]

    /// Claims tokens that are to be revoked, longest due first: of each app as many as it has permits for.
    ///
    /// - Parameters:
    ///   - permits: by app.
    ///   - quotas: by client, the most that are claimed.
    func claimRevocations(permits: [String: Int], at now: Timestamp, policy: RefreshPolicy, quotas: [String: Int]) async throws
        -> [DueRevocation]

    /// Whether that user is signed in at any client of the same app, or another row of `grant_queue` may say so.
    ///
    /// - Parameter row: the one that does not count.
    func isSignedIn(_ credential: CredentialID, besides row: Int64) async throws -> Bool

    /// When the app first asked, then or later, to revoke what that user has granted to it, while no such request is begun. Nil, too, where
    /// siwatch knows a sign-in or an event of the user that is not older. A proved revocation does not count: it is to end the sign-in.
    func firstRequestToRevoke(_ credential: CredentialID, since time: Timestamp) async throws -> Timestamp?

    /// Claims up to `limit` credentials of an app whose check is due, longest due first; those of `preferred` clients before all others.
    /// A pending rejection is no reason to ask before the daily check.
    ///
    /// - Parameters:
    ///   - firstChecks: how many of them may be first checks of new sign-ins, which go before a backlog. They take what the others leave
    ///     besides. With none, tokens that Apple has accepted before go before all others.
    ///   - quotas: by client, the most that are claimed.
    func claimDueCredentials(
        of app: String,
        upTo limit: Int,
        firstChecks: Int,
        at now: Timestamp,
        policy: RefreshPolicy,
        preferring preferred: Set<String>,
        quotas: [String: Int]
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
    ///
    /// - Parameter excluded: clients that are left alone.
    func takeCanaries(_ userIDs: Set<String>, of app: String, excluding excluded: Set<String>, upTo limit: Int, at now: Timestamp)
        async throws -> [DueCredential]

    /// Applies, logs and removes, all in one transaction.
    ///
    /// - Throws: `StoreError`; nothing of the batch is in the store then, unless it is `outcomeUnknown`.
    func settle(_ settlements: [Settlement], under rules: SettlementRules, at now: Timestamp) async throws -> SettledBatch
}

extension WorkStore {
    /// Claims where Apple blames no client.
    package func claimCodes(
        upTo limit: Int,
        permits: [String: Int],
        at now: Timestamp,
        lease: Duration,
        suspects: Bool
    ) async throws -> [ClaimedCode] {
        try await claimCodes(upTo: limit, permits: permits, at: now, lease: lease, suspects: suspects, quotas: [:])
    }

    package func dueRevocations(upTo limit: Int, at now: Timestamp) async throws -> [String: Int] {
        try await dueRevocations(upTo: limit, at: now, quotas: [:])
    }

    package func claimRevocations(permits: [String: Int], at now: Timestamp, policy: RefreshPolicy) async throws -> [DueRevocation] {
        try await claimRevocations(permits: permits, at: now, policy: policy, quotas: [:])
    }

    package func claimDueCredentials(
        of app: String,
        upTo limit: Int,
        firstChecks: Int,
        at now: Timestamp,
        policy: RefreshPolicy,
        preferring preferred: Set<String>
    ) async throws -> [DueCredential] {
        try await claimDueCredentials(
            of: app,
            upTo: limit,
            firstChecks: firstChecks,
            at: now,
            policy: policy,
            preferring: preferred,
            quotas: [:]
        )
    }

    package func takeCanaries(_ userIDs: Set<String>, of app: String, upTo limit: Int, at now: Timestamp) async throws -> [DueCredential] {
        try await takeCanaries(userIDs, of: app, excluding: [], upTo: limit, at: now)
    }
}

/// Tells that somebody committed, in whatever process.
package protocol CommitWatch: Sendable {
    /// An element soon after each commit; several may share one. A hint and never a proof.
    func commits() -> AsyncStream<Void>
}
