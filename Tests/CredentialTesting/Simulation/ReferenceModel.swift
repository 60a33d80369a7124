// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The required contents of the tables, derived from the committed facts alone.
///
/// It holds sets of facts, and the oracle derives the tables from them. It shares no code with the program. Its facts come from their
/// makers: sign-ins from backends, events and answers from Apple.
struct ReferenceModel {
    struct Held: Equatable {
        var owner: String
        var attempts: Int
    }

    struct GrantRow {
        var credential: CredentialID
        var grantedAt: Timestamp
        var token: String?
        var address: String?
        var held: Held?
        var claimedAt = Timestamp.earliest
        /// When its claim ends.
        var heldUntil = Timestamp.earliest
        /// siwatch leaves it alone until then, because its date is in the future.
        var putOffUntil: Timestamp?
        /// The state of its code, if it has one.
        var code: CodeRow?
        /// Whether siwatch has not tried it yet.
        var isUntried = true

        /// Whether other rows must wait for it.
        func canBeTaken(at now: Timestamp) -> Bool { code != nil || held != nil || putOffUntil.map { $0 <= now } ?? true }
    }

    struct NotificationRow {
        var post: ScriptedApple.Post
        var receivedAt: Timestamp
        var held: Held?
    }

    typealias Token = Oracle.Token

    /// The committed facts of one user at one client.
    struct Facts {
        var grants: Set<Timestamp> = []
        var tokens: Set<Token> = []
        /// Each token's clear text.
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
        var held: Held?
        /// When the retention erased the rejected token.
        var swept: Token?
        /// The rejected token that an operator wants to recheck.
        var rechecked: Token?
    }

    struct Acceptance {
        var at: Timestamp
        var team: String
    }

    /// The committed facts of one user in one app.
    struct UserFacts {
        var consentRevoked: Set<Timestamp> = []
        var deleted: Set<Timestamp> = []
        /// Requests to revoke with a proof, at any client. Each ended all of the user's sign-ins before it.
        var revoked: Set<Timestamp> = []
        var mails: [Oracle.Mail] = []
        var relays: [Oracle.Relay] = []
        var logged: Set<String> = []
    }

    /// One row of `credential`, public and private.
    struct Row: Equatable, CustomStringConvertible {
        var state: String
        var reason: String
        var changedAt: Int64?
        var verifiedAt: Int64?
        var rejectedAt: Int64?
        var holdsToken: Bool
        var holdsFormerToken: Bool
        var isScheduled: Bool
        var email: String?
        var forwarding: String?
        var neverAccepted: Bool
        var verifiedTeam: String?

        var description: String {
            """
            \(state) \(reason) at \(changedAt ?? 0), V \(verifiedAt ?? 0) by \(verifiedTeam ?? "nobody"), X \(rejectedAt ?? 0), \
            never accepted \(neverAccepted), \
            token \(holdsToken), former \(holdsFormerToken), scheduled \(isScheduled), \(email ?? "-") \(forwarding ?? "-")
            """
        }
    }

    let appOfClient: [String: String]
    /// A client missing from the present configuration.
    private var dropped: String?
    /// The waiting grants, by row number.
    var grantRows: [Int64: GrantRow] = [:]
    private(set) var notificationRows: [Int64: NotificationRow] = [:]
    /// The number of rows ever inserted.
    private(set) var grantsIn = 0
    private(set) var notificationsIn = 0
    /// The times of each credential's sign-ins, as far as siwatch can know them.
    var inserted: [CredentialID: Set<Timestamp>] = [:]
    /// Credentials with a grant that siwatch quarantined unread.
    private(set) var poisoned: Set<CredentialID> = []
    var facts: [CredentialID: Facts] = [:]
    var userFacts: [String: UserFacts] = [:]
    /// Waiting requests to revoke, by row number, and their number ever.
    var requestRows: [Int64: RequestRow] = [:]
    var requestsIn = 0
    /// By sign-in, the first request made since it, of those present when Apple issued its token.
    var requestsSeen: [SignIn: Timestamp] = [:]
    /// Tokens that siwatch is revoking.
    var revocations: [RevocationKey: OpenRevocation] = [:]
    /// How often Apple has rejected a token that it had accepted before, by app.
    private(set) var rejectionsOfAccepted: [String: Int] = [:]
    /// In the order in which they were written.
    var receipts: [Receipt] = []
    /// The rows that have left the queue of grants, in their order: result and reason.
    var grantsLogged: [[String]] = []
    /// Apple's verdicts on each client.
    var clients: [String: ClientFacts] = [:]
    /// Users whose rows may have changed since the last comparison.
    var touched: Set<String> = []
    /// The times since when the view has called each credential authorized, at any moment since the last comparison.
    var authorizedSince: [CredentialID: Set<Int64>] = [:]
    /// When the present process first and last took sign-ins.
    private var takingSince: Timestamp
    private var takenAt: Timestamp

