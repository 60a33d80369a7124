// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What the tables must say, worked out from the facts that were committed and from nothing else.
///
/// It holds sets of facts, of which the oracle says what has to stand. It shares no code with what it judges, and takes facts from
/// whoever made them: sign-ins as the backend inserted them, events as Apple signed them, answers as Apple gave them.
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
        /// When the claim ends that holds it.
        var heldUntil = Timestamp.earliest
        /// Until when it is left alone, because it comes from the future.
        var putOffUntil: Timestamp?
        /// What is known of its code, if it brings one.
        var code: CodeRow?
        /// Whether it has not come to its turn yet.
        var isUntried = true

        /// Whether anything need wait for it.
        func canBeTaken(at now: Timestamp) -> Bool { code != nil || held != nil || putOffUntil.map { $0 <= now } ?? true }
    }

    struct NotificationRow {
        var post: ScriptedApple.Post
        var receivedAt: Timestamp
        var held: Held?
    }

    typealias Token = Oracle.Token

    /// What was committed of one user at one client.
    struct Facts {
        var grants: Set<Timestamp> = []
        var tokens: Set<Token> = []
        /// What each token is in clear.
        var texts: [Token: String] = [:]
        /// The token before the newest one, in clear while it is kept.
        var former: (token: Token, text: String?)?
        /// Tokens that turned out to be none, so that the one before was taken again.
        var setAside: Set<Token> = []
        var answers: [Oracle.Answer] = []
        /// When Apple accepted each token, and from which team.
        var teams: [Token: [Acceptance]] = [:]
        /// Requests to revoke after which the token of this client was found dead.
        var revocations: Set<Timestamp> = []
        var revokedTokens: Set<Token> = []
        var held: Held?
        /// When the retention swept the rejected token away.
        var swept: Token?
        /// The rejected token that an operator wants to be asked about again.
        var rechecked: Token?
    }

    struct Acceptance {
        var at: Timestamp
        var team: String
    }

    /// What was committed of one user in one app.
    struct UserFacts {
        var consentRevoked: Set<Timestamp> = []
        var deleted: Set<Timestamp> = []
        /// Requests to revoke that were proved to have worked, at whichever client: each ended all of the user's sign-ins before it.
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
    /// A client that the process at work does not know.
    private var dropped: String?
    /// What waits, by the number of its row.
    var grantRows: [Int64: GrantRow] = [:]
    private(set) var notificationRows: [Int64: NotificationRow] = [:]
    /// How many rows were ever inserted.
    private(set) var grantsIn = 0
    private(set) var notificationsIn = 0
    /// When each credential's sign-ins were, as far as the daemon can know.
    var inserted: [CredentialID: Set<Timestamp>] = [:]
    /// Credentials of which a grant was put away unread.
    private(set) var poisoned: Set<CredentialID> = []
    var facts: [CredentialID: Facts] = [:]
    var userFacts: [String: UserFacts] = [:]
    /// Requests to revoke that wait, by the number of their row, and how many there ever were.
    var requestRows: [Int64: RequestRow] = [:]
    var requestsIn = 0
    /// The first of them that had been made since a sign-in when Apple had issued its token.
    var requestsSeen: [SignIn: Timestamp] = [:]
    /// Tokens that are being revoked.
    var revocations: [RevocationKey: OpenRevocation] = [:]
    /// How often Apple has rejected a token that it had accepted before, by app.
    private(set) var rejectionsOfAccepted: [String: Int] = [:]
    /// In the order in which they were written.
    var receipts: [Receipt] = []
    /// What has left the queue of grants, in its order: what it came to, and why.
    var grantsLogged: [[String]] = []
    /// What Apple has said of each client.
    var clients: [String: ClientFacts] = [:]
    /// Users whose rows may have changed since they were last compared.
    var touched: Set<String> = []
    /// Since when the view has called each credential authorized, at any moment since it was last compared.
    var authorizedSince: [CredentialID: Set<Int64>] = [:]
    /// When the process at work last began to take sign-ins, and when it last did.
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

    /// Since when sign-ins have been taken without a break.
    private func takesGrants(since now: Timestamp) -> Timestamp {
        takenAt <= now && takenAt.duration(to: now) <= .seconds(32) ? takingSince : now
    }

    /// Whether what came at a time still waits for sign-ins.
    func isWorthWaiting(for rows: [GrantRow], since time: Timestamp, at now: Timestamp) -> Bool {
        if rows.contains(where: { $0.code != nil || $0.isUntried || $0.held != nil && $0.heldUntil > now }) { return true }
        // A moment that has yet to come is none to count from.
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

    /// The team from which Apple last accepted the token.
    func verifiedTeam(of credential: CredentialID) -> String? {
        facts[credential]?.token.flatMap { team(of: $0, at: credential) }
    }

    /// The team from which Apple last accepted a token.
    func team(of token: Token, at credential: CredentialID) -> String? {
        facts[credential]?.teams[token]?.max { ($0.at, $0.team) < ($1.at, $1.team) }?.team
    }

    /// Whether Apple has ever accepted a token, as far as was committed.
    func wasAccepted(_ token: RefreshToken.Key, of credential: CredentialID) -> Bool {
        facts[credential]?.teams[Token(token)] != nil
    }

    /// Notes what the view shows now of touched users who are authorized.
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

    /// The displaced token, while it is kept.
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

    func tokenIsOfNewestSignIn(_ credential: CredentialID) -> Bool {
        facts[credential].map { $0.token?.grantedAt == $0.grants.max() } ?? false
    }

    /// The sign-ins that wait and can be taken.
    func waitingGrants(at now: Timestamp, where matches: (GrantRow) -> Bool) -> [GrantRow] {
        grantRows.values.filter { matches($0) && $0.canBeTaken(at: now) }
    }

    // MARK: Arrivals

    /// Whether a sign-in that nobody has told yet is ended by an event that is there already.
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

    mutating func claimed(_ work: [ClaimedGrant], until end: Timestamp) {
        for work in work {
            grantRows[work.id]?.held = Held(owner: work.claim.owner, attempts: work.claim.attempts)
            grantRows[work.id]?.heldUntil = end
            grantRows[work.id]?.isUntried = false
        }
    }

    mutating func claimed(_ work: [DueCredential]) {
        for work in work { facts[work.id]?.held = Held(owner: work.claim.owner, attempts: work.claim.attempts) }
    }

    func isConfigured(_ clientID: String) -> Bool { appOfClient[clientID] != nil && clientID != dropped }

    /// A process that starts looks again at what was put off.
    ///
    /// - Parameter voidingClaims: whether it takes up the queue rows that the one before it had claimed.
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

    /// Whether the token that was asked about is still the credential's.
    func isCurrent(_ work: DueCredential) -> Bool {
        facts[work.id]?.token == Token(work.token)
    }

    mutating func settle(_ work: ClaimedGrant, at now: Timestamp) -> Settled {
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
        if due > now { return putOff(work.id, until: min(due, retry)) }
        if let text = row.token, isRetold(text, of: row.credential, at: row.grantedAt) {
            // Nobody knows of this sign-in.
            inserted[row.credential]?.remove(row.grantedAt)
            return close(work.id, .retold)
        }
        return close(work.id, signIn(row.credential, at: row.grantedAt, token: row.token, address: row.address))
    }

    /// It waits for its client or its time.
    private mutating func putOff(_ row: Int64, until time: Timestamp) -> Settled {
        grantRows[row]!.held = nil
        grantRows[row]!.isUntried = true
        grantRows[row]!.putOffUntil = time
        return .postponed
    }

    /// Whether a token came with an earlier sign-in.
    private func isRetold(_ text: String, of credential: CredentialID, at time: Timestamp) -> Bool {
        guard let facts = facts[credential] else { return false }
        let fingerprint = PlainSealer().fingerprint(of: Secret(text))
        let last = [facts.token, facts.former?.token].compactMap(\.self)
        // And of the tokens before, the last eight.
        let older = facts.tokens.filter { !last.contains($0) }.sorted { $0.grantedAt > $1.grantedAt }.prefix(8)
        return (last + older).contains { $0.fingerprint == fingerprint && $0.grantedAt < time }
    }

    /// Somebody has signed in.
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
                // That one of a later date was set aside holds of this one, too.
                if known.token == brought, token != brought { known.setAside.insert(brought!) }
            } else if let token, known.token == token, !keepsFormer, !known.isAccepted(token) {
                // A token that comes late stays while it is not known whether the newer one is any good.
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

    /// Apple rejects the token in use and has never accepted it: the other one is taken again, if it is kept. So it is where that one is newer,
    /// and the rejection says nothing of the newest sign-in.
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

    /// Apple says that the token in use is another user's: the one before is taken again, if Apple had accepted that. Both are kept.
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

    /// - Parameter call: what Apple was asked and answered, as the simulation wrote it down.
    /// - Returns: what it may come to. Whether a rejection is held is for the breaker to say.
    mutating func settle(_ work: DueCredential, _ verdict: RefreshVerdict, _ call: AnsweredCall?, at now: Timestamp) -> [Settled] {
        let token = Token(work.token)
        guard isCurrent(work), work.purpose == .canary || isHeld(work) else { return [.superseded] }
        if work.purpose != .canary { facts[work.id]!.held = nil }
        touched.insert(work.id.userID)
        hear(call.flatMap { ClientWord($0.outcome, sentAt: $0.sentAt) }, of: work.id.clientID, at: now)
        if work.purpose == .check, call?.outcome.isAnswer ?? false { facts[work.id]!.rechecked = nil }
        switch call?.outcome {
        case .valid: accept(token, of: work.id, at: call!.sentAt, by: call!.team)
        // Whose it is has to have been said before.
        case .unnamed: if facts[work.id]!.isAccepted(token) { accept(token, of: work.id, at: call!.sentAt, by: call!.team) }
        case .rejected:
            if facts[work.id]!.isAccepted(token) { rejectionsOfAccepted[appOfClient[work.id.clientID]!, default: 0] += 1 }
            return [.refreshed, .held]
        case .anotherUser: if work.purpose == .check { putBackForeignToken(of: work.id) }
        case .ambiguous, .misconfigured, .throttled, .unavailable, nil: break
        }
        return [.refreshed]
    }

    /// Apple calls a token good, and this user's.
    mutating func accept(_ token: Token, of credential: CredentialID, at time: Timestamp, by team: String?) {
        facts[credential]!.answers.append(Oracle.Answer(token: token, isValid: true, at: time))
        facts[credential]!.teams[token, default: []].append(Acceptance(at: time, team: team ?? ""))
        if facts[credential]!.token == token { facts[credential]!.former?.text = nil }
    }

    /// A rejection that may be believed. Whether it is, is for the breaker to say, unless a newer sign-in waits.
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

    /// - Returns: whether the token is a rejected one, and was not to be asked about before.
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

    /// The retention erases tokens whose rejection has stood for a week.
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

    /// Whether the end of the newest token says something of the newest sign-in: Apple has accepted that token, and did so since the sign-in,
    /// or the sign-in brought it.
    var tokenSpeaksOfUser: Bool {
        guard let token, let accepted = answers.filter({ $0.token == token && $0.isValid }).map(\.at).max() else { return false }
        return grants.allSatisfy { $0 <= max(token.grantedAt, accepted) }
    }

    func isAccepted(_ token: Oracle.Token) -> Bool { answers.contains { $0.token == token && $0.isValid } }

    /// Another token has taken its place.
    ///
    /// - Parameters:
    ///   - text: nil where it was erased before.
    ///   - keepsFormer: whether an older one is kept, which is surer than one that Apple has not accepted.
    fileprivate mutating func displace(_ token: Oracle.Token, text: String?, keepsFormer: Bool) {
        func newest(_ isValid: Bool) -> Timestamp? { answers.filter { $0.token == token && $0.isValid == isValid }.map(\.at).max() }
        let isGood = newest(true).map { good in newest(false).map { $0 <= good } ?? true } ?? false
        if !isGood, keepsFormer { return }
        former = (token, isGood || newest(false) == nil ? text : nil)
    }
}

extension ReferenceModel.UserFacts {
    var mail: Oracle.Mail? { Oracle(deletions: deleted, mails: mails).mail }

    /// - Returns: whether it says anything that was not known.
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

extension RefreshOutcome {
    /// Whether Apple said something of the token, if only that it is not to be understood.
    fileprivate var isAnswer: Bool {
        switch self {
        case .valid, .unnamed, .rejected, .ambiguous, .anotherUser: true
        case .misconfigured, .throttled, .unavailable: false
        }
    }
}
