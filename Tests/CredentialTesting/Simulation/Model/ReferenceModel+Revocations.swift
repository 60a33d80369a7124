// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The required outcome of a request to revoke. Each held token needs three answers of Apple, with one key. The process stores each answer
/// before the next question. A new sign-in of the user stops the revocation.
extension ReferenceModel {
    struct RequestRow {
        var credential: CredentialID
        var requestedAt: Timestamp
        /// Not later than siwatch's first look, unless the backend dates a known sign-in between the two.
        var effectiveAt: Timestamp?
        var held: Claim?
        /// Whether siwatch is revoking its tokens.
        var isOpen = false
        /// Whether it waits for an operator, and whether one has confirmed it.
        var isHeld = false
        var isConfirmed = false
    }

    struct SignIn: Hashable {
        var credential: CredentialID
        var at: Timestamp
    }

    struct RevocationKey: Hashable {
        var request: Int64
        var clientID: String
        var fingerprint: [UInt8]
    }

    struct OpenRevocation {
        var credential: CredentialID
        var token: Token
        var text: String
        var standing: DueRevocation.Standing
        /// All tokens of the user at the client that backends had reported when the request was opened.
        var told: Set<String>
        var requestedAt: Timestamp
        var openedAt: Timestamp
        /// The team of its last acceptance by Apple.
        var verifiedTeam: String?
        var held: Claim?
        /// Whether a new sign-in of the user was known when siwatch claimed it, or was possible because of a waiting code.
        var isOvertaken = false
        var mayBeOvertaken = false
        /// Apple's first answer about it, and the asking key.
        var before: AnsweredQuestion.Word?
        var askedAt = Timestamp.earliest
        var date = Timestamp.earliest
        var keyID: String?
        var isRevoked = false
        /// Whether the request to revoke got no answer.
        var isUnheard = false
        /// Whether Apple rejected it at first, so that siwatch must ask anew.
        var isAskedAnew = false
        /// Whether Apple still accepted it at the last question after a revocation.
        var isAlive = false
    }

    struct Receipt: Equatable {
        var request: Int64
        var clientID: String
        var outcome: String
        var reason = ""
        /// Apple's answers to the three questions.
        var answers = ["", "", ""]
    }

    /// A request that siwatch makes itself, because an answered or open one names a token that it was told of later.
    struct RepeatedRequest {
        var credential: CredentialID
        var at: Timestamp
        /// Nil if the revocation limit has not let a request for such a token through, so that the lane takes the request like a backend's.
        var open: OpenRevocation?
    }

    struct QueuedRequest: Sendable {
        var id: Int64
        var credential: CredentialID
        var effectiveAt: Timestamp?
        var isOpen: Bool
    }

    mutating func insert(_ row: RequestRow, as id: Int64) {
        requestRows[id] = row
        requestsIn += 1
        requestedUsers.insert(row.credential.userID)
    }

    mutating func claimed(_ work: [ClaimedRevocationRequest]) { for work in work { requestRows[work.id]?.held = work.claim } }

    mutating func claimed(_ work: [DueRevocation], at now: Timestamp) {
        for work in work {
            guard var open = revocations[RevocationKey(work)] else { continue }
            open.held = work.claim
            open.isOvertaken = hasSignedIn(work.id, after: open.wantedAt)
            open.mayBeOvertaken = !waiting(beside: work.id, after: open.wantedAt, at: now).isEmpty
            revocations[RevocationKey(work)] = open
        }
    }

    /// Whether the user has signed in since at any client of the app.
    func hasSignedIn(_ credential: CredentialID, after time: Timestamp) -> Bool {
        clients(beside: credential).contains { facts[$0]?.grants.max().map { $0 > time } ?? false }
    }

    private func waiting(beside credential: CredentialID, after time: Timestamp, at now: Timestamp) -> [GrantRow] {
        grantRows.values.filter { row in
            // A row that waits for its time may be newer than the request, too.
            (row.comesSoon(at: now) || row.waitsForItsTime) && isSameUser(row.credential, credential) && row.grantedAt > time
        }
    }