    init(apps: [SimulatedApp], startedAt: Timestamp) {
        appOfClient = Dictionary(uniqueKeysWithValues: apps.flatMap { app in app.clientIDs.map { ($0, app.name) } })
        (takingSince, takenAt) = (startedAt, startedAt)
    }

    /// The process looked for sign-ins.
    mutating func tookGrants(at now: Timestamp) {
        (takingSince, takenAt) = (takesGrants(since: now), now)
    }

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

    /// Every credential that a grant or an event has named.
    var credentials: [CredentialID] { Array(facts.keys) }

    func credentials(of user: String) -> [CredentialID] {
        appOfClient.keys.map { CredentialID(clientID: $0, userID: user) }.filter { facts[$0] != nil }
    }

    // MARK: Rows, by the rules

    func row(of credential: CredentialID) -> Row? {
        guard let facts = facts[credential], let standing = standing(of: credential) else { return nil }
        let holdsToken = standing.keptToken != nil && facts.swept != standing.token
        return Row(
            state: standing.state,
            reason: standing.reason,
            changedAt: standing.since?.milliseconds,
            verifiedAt: standing.verifiedAt?.milliseconds,
            rejectedAt: standing.rejectedAt?.milliseconds,
            holdsToken: holdsToken,
            holdsFormerToken: formerToken(of: credential) != nil,
            isScheduled: holdsToken && (standing.isAskedAbout || facts.rechecked == standing.token),
            email: standing.mail.map { String(decoding: $0.address, as: UTF8.self) },
            forwarding: standing.shownRelay.map { $0 ? "enabled" : "disabled" },
            neverAccepted: standing.isNeverAccepted,
            verifiedTeam: verifiedTeam(of: credential)
        )
    }

    /// The team for which Apple last accepted the newest token.
    func verifiedTeam(of credential: CredentialID) -> String? {
        facts[credential]?.token.flatMap { team(of: $0, at: credential) }
    }

    /// The team for which Apple last accepted a token.
    func team(of token: Token, at credential: CredentialID) -> String? {
        facts[credential]?.teams[token]?.max { ($0.at, $0.team) < ($1.at, $1.team) }?.team
    }

    /// Whether Apple has ever accepted a token, by the committed facts.
    func wasAccepted(_ token: RefreshToken.Key, of credential: CredentialID) -> Bool {
        facts[credential]?.teams[Token(token)] != nil
    }

    /// Notes the authorized states that the view shows now for touched users.
    mutating func noteAuthorized() {
        for credential in touched.flatMap(credentials(of:)) {
            guard let row = row(of: credential), row.state == "authorized", let since = row.changedAt else { continue }
            authorizedSince[credential, default: []].insert(since)
        }
    }

    private func standing(of credential: CredentialID) -> Oracle.Standing? {
        guard let facts = facts[credential] else { return nil }
        let user = userFacts[credential.userID] ?? UserFacts()
        return Oracle(
            grants: facts.grants,
            tokens: facts.tokens.subtracting(facts.setAside),
            revocations: facts.revocations,
            answers: facts.answers,
            consentRevocations: user.consentRevoked,
            deletions: user.deleted,
            provedRevocations: user.revoked,
            mails: user.mails,
            relays: user.relays
        ).standing
    }

    /// The displaced token, while siwatch keeps it.
    func formerToken(of credential: CredentialID) -> (token: Token, text: String)? {
        guard let facts = facts[credential], let former = facts.former, let text = former.text else { return nil }
        let user = userFacts[credential.userID] ?? UserFacts()
        let ends = user.deleted.union(user.consentRevoked)
        let revocations = facts.revocations.union(user.revoked)
        guard ends.allSatisfy({ former.token.grantedAt >= $0 }), revocations.allSatisfy({ former.token.grantedAt > $0 }) else {
            return nil
        }
        return (former.token, text)
    }

    func tokenText(of credential: CredentialID) -> String? {
        facts[credential].flatMap { facts in facts.token.flatMap { facts.texts[$0] } }
    }

