// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Reads the pauses and breakers that the daemon takes over.
package protocol BreakerReader: Sendable {
    /// The breakers that have judged something, by app.
    func breakers() async throws -> [String: RejectionBreaker]
    /// Every app, by name.
    func apps() async throws -> [AppStatus]
}

/// Reads a store for `status`, the metrics, `explain` and other commands. Only the counts scan a table.
package protocol CredentialReader: BreakerReader {
    /// The last sign of life of any siwatch. Nil if there is none.
    var aliveAt: Timestamp? { get async throws }
    /// When `siwatch backup` last wrote a copy, or noted another program's. Nil if it never has.
    var backedUpAt: Timestamp? { get async throws }
    func queues() async throws -> [QueueStatus]
    func credentialCounts() async throws -> [CredentialCount]
    /// For each app, the credentials that Apple had not confirmed for three intervals when siwatch last asked about them.
    func unverifiedCredentials() async throws -> [String: Int]
    /// A page of the tokens of an app that Apple rejects and has never accepted, by user and client.
    ///
    /// - Parameter last: the last token of the page before; nil for the first page.
    func neverAcceptedTokens(of app: String, after last: CredentialID?, upTo limit: Int) async throws -> [NeverAcceptedToken]
    /// A page of the tokens of an app that Apple accepts as another user's, by user and client.
    ///
    /// - Parameter last: the last token of the page before; nil for the first page.
    func foreignTokens(of app: String, after last: CredentialID?, upTo limit: Int) async throws -> [AnsweredToken]
    /// A page of the tokens of an app that Apple had accepted and rejects now, which siwatch does not believe yet. By user and client.
    ///
    /// - Parameter last: the last token of the page before; nil for the first page.
    func doubtedTokens(of app: String, after last: CredentialID?, upTo limit: Int) async throws -> [AnsweredToken]
    /// For each other team, how many of an app's tokens Apple has accepted from that team, counted up to about `limit`.
    func tokens(of app: String, fromTeamsBesides teamID: String, upTo limit: Int) async throws -> [String: Int]
    /// For the queues of notifications and sign-ins, how many rows could be taken now, counted up to `limit` for each lane.
    func dueRows(at now: Timestamp, upTo limit: Int) async throws -> [String: Int]
    /// The postponed sign-ins and the sign-ins with a waiting code, counted up to `limit` each.
    func waitingGrants(at now: Timestamp, upTo limit: Int) async throws -> WaitingGrantCounts
    /// Where five or more of a client's newest twenty sign-ins since a time were rejected, and four in five for one reason, or because
    /// Apple's answer was lost.
    func rejectedSignIns(since time: Timestamp) async throws -> [RejectedSignIns]
    /// How Apple answers the checks of tokens, over the life of the database.
    func checks() async throws -> CheckStatus
    /// Every client, by app and name.
    func clients() async throws -> [ClientStatus]
    /// The clients that Apple refuses, by app and name, with their waiting work, counted up to `limit` of each kind.
    func refusedClients(at now: Timestamp, upTo limit: Int) async throws -> [RefusedClient]
    /// The canaries of which no client has a token to ask about.
    func unknownCanaries(_ userIDs: [String], of app: String) async throws -> [String]
    /// For each app, how many credentials were due before `time` and still wait, counted up to `limit`.
    func overdueCredentials(before time: Timestamp, upTo limit: Int) async throws -> [String: Int]
    /// How many credentials of an app are in the schedule. It counts them, which takes a second for ten million.
    func scheduledCredentials(of app: String) async throws -> Int
    /// Whether a client has a token to ask Apple about.
    func hasScheduledCredentials(clientID: String) async throws -> Bool
    func waitingRevocations() async throws -> WaitingRevocationCounts
    /// When the last notifications arrived that siwatch has verified, latest first.
    func newestNotifications(upTo limit: Int) async throws -> [Timestamp]
    /// The users of the newest settled sign-ins, latest first. Empty for one that names nobody.
    func newestSignIns(upTo limit: Int) async throws -> [String]

    /// All known facts about a user, by app.
    /// - Parameter limit: of each log and queue, the newest rows.
    func history(of userID: String, upTo limit: Int) async throws -> UserHistory
    /// All rows that name a user, whole, for the user's own request.
    ///
    /// - Parameters:
    ///   - app: only rows of this app; nil for all.
    ///   - isNamed: whether a notification that is not verified names the user.
    func personalData(
        of userID: String,
        in app: String?,
        where isNamed: @escaping @Sendable (_ payload: [UInt8]) -> Bool
    ) async throws -> PersonalData
    /// The requests to revoke a user's tokens, and their results.
    func revocations(of userID: String) async throws -> UserRevocations

    /// Notifications in quarantine, latest first.
    ///
    /// - Parameter id: the notifications before this one; nil for the first page.
    func quarantined(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [QuarantinedNotification]
    func quarantinedIDs(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [Int64]
    func quarantined(_ id: Int64) async throws -> QuarantinedNotification?
    /// By reason.
    func quarantineCounts() async throws -> [String: Int]
}