    /// The first request after this time that has not begun, for the sign-in that will follow.
    mutating func lookForRequest(of credential: CredentialID, since time: Timestamp) {
        let rows = requestRows.values.filter { !$0.isOpen && isSameUser($0.credential, credential) }
        let events = [userFacts[credential.userID]?.consentRevoked.max(), userFacts[credential.userID]?.deleted.max()]
        let newest = (clients(beside: credential).map { facts[$0]?.grants.max() } + events).compactMap(\.self).max()
        requestsSeen[SignIn(credential: credential, at: time)] = rows.map { $0.effectiveAt ?? $0.requestedAt }
            .filter { $0 >= time && $0 > newest ?? .earliest }.min()
    }

    private func isSameUser(_ one: CredentialID, _ other: CredentialID) -> Bool {
        one.userID == other.userID && appOfClient[one.clientID] == appOfClient[other.clientID]
    }

    private func clients(beside credential: CredentialID) -> [CredentialID] {
        credentials(of: credential.userID).filter { isSameUser($0, credential) }
    }

    // MARK: A token told later

    /// A request names every token up to its time, whenever siwatch is told of it.
    ///
    /// - Parameter team: the team to which Apple has issued the token for a code.
    mutating func meetRequest(_ token: Token, _ text: String, of credential: CredentialID, issuedTo team: String? = nil) {
        let user = userFacts[credential.userID] ?? UserFacts()
        let open = revocations.values.filter { isSameUser($0.credential, credential) }.map(\.wantedAt)
        let withTokens = user.requestsWithTokens.union(open)
        guard let newest = withTokens.union(user.requests).max(), token.grantedAt <= newest, !hasSignedIn(credential, after: newest) else {
            return
        }
        var request = RepeatedRequest(credential: credential, at: newest)
        if let last = withTokens.max(), token.grantedAt <= last {
            let standing: DueRevocation.Standing = team == nil ? .neverAccepted : .acceptedBefore
            request.open = revocation(of: (credential, token, text, standing), since: newest, at: newest, team)
        }
        repeated.append(request)
    }

    /// Gives the repeated requests the numbers of their rows.
    ///
    /// - Parameter rows: the rows of requests to revoke, by number.
    /// - Returns: the violation, if the rows that nobody has inserted are others.
    mutating func number(_ rows: [QueuedRequest], at now: Timestamp) -> Violation? {
        let new = rows.filter { requestRows[$0.id] == nil }
        defer { repeated = [] }
        let isRight = new.elementsEqual(repeated) { row, request in
            row.credential == request.credential && row.effectiveAt == request.at && row.isOpen == (request.open != nil)
        }
        guard isRight else {
            let (made, expected) = (new.map { "\($0)" }, repeated.map { "\($0)" })
            return Violation(.nothingIsLost, "siwatch has repeated the requests \(made) to revoke, by the rules \(expected)")
        }
        for (row, request) in zip(new, repeated) {
            var inserted = RequestRow(credential: request.credential, requestedAt: request.at)
            (inserted.effectiveAt, inserted.isOpen) = (request.at, row.isOpen)
            insert(inserted, as: row.id)
            guard var open = request.open else { continue }
            open.openedAt = now
            revocations[RevocationKey(request: row.id, clientID: open.credential.clientID, fingerprint: open.token.fingerprint)] = open
        }
        return nil
    }

    // MARK: Requests

