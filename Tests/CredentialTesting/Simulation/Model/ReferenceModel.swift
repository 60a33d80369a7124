// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The required contents of the tables, derived from the committed facts alone.
///
/// It holds sets of facts, and the oracle derives the tables from them. It shares no code with the program. Its facts come from their
/// makers: sign-ins from backends, events and answers from Apple.
struct ReferenceModel {
    struct GrantRow {
        var credential: CredentialID
        var grantedAt: Timestamp
        var token: String?
        var address: String?
        var held: Claim?
        /// When its claim ends.
        var heldUntil = Timestamp.earliest
        /// How far ahead it was dated when the process judged it, as far as the process knew Apple's clock, beyond what siwatch allows.
        var lead = Duration.zero
        /// When siwatch may take it, as far as the process knew Apple's clock then. By our clock.
        var takenFrom = Timestamp.earliest
        /// siwatch leaves it alone until then.
        var putOffUntil: Timestamp?
        /// Whether siwatch leaves it alone for its date, and not for its client.
        var waitsForItsTime = false
        var code: CodeRow?
        /// Whether siwatch has not tried it yet.
        var isUntried = true

        /// Whether events must wait for it, because siwatch takes it within six minutes.
        func comesSoon(at now: Timestamp) -> Bool {
            code != nil || held != nil || putOffUntil.map { $0 <= now.advanced(by: .seconds(360)) } ?? true
        }
    }

    struct NotificationRow {
        var post: ScriptedApple.Post
        var receivedAt: Timestamp
        var held: Claim?
    }

    typealias Token = Oracle.Token

    struct Facts {
        var grants: Set<Timestamp> = []
        var tokens: Set<Token> = []
        var texts: [Token: String] = [:]
        /// The token before the newest one, with its clear text while siwatch keeps it.
        var former: (token: Token, text: String?)?
        /// Tokens that turned out to be invalid, so that siwatch took the previous one again.
        var setAside: Set<Token> = []
        var answers: [Oracle.Answer] = []
        /// When Apple accepted each token, and for which team.
        var teams: [Token: [Acceptance]] = [:]
        /// Requests to revoke after which siwatch found this client's token dead.
        var revocations: Set<Timestamp> = []
        var revokedTokens: Set<Token> = []
        var held: Claim?
        /// When the retention erased the rejected token.
        var swept: Token?
        /// The rejected token that an operator wants to recheck.
        var rechecked: Token?
        /// Tokens with a receipt of any outcome.
        var answeredTokens: Set<Token> = []
    }

    struct Acceptance {
        var at: Timestamp
        var team: String
    }

    struct UserFacts {
        var consentRevoked: Set<Timestamp> = []
        var deleted: Set<Timestamp> = []
        /// Requests to revoke with a proof, at any client. Each ended all of the user's sign-ins before it.
        var revoked: Set<Timestamp> = []
        /// Requests to revoke after which siwatch found any client's token dead. The address goes with that token.
        var ended: Set<Timestamp> = []
        var mails: [Oracle.Mail] = []
        var relays: [Oracle.Relay] = []
        var logged: Set<String> = []
        /// From when the answered requests to revoke count, and those among them that had tokens.
        var requests: Set<Timestamp> = []
        var requestsWithTokens: Set<Timestamp> = []
    }

