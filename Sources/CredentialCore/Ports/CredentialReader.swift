// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What the daemon takes over of pauses and breakers.
package protocol BreakerReader: Sendable {
    /// The breakers that have judged something, by app.
    func breakers() async throws -> [String: RejectionBreaker]
    /// Every app, by name.
    func apps() async throws -> [AppStatus]
}

/// What `status`, the metrics, `explain` and other commands ask of a store. But for what is counted, nothing here scans a table.
package protocol CredentialReader: BreakerReader {
    func queues() async throws -> [QueueStatus]
    func credentialCounts() async throws -> [CredentialCount]
    /// How many credentials of each app Apple had not confirmed for three intervals when it was last asked about them.
    func unverifiedCredentials() async throws -> [String: Int]
    /// The tokens of an app that Apple rejects and has never accepted, by user.
    func neverAcceptedTokens(of app: String) async throws -> [NeverAcceptedToken]
    /// The tokens of an app that Apple accepts as another user's, by user.
    func foreignTokens(of app: String) async throws -> [ForeignToken]
    /// How many tokens of an app are held that Apple has accepted from other teams than this one, by team, counted up to about `limit`.
    func tokens(of app: String, fromTeamsBesides teamID: String, upTo limit: Int) async throws -> [String: Int]
    /// How many rows of the queues of notifications and sign-ins could be taken now, by queue, counted up to `limit` for each lane.
    func dueRows(at now: Timestamp, upTo limit: Int) async throws -> [String: Int]
    /// Sign-ins that were looked at and put off, and those whose code waits: up to `limit` of each are counted.
    ///
    /// - Parameter time: what is dated later is ahead.
    func waitingGrants(datedAfter time: Timestamp, upTo limit: Int) async throws -> WaitingGrantCounts
    /// How Apple answers the checks of tokens, over the life of the database.
    func checks() async throws -> CheckStatus
    /// Every client, by app and name.
    func clients() async throws -> [ClientStatus]
    /// The clients that Apple refuses, by app and name, and what of each waits: up to `limit` of each kind are counted.
    func refusedClients(at now: Timestamp, upTo limit: Int) async throws -> [RefusedClient]
    /// Canaries without a token that could be asked about.
    func unknownCanaries(_ userIDs: [String], of app: String) async throws -> [String]
    /// How many credentials of each app were due before `time` and still wait, counted up to `limit` each.
    func overdueCredentials(before time: Timestamp, upTo limit: Int) async throws -> [String: Int]
    /// How many credentials of an app stand in the schedule. A count: it takes a second for ten million.
    func scheduledCredentials(of app: String) async throws -> Int
    /// Whether a client has a token that Apple could be asked about.
    func hasScheduledCredentials(clientID: String) async throws -> Bool
    func waitingRevocations() async throws -> WaitingRevocationCounts

    /// All that is known of a user, by every app.
    func history(of userID: String) async throws -> UserHistory
    /// What was asked to be revoked of a user, and what came of it.
    func revocations(of userID: String) async throws -> UserRevocations

    /// Notifications in quarantine, latest first.
    ///
    /// - Parameter id: those before it; nil for the first page.
    func quarantined(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [QuarantinedNotification]
    func quarantinedIDs(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [Int64]
    func quarantined(_ id: Int64) async throws -> QuarantinedNotification?
    /// By reason.
    func quarantineCounts() async throws -> [String: Int]
}