    /// - Parameters:
    ///   - lookedAt: by Apple's clock, as the process knows it.
    ///   - knowsTime: whether the process has heard Apple. If not, its clock may be ahead, and a request without a token waits.
    mutating func settle(_ work: ClaimedRevocationRequest, lookedAt: Timestamp, knowsTime: Bool, at now: Timestamp) -> Settled {
        guard let row = requestRows[work.id], row.held == work.claim else { return .superseded }
        let credential = row.credential
        requestRows[work.id]!.held = nil
        if work.claim.attempts > 5 { return closeRequest(work.id, .rejected, .poison) }
        guard isConfigured(credential.clientID) else { return closeRequest(work.id, .rejected, .unknownClient) }
        let waiting = waiting(beside: credential, after: .earliest, at: now)
        let wantedAt = row.effectiveAt ?? effectiveTime(of: row, lookedAt: lookedAt, waiting)
        if knowsTime { requestRows[work.id]!.effectiveAt = wantedAt }
        if hasSignedIn(credential, after: wantedAt) { return closeRequest(work.id, .superseded) }
        // A newer row may be no sign-in, and siwatch must know that first. An older row may bring one more token.
        if waiting.contains(where: { $0.grantedAt > wantedAt }) { return .postponed }
        if isWorthWaiting(for: waiting, since: wantedAt, at: now) { return .postponed }
        let tokens = clients(beside: credential).flatMap(tokensToRevoke)
        if tokens.isEmpty { return knowsTime ? closeRequest(work.id, .noToken) : .postponed }
        requestRows[work.id]!.effectiveAt = wantedAt
        // Revocations that a sign-in has overtaken prove nothing any more.
        let atWork = Array(revocations.values) + repeated.compactMap(\.open)
        let open = atWork.filter { isSameUser($0.credential, credential) && !hasSignedIn(credential, after: $0.requestedAt) }.map(\.token)
        let new = tokens.filter { !open.contains($0.token) }
        if new.isEmpty { return .postponed }
        if !row.isConfirmed, let app = appOfClient[credential.clientID], let settled = revocationLimit(app, at: now) {
            requestRows[work.id]!.isHeld = true
            return settled
        }
        requestRows[work.id]!.isOpen = true
        for held in new {
            let team = held.standing == .neverAccepted ? nil : team(of: held.token, at: held.id)
            let key = RevocationKey(request: work.id, clientID: held.id.clientID, fingerprint: held.token.fingerprint)
            revocations[key] = revocation(of: held, since: wantedAt, at: now, team)
        }
        return .postponed
    }

    private func revocation(of held: HeldToken, since wantedAt: Timestamp, at now: Timestamp, _ team: String?) -> OpenRevocation {
        OpenRevocation(
            credential: held.id,
            token: held.token,
            text: held.text,
            standing: held.standing,
            told: Set(facts[held.id]!.texts.values),
            requestedAt: wantedAt,
            openedAt: now,
            verifiedTeam: team
        )
    }

    private func effectiveTime(of row: RequestRow, lookedAt: Timestamp, _ waiting: [GrantRow]) -> Timestamp {
        let signIns = clients(beside: row.credential).compactMap { facts[$0]?.grants.max() } + waiting.map(\.grantedAt)
        let known = signIns.filter { $0 <= row.requestedAt }.max() ?? .earliest
        return min(row.requestedAt, max(known.advanced(by: .milliseconds(1)), lookedAt.advanced(by: .seconds(3))))
    }

    // MARK: The revocation limit

    struct RevocationLimit {
        var hour: Range<Timestamp>?
        var opened = 0
        var isSet = false
    }

    /// - Returns: nil if one more request may be opened.
    private mutating func revocationLimit(_ app: String, at now: Timestamp) -> Settled? {
        var revocationLimit = revocationLimits[app] ?? RevocationLimit()
        defer { revocationLimits[app] = revocationLimit }
        // The clock may have been set back.
        if let hour = revocationLimit.hour, now < hour.lowerBound { revocationLimit.hour = now..<now.advanced(by: .seconds(3600)) }
        if revocationLimit.hour?.contains(now) != true {
            (revocationLimit.hour, revocationLimit.opened) = (now..<now.advanced(by: .seconds(3600)), 0)
        }
        if revocationLimit.isSet { return .heldBack(reachesLimit: false) }
        revocationLimit.opened += 1
        revocationLimit.isSet = revocationLimit.opened > maxRequestsPerHour
        return revocationLimit.isSet ? .heldBack(reachesLimit: true) : nil
    }

    /// How many requests wait for an operator; nil if the revocation limit is not reached.
    func heldRequests(of app: String) -> Int? { revocationLimits[app]?.isSet ?? false ? held(app).count : nil }

    private func held(_ app: String) -> [Int64] {
        requestRows.filter { $0.value.isHeld && appOfClient[$0.value.credential.clientID] == app }.keys.sorted()
    }

    /// An operator confirms so many requests.
    ///
    /// - Returns: how many there were, and how many still wait; nil if the revocation limit is not reached.
    mutating func release(_ app: String, upTo limit: Int) -> (count: Int, left: Int)? {
        guard revocationLimits[app]?.isSet ?? false else { return nil }
        let confirmed = held(app).prefix(limit)
        for id in confirmed { (requestRows[id]!.isHeld, requestRows[id]!.isConfirmed) = (false, true) }
        let left = held(app).count
        if left == 0 { revocationLimits[app] = nil }
        return (confirmed.count, left)
    }