    let appOfClient: [String: String]
    /// A client missing from the present configuration.
    private var dropped: String?
    var grantRows: [Int64: GrantRow] = [:]
    var notificationRows: [Int64: NotificationRow] = [:]
    private(set) var grantsIn = 0
    private(set) var notificationsIn = 0
    /// The times of each credential's sign-ins, as far as siwatch can know them.
    var inserted: [CredentialID: Set<Timestamp>] = [:]
    /// Credentials with a grant that siwatch quarantined unread.
    var poisoned: Set<CredentialID> = []
    var facts: [CredentialID: Facts] = [:]
    var userFacts: [String: UserFacts] = [:]
    /// Waiting requests to revoke, by row number, and their number ever.
    var requestRows: [Int64: RequestRow] = [:]
    var requestsIn = 0
    /// By app; absent for an app without a request since an operator's last decision.
    var revocationLimits: [String: RevocationLimit] = [:]
    /// The apps whose limit the present process has read.
    var limitsKnown: Set<String> = []
    /// By user, the times of planted revocations that a batch has closed: to the rest of the batch they count as requests.
    var plantedInBatch: [String: [Timestamp]] = [:]
    /// Requests that siwatch must repeat for a token that it was told of later. Their rows have no numbers yet.
    var repeated: [RepeatedRequest] = []
    /// A seed has too few users for a share of them.
    private(set) var maxRequestsPerHour: Int
    /// By sign-in, the first request made since it, of those present when Apple issued its token.
    var requestsSeen: [SignIn: Timestamp] = [:]
    var revocations: [RevocationKey: OpenRevocation] = [:]
    /// How often Apple has rejected a token that it had accepted before, by app.
    var rejectionsOfAccepted: [String: Int] = [:]
    /// In the order in which they were written.
    var receipts: [Receipt] = []
    /// The rows of grants that the queue or the log must hold, by the number that they had in the queue.
    var toldRows: [Int64: ToldRow] = [:]
    /// How many waiting rows of grants undos have taken.
    var rowsUndone = 0
    /// When each batch of an import was told, by import and key, as long as a repeated import must skip it.
    var importKeys: [[String]: Timestamp] = [:]
    /// The users that a backend has ever asked siwatch to revoke.
    var requestedUsers: Set<String> = []
    /// Credentials with an end that an undo has shown again. The change log must tell it once more.
    var shownAgain: Set<CredentialID> = []
    var clients: [String: ClientFacts] = [:]
    /// Users whose rows may have changed since the last comparison.
    var touched: Set<String> = []
    /// The times since when the view has called each credential authorized, at any moment since the last comparison.
    var authorizedSince: [CredentialID: Set<Int64>] = [:]
    /// When the present process first and last took sign-ins.
    private var takingSince: Timestamp
    private var takenAt: Timestamp

    init(apps: [SimulatedApp], maxRequestsPerHour: Int, startedAt: Timestamp) {
        self.maxRequestsPerHour = maxRequestsPerHour
        appOfClient = Dictionary(uniqueKeysWithValues: apps.flatMap { app in app.clientIDs.map { ($0, app.name) } })
        (takingSince, takenAt) = (startedAt, startedAt)
    }

    mutating func tookGrants(at now: Timestamp) { (takingSince, takenAt) = (takesGrants(since: now), now) }

    /// The beginning of the present unbroken time of taking sign-ins.
    private func takesGrants(since now: Timestamp) -> Timestamp {
        takenAt <= now && takenAt.duration(to: now) <= .seconds(32) ? takingSince : now
    }

    /// Whether work that arrived at a time still waits for sign-ins.
    func isWorthWaiting(for rows: [GrantRow], since time: Timestamp, at now: Timestamp) -> Bool {
        if rows.contains(where: { $0.code != nil || $0.isUntried || $0.held != nil && $0.heldUntil > now }) { return true }
        // A time in the future does not count.
        guard !rows.isEmpty, let start = [time, takesGrants(since: now)].filter({ $0 <= now }).max() else { return false }
        return now < start.advanced(by: .seconds(360))
    }

    var credentials: [CredentialID] { Array(facts.keys) }

    func credentials(of user: String) -> [CredentialID] {
        appOfClient.keys.map { CredentialID(clientID: $0, userID: user) }.filter { facts[$0] != nil }
    }

    /// The waiting sign-ins that siwatch can take now or soon.
    func waitingGrants(at now: Timestamp, where matches: (GrantRow) -> Bool) -> [GrantRow] {
        grantRows.values.filter { matches($0) && $0.comesSoon(at: now) }
    }