    /// Whether a sign-in of the credential has brought a token.
    func knows(_ token: String, of credential: CredentialID) -> Bool { facts[credential]?.texts.values.contains(token) ?? false }

    func tokenIsOfNewestSignIn(_ credential: CredentialID) -> Bool {
        facts[credential].map { $0.token?.grantedAt == $0.grants.max() } ?? false
    }

    /// The waiting sign-ins that siwatch can take.
    func waitingGrants(at now: Timestamp, where matches: (GrantRow) -> Bool) -> [GrantRow] {
        grantRows.values.filter { matches($0) && $0.canBeTaken(at: now) }
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

    mutating func insert(_ row: GrantRow, as id: Int64) {
        grantRows[id] = row
        grantsIn += 1
        if row.code == nil { inserted[row.credential, default: []].insert(row.grantedAt) }
    }

    mutating func insert(_ row: NotificationRow, as id: Int64, isNew: Bool = true) {
        notificationRows[id] = row
        if isNew { notificationsIn += 1 }
    }

    // MARK: Claims

    mutating func claimed(_ work: [ClaimedNotification]) {
        for work in work { notificationRows[work.id]?.held = Held(owner: work.claim.owner, attempts: work.claim.attempts) }
    }

    mutating func claimed(_ work: [ClaimedGrant], at now: Timestamp, until end: Timestamp) {
        for work in work {
            grantRows[work.id]?.held = Held(owner: work.claim.owner, attempts: work.claim.attempts)
            grantRows[work.id]?.claimedAt = now
            grantRows[work.id]?.heldUntil = end
            grantRows[work.id]?.isUntried = false
        }
    }

    mutating func claimed(_ work: [DueCredential]) {
        for work in work { facts[work.id]?.held = Held(owner: work.claim.owner, attempts: work.claim.attempts) }
    }

    func isConfigured(_ clientID: String) -> Bool { appOfClient[clientID] != nil && clientID != dropped }

    /// A new process looks at postponed rows again.
    ///
    /// - Parameter voidingClaims: whether it takes over the rows that the previous process had claimed.
    mutating func recovered(at now: Timestamp, without dropped: String?, voidingClaims: Bool) {
        (takingSince, takenAt) = (now, now)
        self.dropped = dropped
        for id in grantRows.keys { grantRows[id]!.putOffUntil = nil }
        guard voidingClaims else { return }
        for id in notificationRows.keys { notificationRows[id]!.held = nil }
        for id in grantRows.keys { grantRows[id]!.held = nil }
        for id in requestRows.keys { requestRows[id]!.held = nil }
        for key in revocations.keys { revocations[key]!.held = nil }
    }

    // MARK: Settlements

    /// Whether a newer sign-in of the credential waits.
    func goesAfterGrant(_ work: DueCredential, at now: Timestamp) -> Bool {
        !waitingGrants(at: now) { $0.credential == work.id && $0.grantedAt > work.token.grantedAt }.isEmpty
    }

    /// Whether the token of the question is still the credential's.
    func isCurrent(_ work: DueCredential) -> Bool {
        facts[work.id]?.token == Token(work.token)
    }

    /// - Parameter wasAhead: whether the process found the sign-in dated ahead. It may have stood still since.
    mutating func settle(_ work: ClaimedGrant, wasAhead: Bool = false, at now: Timestamp) -> Settled {
        guard let row = grantRows[work.id], row.held == Held(owner: work.claim.owner, attempts: work.claim.attempts) else {
            return .superseded
        }
        if work.claim.attempts > 5 {
            poisoned.insert(row.credential)
            return close(work.id, .rejected, .poison)
        }
        let due = row.grantedAt.advanced(by: .zero - SimulatedTime.skew)
        let retry = now.advanced(by: .seconds(21_600))
        if !isConfigured(row.credential.clientID) { return putOff(work.id, until: retry) }
        if due > now || wasAhead && due > row.claimedAt { return putOff(work.id, until: min(due, retry)) }
        if let text = row.token, isRetold(text, of: row.credential, at: row.grantedAt) {
            // siwatch knows nothing of this sign-in.
            inserted[row.credential]?.remove(row.grantedAt)
            return close(work.id, .retold)
        }
        return close(work.id, signIn(row.credential, at: row.grantedAt, token: row.token, address: row.address))
    }

    /// The row waits for its client or its time.
    private mutating func putOff(_ row: Int64, until time: Timestamp) -> Settled {
        grantRows[row]!.held = nil
        grantRows[row]!.isUntried = true
        grantRows[row]!.putOffUntil = time
        return .postponed
    }

    /// Whether a token came with an earlier sign-in, too.
    private func isRetold(_ text: String, of credential: CredentialID, at time: Timestamp) -> Bool {
        guard let facts = facts[credential] else { return false }
        let fingerprint = PlainSealer().fingerprint(of: Secret(text))
        let last = [facts.token, facts.former?.token].compactMap(\.self)
        // Also the last eight of the older tokens.
        let older = facts.tokens.filter { !last.contains($0) }.sorted { $0.grantedAt > $1.grantedAt }.prefix(8)
        return (last + older).contains { $0.fingerprint == fingerprint && $0.grantedAt < time }
    }

    /// A user has signed in.
    mutating func signIn(_ credential: CredentialID, at grantedAt: Timestamp, token text: String?, address: String?) -> GrantLogOutcome {
        touched.insert(credential.userID)
        var known = facts[credential] ?? Facts()
        let (newest, token, mail) = (known.grants.max(), known.token, userFacts[credential.userID]?.mail)
        known.grants.insert(grantedAt)
        var brought: Token?
        let keepsFormer = formerToken(of: credential) != nil
        if let text {
            brought = Token(grantedAt: grantedAt, fingerprint: PlainSealer().fingerprint(of: Secret(text)))
            let isKnown = known.tokens.contains { $0.fingerprint == brought!.fingerprint && $0.grantedAt >= grantedAt }
            known.tokens.insert(brought!)
            known.texts[brought!] = text
            if isKnown {
                // If siwatch set aside the same token with a later date, it is set aside with this date, too.
                if known.token == brought, token != brought { known.setAside.insert(brought!) }
            } else if let token, known.token == token, !keepsFormer, !known.isAccepted(token) {
                // A token that comes late stays until the newer one is known to be good.
                known.former = (brought!, text)
            }
        }
        if known.token != token {
            known.held = nil
            if let token { known.displace(token, text: holdsToken(credential) ? known.texts[token] : nil, keepsFormer: keepsFormer) }
        }
        if let address {
            userFacts[credential.userID, default: UserFacts()].mails.append(Oracle.Mail(address, at: grantedAt, isFromEvent: false))
        }
        let isNews =
            known.grants.max() != newest || known.token != token || facts[credential] == nil || userFacts[credential.userID]?.mail != mail
        facts[credential] = known
        let hasFallenBack = fallBack(credential)
        if isNews || hasFallenBack { return .applied }
        return newest == grantedAt && (brought == nil || brought == token) ? .duplicate : .stale
    }

    /// Apple rejects the token in use and has never accepted it. siwatch takes the other token again, if it keeps one. It also does so if
    /// the other token is newer and the rejection says nothing about the newest sign-in.
    @discardableResult
    private mutating func fallBack(_ credential: CredentialID) -> Bool {
        guard let token = facts[credential]!.token, let former = formerToken(of: credential)?.token else { return false }
        let answers = facts[credential]!.answers.filter { $0.token == token }
        guard let rejectedAt = answers.filter({ !$0.isValid }).map(\.at).max() else { return false }
        if let acceptedAt = answers.filter(\.isValid).map(\.at).max() {
            let isNewer = Oracle(tokens: [former, token]).token == former
            guard isNewer, rejectedAt > acceptedAt, !facts[credential]!.tokenSpeaksOfUser else { return false }
        }
        take(former, of: credential)
        facts[credential]!.former = (token, nil)
        return true
    }

    /// Apple says that the token in use is another user's. siwatch takes the previous one again if Apple had accepted it, and keeps both.
    private mutating func putBackForeignToken(of credential: CredentialID) {
        guard let token = facts[credential]!.token, let former = formerToken(of: credential)?.token, !facts[credential]!.isAccepted(token),
            facts[credential]!.isAccepted(former)
        else { return }
        let text = holdsToken(credential) ? facts[credential]!.texts[token] : nil
        take(former, of: credential)
        facts[credential]!.former = (token, text)
    }

    private mutating func take(_ token: Token, of credential: CredentialID) {
        facts[credential]!.setAside.remove(token)
        while let newest = facts[credential]!.token, newest != token { facts[credential]!.setAside.insert(newest) }
        facts[credential]!.held = nil
    }

    mutating func close(_ row: Int64, _ outcome: GrantLogOutcome, _ reason: GrantRejection? = nil) -> Settled {
        grantRows[row] = nil
        grantsLogged.append([outcome.rawValue, reason?.rawValue ?? ""])
        return .grant(outcome, reason)
    }

    mutating func settle(_ work: ClaimedNotification, _ verdict: NotificationVerdict, at now: Timestamp) -> Settled {
        guard let row = notificationRows[work.id], row.held == Held(owner: work.claim.owner, attempts: work.claim.attempts) else {
            return .superseded
        }
        if work.claim.attempts > 5 {
            notificationRows[work.id] = nil
            return .quarantined(.poison)
        }
        guard case .notice(let notice) = row.post else {
            notificationRows[work.id] = nil
            return .quarantined(.badSignature)
        }
        if case .rejected(.unknownKey, _) = verdict {
            notificationRows[work.id] = nil
            return .quarantined(.unknownKey)
        }
        let newer = waitingGrants(at: now) {
            $0.credential.userID == notice.credential.userID && appOfClient[$0.credential.clientID] == notice.app
                && $0.grantedAt >= notice.at
        }
        let waits = notice.isEnd && isWorthWaiting(for: newer, since: row.receivedAt, at: now)
        if case .postponed = verdict {
            notificationRows[work.id]!.held = nil
            return .postponed
        }
        if !isConfigured(notice.credential.clientID) {
            notificationRows[work.id] = nil
            return .quarantined(.wrongAudience)
        }
        if waits {
            notificationRows[work.id]!.held = nil
            return .postponed
        }
        notificationRows[work.id] = nil
        let user = notice.credential.userID
        touched.insert(user)
        let isFirst = userFacts[user, default: UserFacts()].logged.insert("\(notice.kind.rawValue) \(notice.at.milliseconds)").inserted
        if notice.kind == .unknown { return .notification(isFirst ? .unknownType : .duplicate) }
        let moved = userFacts[user]!.apply(notice)
        if facts[notice.credential] == nil { facts[notice.credential] = Facts() }
        guard isFirst else { return .notification(.duplicate) }
        let grants = credentials(of: user).compactMap { facts[$0]?.grants.max() }
        let isOutdated = notice.isEnd && !grants.isEmpty && grants.allSatisfy { $0 >= notice.at }
        return .notification(moved && !isOutdated ? .applied : .stale)
    }

    /// - Parameter call: the question and Apple's answer, as the simulation recorded them.
    /// - Returns: the allowed results. The breaker decides whether siwatch holds a rejection.
    mutating func settle(_ work: DueCredential, _ verdict: RefreshVerdict, _ call: AnsweredCall?, at now: Timestamp) -> [Settled] {
        let token = Token(work.token)
        guard isCurrent(work), work.purpose == .canary || isHeld(work) else { return [.superseded] }
        if work.purpose != .canary { facts[work.id]!.held = nil }
        touched.insert(work.id.userID)
        hear(call.flatMap { ClientWord($0.outcome, sentAt: $0.sentAt) }, of: work.id.clientID, at: now)
        if work.purpose == .check, call?.outcome.isAnswer ?? false { facts[work.id]!.rechecked = nil }
        switch call?.outcome {
        case .news(.valid): accept(token, of: work.id, at: call!.sentAt, by: call!.team)
        // An earlier answer must have named the user.
        case .news(.unnamed): if facts[work.id]!.isAccepted(token) { accept(token, of: work.id, at: call!.sentAt, by: call!.team) }
        case .news(.rejected):
            if facts[work.id]!.isAccepted(token) { rejectionsOfAccepted[appOfClient[work.id.clientID]!, default: 0] += 1 }
            return [.refreshed, .held]
        case .news(.anotherUser): if work.purpose == .check { putBackForeignToken(of: work.id) }
        case .news(.ambiguous), .misconfigured, .throttled, .unavailable, nil: break
        }
        return [.refreshed]
    }

    /// Apple calls a token good and names this user.
    mutating func accept(_ token: Token, of credential: CredentialID, at time: Timestamp, by team: String?) {
        facts[credential]!.answers.append(Oracle.Answer(token: token, isValid: true, at: time))
        facts[credential]!.teams[token, default: []].append(Acceptance(at: time, team: team ?? ""))
        if facts[credential]!.token == token { facts[credential]!.former?.text = nil }
    }

    /// A rejection that siwatch may believe. The breaker decides, unless a newer sign-in waits.
    mutating func settle(_ work: DueCredential, _ rejection: PendingRejection, _ result: Settled, at now: Timestamp) -> [Settled] {
        guard isCurrent(work), isHeld(work) else { return [.superseded] }
        facts[work.id]!.held = nil
        touched.insert(work.id.userID)
        if goesAfterGrant(work, at: now) { return [.postponed] }
        let token = Token(work.token)
        let isDisproved = facts[work.id]!.answers.contains { $0.token == token && $0.isValid && $0.at >= rejection.requestedAt }
        if isDisproved { return [.postponed] }
        if result == .refreshed {
            facts[work.id]!.answers.append(Oracle.Answer(token: token, isValid: false, at: rejection.requestedAt))
            fallBack(work.id)
        }
        return [.refreshed, .postponed]
    }

    /// - Returns: whether the token is rejected, and no recheck of it was due before.
    mutating func recheck(_ credential: CredentialID) -> Bool {
        guard let row = row(of: credential), row.holdsToken, !row.isScheduled else { return false }
        facts[credential]!.rechecked = facts[credential]!.token
        touched.insert(credential.userID)
        return true
    }

    private func holdsToken(_ credential: CredentialID) -> Bool { row(of: credential)?.holdsToken ?? false }

    private func isHeld(_ work: DueCredential) -> Bool {
        facts[work.id]?.held == Held(owner: work.claim.owner, attempts: work.claim.attempts)
    }

    /// The retention erases tokens that have been rejected for a week.
    mutating func swept(at now: Timestamp) {
        let cutoff = now.advanced(by: .seconds(-7 * 86_400))
        for credential in credentials {
            touched.insert(credential.userID)
            guard let standing = standing(of: credential), let token = standing.keptToken, !standing.isAskedAbout,
                let rejected = standing.rejectedAt, rejected < cutoff
            else { continue }
            facts[credential]!.swept = token
        }
    }
}

extension ReferenceModel.Facts {
    var token: Oracle.Token? { Oracle(tokens: tokens.subtracting(setAside)).token }