    /// An operator drops every request that waits.
    ///
    /// - Returns: their number; nil if the revocation limit is not reached.
    mutating func drop(_ app: String) -> Int? {
        guard revocationLimits[app]?.isSet ?? false else { return nil }
        let dropped = held(app)
        for id in dropped { _ = closeRequest(id, .rejected, .dropped) }
        revocationLimits[app] = nil
        return dropped.count
    }

    private typealias HeldToken = (id: CredentialID, token: Token, text: String, standing: DueRevocation.Standing)

    /// The tokens that siwatch holds of a user at a client: the newest, and the one that it displaced.
    private func tokensToRevoke(_ id: CredentialID) -> [HeldToken] {
        var tokens: [HeldToken] = []
        if row(of: id)?.holdsToken ?? false, let token = facts[id]?.token, let text = facts[id]?.texts[token] {
            tokens.append((id, token, text, facts[id]!.isAccepted(token) ? .acceptedBefore : .neverAccepted))
        }
        if let former = formerToken(of: id) {
            tokens.append((id, former.token, former.text, facts[id]!.isAccepted(former.token) ? .acceptedBefore : .neverAccepted))
        }
        return tokens
    }

    private mutating func closeRequest(_ id: Int64, _ outcome: RevocationOutcome, _ reason: RevocationRejection? = nil) -> Settled {
        let row = requestRows.removeValue(forKey: id)!
        if reason != .dropped, let at = row.effectiveAt { userFacts[row.credential.userID, default: UserFacts()].requests.insert(at) }
        let (clientID, why) = (row.credential.clientID, reason?.rawValue ?? "")
        receipts.append(Receipt(request: id, clientID: clientID, outcome: outcome.rawValue, reason: why))
        return .revocation(outcome, reason)
    }

    // MARK: Tokens

    /// - Returns: the violation, if the process may not ask this.
    func asks(_ work: DueRevocation, toRevoke: Bool, _ text: String) -> Violation? {
        guard let open = revocations[RevocationKey(work)] else { return nil }
        let user = work.id.userID
        if open.text != text { return Violation(.noFalseRevocation, "another token of \(user) is to be revoked than was asked for") }
        if open.isOvertaken || open.mayBeOvertaken, !open.isRevoked {
            return Violation(.noFalseRevocation, "\(user) has signed in again, and an older token is still to be revoked")
        }
        if toRevoke, open.before != .accepted {
            return Violation(.stateFollowsFromFacts, "a token of \(user) is revoked before it is known that Apple accepts it")
        }
        return nil
    }

    /// - Parameter result: proofs and breaker decide whether siwatch believes that a token was dead from the first.
    /// - Returns: the allowed results.
    mutating func settle(_ work: DueRevocation, _ call: AnsweredQuestion?, _ result: Settled, at now: Timestamp) -> [Settled] {
        let key = RevocationKey(work)
        guard var open = revocations[key], open.held == work.claim else { return [.superseded] }
        open.held = nil
        hear(call?.ofClient, of: key.clientID, at: now)
        defer { if revocations[key] != nil { revocations[key] = open } }
        if work.claim.attempts > 5 { return [close(key, open, .rejected, .poison)] }
        guard let call else {
            if open.isOvertaken, !open.isRevoked { return [close(key, open, .superseded)] }
            if open.mayBeOvertaken, !open.isRevoked, result == .postponed {
                reconsider(&open, at: now)
                return [.postponed]
            }
            // The client was paused since the claim, or siwatch may not repeat its first question yet.
            guard result == .postponed else { return [] }
            if open.before == .rejected { reconsider(&open, at: now) }
            return [.postponed]
        }
        if call.word == .unnamed, !open.isRevoked, open.standing == .neverAccepted { return [close(key, open, .rejected, .unnamedUser)] }
        // An answer to another key proves nothing, nor does one to another team than Apple accepted the token from.
        let isAnotherTeam = open.before == .accepted && open.verifiedTeam.map { $0 != call.team } ?? false
        if call.word != .none, call.word != .foreign, let known = open.keyID, known != call.keyID || isAnotherTeam {
            (open.before, open.isRevoked, open.isAlive, open.keyID) = (nil, false, false, nil)
            if call.word == .revoked || call.word == .unheard { return [.postponed] }
        }
        switch call.word {
        case .none: break
        case .foreign: if open.before != .accepted { return [close(key, open, .rejected, .anotherUser)] }
        case .revoked, .unheard: (open.isRevoked, open.isUnheard) = (true, call.word == .unheard)
        case .accepted where open.isRevoked, .unnamed where open.isRevoked:
            (open.isRevoked, open.isAlive) = (false, true)
            (open.standing, open.verifiedTeam) = (.accepted, call.team)
        case .rejected where open.isRevoked: return [close(key, open, .proved)]
        case .rejected where open.before == .rejected:
            // Apple's answers to another team prove nothing.
            let known = facts[open.credential]!
            let isNewest = known.token == open.token
            // A backend may have reported a sign-in since, or a check accepted the token. What the proof itself accepted counts alone.
            let speaksByChecks = open.standing != .accepted && isNewest && known.tokenSpeaksOfUser
            let isOthers =
                open.verifiedTeam.map { $0 != call.team } ?? false || speaksByChecks && verifiedTeam(of: open.credential) != call.team
            let dead: RevocationOutcome = open.standing == .accepted || speaksByChecks ? .alreadyInvalid : .noValidToken
            if result == .revocation(dead), !isOthers { return [close(key, open, dead)] }
            if result == .revocation(.rejected, .otherTeam), isOthers { return [close(key, open, .rejected, .otherTeam)] }
            // The breaker has opened meanwhile.
            reconsider(&open, at: now)
        case .accepted, .unnamed, .rejected:
            let word: AnsweredQuestion.Word = call.word == .rejected ? .rejected : .accepted
            (open.before, open.keyID, open.askedAt, open.date) = (word, call.keyID, call.askedAt, call.date)
            open.isAskedAnew = false
            if word == .accepted { (open.standing, open.verifiedTeam) = (.accepted, call.team) }
        }
        return [.postponed]
    }

