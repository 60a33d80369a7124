// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The required outcome of a request to revoke. A new sign-in of the user stops the revocation.
extension ReferenceModel {
    struct RequestRow {
        var credential: CredentialID
        var requestedAt: Timestamp
        /// Not later than siwatch's first look, unless the backend dates a known sign-in between the two.
        var effectiveAt: Timestamp?
        var held: Claim?
        /// Whether siwatch is revoking its tokens.
        var isOpen = false
        /// Whether it waits for an operator, and when one has confirmed it.
        var isHeld = false
        var confirmedAt: Timestamp?
    }

    struct SignIn: Hashable {
        var credential: CredentialID
        var at: Timestamp
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
        let known = revocations.values.filter { isSameUser($0.credential, credential) }
        let withTokens = user.requestsWithTokens.union(known.filter { !$0.isPlanted }.map(\.wantedAt))
        // A planted one counts as one without a token, so that the limit decides.
        let planted = known.filter(\.isPlanted).map(\.requestedAt) + plantedInBatch[credential.userID, default: []]
        guard let newest = withTokens.union(user.requests).union(planted).max(), token.grantedAt <= newest,
            !hasSignedIn(credential, after: newest)
        else { return }
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
        defer { (repeated, plantedInBatch) = ([], [:]) }
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
        let wantedAt = effectiveTime(of: row, lookedAt: lookedAt, waiting)
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
        if row.confirmedAt == nil, let app = appOfClient[credential.clientID], let settled = revocationLimit(app, at: now) {
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
        let askedAt = row.effectiveAt ?? row.requestedAt
        let known = signIns.filter { $0 <= askedAt }.max() ?? .earliest
        let time = min(askedAt, max(known.advanced(by: .milliseconds(1)), lookedAt.advanced(by: .seconds(3))))
        return row.confirmedAt.map { min(time, $0.advanced(by: .seconds(3))) } ?? time
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

    mutating func closeRequest(_ id: Int64, _ outcome: RevocationOutcome, _ reason: RevocationRejection? = nil) -> Settled {
        let row = requestRows.removeValue(forKey: id)!
        if reason != .dropped, let at = row.effectiveAt { userFacts[row.credential.userID, default: UserFacts()].requests.insert(at) }
        let (clientID, why) = (row.credential.clientID, reason?.rawValue ?? "")
        receipts.append(Receipt(request: id, clientID: clientID, outcome: outcome.rawValue, reason: why))
        return .revocation(outcome, reason)
    }
}