    /// Whether the end of the newest token says something about the newest sign-in. It does if Apple has accepted the token since the
    /// sign-in, or has accepted it and the sign-in brought it.
    var tokenSpeaksOfUser: Bool {
        guard let token, let accepted = answers.filter({ $0.token == token && $0.isValid }).map(\.at).max() else { return false }
        return grants.allSatisfy { $0 <= max(token.grantedAt, accepted) }
    }

    func isAccepted(_ token: Oracle.Token) -> Bool { answers.contains { $0.token == token && $0.isValid } }

    /// Another token has replaced it.
    ///
    /// - Parameters:
    /// - text: nil if it was erased before.
    /// - keepsFormer: whether siwatch keeps an older token, which is surer than one that Apple has not accepted.
    fileprivate mutating func displace(_ token: Oracle.Token, text: String?, keepsFormer: Bool) {
        func newest(_ isValid: Bool) -> Timestamp? { answers.filter { $0.token == token && $0.isValid == isValid }.map(\.at).max() }
        let isGood = newest(true).map { good in newest(false).map { $0 <= good } ?? true } ?? false
        if !isGood, keepsFormer { return }
        former = (token, isGood || newest(false) == nil ? text : nil)
    }
}

extension ReferenceModel.UserFacts {
    var mail: Oracle.Mail? { Oracle(deletions: deleted, mails: mails).mail }

    /// - Returns: whether the event is new.
    mutating func apply(_ notice: ScriptedApple.Notice) -> Bool {
        let before = (consentRevoked.max(), deleted.max(), mail, Oracle(relays: relays).relay)
        switch notice.kind {
        case .consentRevoked: consentRevoked.insert(notice.at)
        case .accountDeleted: deleted.insert(notice.at)
        case .emailDisabled, .emailEnabled:
            relays.append(Oracle.Relay(at: notice.at, isEnabled: notice.kind == .emailEnabled))
            if let address = notice.address { mails.append(Oracle.Mail(address, at: notice.at, isFromEvent: true)) }
        case .unknown: break
        }
        return before != (consentRevoked.max(), deleted.max(), mail, Oracle(relays: relays).relay)
    }
}

extension EndpointAnswer<RefreshNews> {
    /// Whether Apple gave an answer about the token, even an unreadable one.
    fileprivate var isAnswer: Bool {
        switch self {
        case .news(.valid), .news(.unnamed), .news(.rejected), .news(.ambiguous), .news(.anotherUser): true
        case .misconfigured, .throttled, .unavailable: false
        }
    }
}