    /// After siwatch has asked about all other tokens, it asks Apple anew.
    private func reconsider(_ open: inout OpenRevocation, at now: Timestamp) {
        guard open.askedAt > now || open.askedAt.advanced(by: SimulatedProcess.policy.repetition) <= now else { return }
        (open.before, open.isAskedAnew) = (nil, true)
    }

    private mutating func close(
        _ key: RevocationKey,
        _ open: OpenRevocation,
        _ outcome: RevocationOutcome,
        _ reason: RevocationRejection? = nil
    ) -> Settled {
        revocations[key] = nil
        let after = outcome == .proved ? "invalid_grant" : open.isAlive ? "accepted" : ""
        let answers = [open.before?.text ?? "", open.isRevoked ? open.isUnheard ? "unheard" : "revoked" : "", after]
        let (word, why) = (outcome.rawValue, reason?.rawValue ?? "")
        receipts.append(Receipt(request: key.request, clientID: key.clientID, outcome: word, reason: why, answers: answers))
        if !revocations.keys.contains(where: { $0.request == key.request }) { requestRows[key.request] = nil }
        userFacts[open.credential.userID, default: UserFacts()].requestsWithTokens.insert(open.wantedAt)
        facts[open.credential]?.answeredTokens.insert(open.token)
        if outcome == .proved || outcome == .alreadyInvalid {
            facts[open.credential]!.revocations.insert(open.wantedAt)
            facts[open.credential]!.revokedTokens.insert(open.token)
            userFacts[open.credential.userID, default: UserFacts()].ended.insert(open.wantedAt)
            touched.insert(open.credential.userID)
        }
        // Apple has ended all grants to the app: tokens of its other clients, and tokens that backends report later.
        if outcome == .proved { userFacts[open.credential.userID, default: UserFacts()].revoked.insert(open.wantedAt) }
        return .revocation(outcome, reason)
    }
}

extension ReferenceModel.OpenRevocation {
    /// The time of the app's request, but not after the first question: by the host's clock if that is right, else by Apple's second.
    fileprivate var wantedAt: Timestamp {
        guard before != nil else { return requestedAt }
        let distance = date.duration(to: askedAt)
        let asked = distance >= .seconds(-15) && distance < .seconds(1) ? askedAt : date
        return min(requestedAt, max(asked, token.grantedAt))
    }
}

extension ReferenceModel.RevocationKey {
    init(_ work: DueRevocation) { self.init(request: work.request, clientID: work.id.clientID, fingerprint: work.token.fingerprint) }
}

extension AnsweredQuestion.Word {
    fileprivate var text: String { self == .rejected ? "invalid_grant" : "accepted" }
}
