// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Reads the pauses and breakers that the daemon takes over.
package protocol BreakerReader: Sendable {
    /// The breakers that have judged something, by app.
    func breakers() async throws -> [String: RejectionBreaker]
    func apps() async throws -> [AppStatus]
}

/// Reads a store for `status`, the metrics, `explain` and other commands. Only counts and the backlog scan a table.
package protocol CredentialReader: BreakerReader {
    func clients() async throws -> [ClientStatus]
    func overview(_ question: Overview.Question) async throws -> Overview
    /// A page of the tokens of an app that Apple rejects and has never accepted, by user and client, after the last token of the page
    /// before.
    func neverAcceptedTokens(of app: String, after last: CredentialID?, upTo limit: Int) async throws -> [AnsweredToken]
    /// Likewise of the tokens that Apple accepts as another user's.
    func foreignTokens(of app: String, after last: CredentialID?, upTo limit: Int) async throws -> [AnsweredToken]
    /// Likewise of the tokens that Apple had accepted and rejects now, which siwatch does not believe yet.
    func doubtedTokens(of app: String, after last: CredentialID?, upTo limit: Int) async throws -> [AnsweredToken]
    /// For each app, how many credentials were due before `time` and still wait, counted up to `limit`.
    func overdueCredentials(before time: Timestamp, upTo limit: Int) async throws -> [String: Int]
    /// How many credentials of an app are in the schedule. It counts them, which takes a second for ten million.
    func scheduledCredentials(of app: String) async throws -> Int
    /// The users of the newest settled sign-ins, latest first. Empty for one that names nobody.
    func newestSignIns(upTo limit: Int) async throws -> [String]
    /// All known facts about a user; of each log and queue, the newest rows.
    func history(of userID: String, upTo limit: Int) async throws -> UserHistory
    /// All rows that name a user, in one app or in all. `isNamed` says whether a notification that is not verified names the user.
    func personalData(
        of userID: String,
        in app: String?,
        where isNamed: @escaping @Sendable (_ payload: [UInt8]) -> Bool
    ) async throws -> PersonalData
    /// All requests to revoke a user's tokens, with their results.
    func revocations(of userID: String) async throws -> UserHistory
    /// All requests to revoke that were made from `since` up to `until`, oldest first. It reads the log from end to end.
    func revocationsRequested(since: Timestamp, until: Timestamp) async throws -> [RequestedRevocation]
    /// Notifications in quarantine, latest first: those before one of them, or from the newest.
    func quarantined(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [QuarantinedNotification]
    func quarantinedIDs(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [Int64]
    func quarantined(_ id: Int64) async throws -> QuarantinedNotification?
    func quarantineCounts() async throws -> [String: Int]
}