    /// Whether an event that ends sign-ins waits for a newer sign-in of its user that the process has not tried yet.
    func anEventAwaitsAnUntriedSignIn(at now: Timestamp) -> Bool {
        let untried = waitingGrants(at: now) { $0.isUntried && $0.code == nil }
        return notificationRows.values.contains { row in
            guard case .notice(let notice) = row.post, notice.isEnd else { return false }
            return untried.contains { $0.credential.userID == notice.credential.userID && $0.grantedAt >= notice.at }
        }
    }

    // MARK: Arrivals

    /// Whether a known event ends a sign-in that no backend has reported yet.
    func isEnded(_ signIn: ScriptedApple.SignIn) -> Bool {
        if inserted[signIn.credential, default: []].contains(signIn.at) { return false }
        let user = signIn.credential.userID
        let waiting = notificationRows.values.compactMap { row -> Timestamp? in
            guard case .notice(let notice) = row.post, notice.isEnd, notice.credential.userID == user else { return nil }
            return notice.at
        }
        let settled = userFacts[user].map { $0.consentRevoked.union($0.deleted) } ?? []
        return settled.union(waiting).contains { $0 > signIn.at }
    }

    /// - Parameter importID: the import that tells the row; nil for a backend.
    mutating func insert(_ row: GrantRow, as id: Int64, toldBy importID: String? = nil) {
        grantRows[id] = row
        grantsIn += 1
        let isNamed = row.code?.namesUser ?? true
        toldRows[id] = ToldRow(credential: isNamed ? row.credential : nil, at: row.grantedAt, importID: importID, isCode: row.code != nil)
        if row.code == nil { inserted[row.credential, default: []].insert(row.grantedAt) }
    }

    mutating func insert(_ row: NotificationRow, as id: Int64, isNew: Bool = true) {
        notificationRows[id] = row
        if isNew { notificationsIn += 1 }
    }

    // MARK: Claims

    mutating func claimed(_ work: [ClaimedNotification]) { for work in work { notificationRows[work.id]?.held = work.claim } }

    mutating func claimed(_ work: [ClaimedGrant], until end: Timestamp) {
        for work in work {
            grantRows[work.id]?.held = work.claim
            grantRows[work.id]?.heldUntil = end
            grantRows[work.id]?.isUntried = false
            // When the claim ends, the row is due.
            grantRows[work.id]?.putOffUntil = nil
        }
    }

    /// - Parameter ahead: how far our clock is ahead of Apple's, as far as the process knows.
    mutating func judged(_ work: [ClaimedGrant], at now: Timestamp, ahead: Duration) {
        for work in work {
            // An iat counts to the end of its second, and Apple's clock is known to a second.
            let takenFrom = work.grantedAt.advanced(by: ahead - .seconds(3))
            grantRows[work.id]?.takenFrom = takenFrom
            grantRows[work.id]?.lead = now.duration(to: takenFrom)
        }
    }

    mutating func claimed(_ work: [DueCredential]) { for work in work { facts[work.id]?.held = work.claim } }

    func isConfigured(_ clientID: String) -> Bool { appOfClient[clientID] != nil && clientID != dropped }

    /// A new process looks at postponed rows again.
    ///
    /// - Parameter voidingClaims: whether it takes over the rows that the previous process had claimed.
    mutating func recovered(at now: Timestamp, without dropped: String?, voidingClaims: Bool) {
        (takingSince, takenAt) = (now, now)
        (self.dropped, limitsKnown) = (dropped, [])
        for id in grantRows.keys where !grantRows[id]!.waitsForItsTime { grantRows[id]!.putOffUntil = nil }
        guard voidingClaims else { return }
        for id in notificationRows.keys { notificationRows[id]!.held = nil }
        for id in grantRows.keys { grantRows[id]!.held = nil }
        for id in requestRows.keys { requestRows[id]!.held = nil }
        for key in revocations.keys { revocations[key]!.held = nil }
    }
}
