// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The queues and the state. A claim keeps a row from other processes until its lease ends. It counts as an attempt, which outlives the
/// process. A settlement is one transaction and returns after the commit. A second one finds no matching claim, so it changes nothing.
package protocol WorkStore: Sendable {
    /// Whether backends wait for the store's commits, in no fixed order. The writer then has to give them a turn between two commits.
    var holdsBackendsUp: Bool { get }
    /// The longest time until the store answers a call, even with a failure. A caller that has waited for less does not hang.
    var longestSilence: Duration { get }
    /// Claims up to `limit` due notifications, oldest first. A row that may kill the process comes alone, and only if `suspects` is true,
    /// so that no other work is lost with it.
    func claimNotifications(upTo limit: Int, at now: Timestamp, lease: Duration, suspects: Bool) async throws -> [ClaimedNotification]
    /// Claims up to `limit` due grants with a token or with neither token nor code. Grants with a code have their own lane.
    func claimGrants(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedGrant]

    /// Claims up to `limit` due grants with a code, nearest deadline first: of each app as many as it has permits, and of each client as
    /// many to send as its quota. It also claims codes that siwatch will not send, because their time is over or no app names their client.
    /// A row that may kill the process comes as a notification does.
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
    /// For each app, how many tokens to revoke are due, up to `limit` and the quotas of clients. Tokens of a paused app do not count,
    /// unless they are to be given up, because no app has their client. Those count only by a clock that can be trusted.
    func dueRevocations(upTo limit: Int, at now: Timestamp, trusted: Timestamp?, quotas: [String: Int]) async throws -> [String: Int]
    /// Claims tokens to revoke, longest due first: of each app as many as it has permits, of each client as many as its quota.
    func claimRevocations(
        permits: [String: Int],
        at now: Timestamp,
        trusted: Timestamp?,
        policy: RefreshPolicy,
        quotas: [String: Int]
    ) async throws -> [DueRevocation]

    /// Whether the user is signed in at any client of the same app, or another row of `grant_queue` than this one may say so.
    func isSignedIn(_ credential: CredentialID, besides row: Int64) async throws -> Bool

    /// When the app first asked, at `time` or later, to revoke the user's tokens, of the requests that siwatch has not opened. Nil if there
    /// is none, or if siwatch knows a sign-in or an event of the user that is not older. A proved revocation does not count, because it
    /// should end the sign-in.
    func firstRequestToRevoke(_ credential: CredentialID, since time: Timestamp) async throws -> Timestamp?

    /// Claims up to `limit` credentials of an app whose check is due, longest due first; credentials of `preferred` clients go before all
    /// others. A pending rejection does not bring the daily check forward.
    ///
    /// - Parameter firstChecks: how many may be first checks of new sign-ins, which go before a backlog, and into places that others leave
    ///   free.
    ///   If it is 0, tokens that Apple has accepted before go before all others.
    func claimDueCredentials(
        of app: String,
        upTo limit: Int,
        firstChecks: Int,
        at now: Timestamp,
        policy: RefreshPolicy,
        preferring preferred: Set<String>,
        quotas: [String: Int]
    ) async throws -> [DueCredential]

    /// Claims the next first check of each of these clients, up to `limit`, even before it is due.
    func claimFirstChecks(of clients: Set<String>, upTo limit: Int, at now: Timestamp, policy: RefreshPolicy) async throws
        -> [DueCredential]

    /// Claims up to `limit` pending rejections of an app that may be believed now, longest waiting first.
    func claimPendingRejections(
        of app: String,
        admittedBy admissions: [AdmissionRule],
        upTo limit: Int,
        at now: Timestamp,
        policy: RefreshPolicy
    ) async throws -> [DueCredential]

    /// Takes up to `limit` credentials of an app's canaries that were not taken within `BreakerRules.canaryInterval`. Stores this durably,
    /// so that a crash repeats none.
    func takeCanaries(_ userIDs: Set<String>, of app: String, excluding excluded: Set<String>, upTo limit: Int, at now: Timestamp)
        async throws -> [DueCredential]

    /// Applies and logs the settlements and removes their rows, in one transaction. After any error but `outcomeUnknown` nothing is kept.
    func settle(_ settlements: [Settlement], under rules: SettlementRules, at now: Timestamp) async throws -> SettlementChanges
}

/// Reports commits of any process.
package protocol CommitWatch: Sendable {
    /// Yields soon after each commit; several commits may share an element. A hint, not a proof.
    func commits() -> AsyncStream<Void>
}
