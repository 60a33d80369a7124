// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

@testable import CredentialCore

/// A user whose grants the app asks siwatch to revoke, and what siwatch knows of the user when it settles.
struct RevocationWorld {
    static let start = Timestamp(seconds: 1_750_000_000)
    static let asked = start.advanced(by: .hours(1))
    static let now = asked.advanced(by: .seconds(1))
    static let apps = ["app": "example", "web": "example", "elsewhere": "other"]
    static let user = AppUserID(app: "example", userID: "ann")
    static let policy = RefreshPolicy()

    var credentials: [(clientID: String, record: CredentialRecord)] = []
    var registers: AppUser?
    var waiting: [WaitingGrant] = []
    var beingRevoked: [RefreshToken.Key: Timestamp] = [:]
    var breaker: RejectionBreaker?
    var startedAt = RevocationWorld.start

    init(_ signIns: (String, UInt8)...) { for (client, fingerprint) in signIns { signIn(client, fingerprint: fingerprint) } }

    func fold(_ settlements: Settlement..., at now: Timestamp = now) -> SettlementChanges {
        let rules = SettlementRules(policy: Self.policy, pollInterval: .seconds(1), startedAt: startedAt)
        let scope = SettlementScope(of: settlements, apps: Self.apps, under: rules)
        var basis = SettlementBasis()
        for id in scope.users {
            let isOurs = id == Self.user
            basis.users[id] = UserRecord(id, stored: isOurs ? registers : nil, credentials: isOurs ? credentials : [])
        }
        for (id, claim) in scope.revocationRequests where claim == .mine { basis.heldRevocationRequests[id] = claim }
        for (id, claim) in scope.revocations where claim == .mine { basis.heldRevocations[id] = claim }
        for (id, claim) in scope.grants where claim == .mine { basis.heldGrants[id] = claim }
        for id in scope.signingIn where id == Self.user { basis.waitingGrants[id] = waiting }
        for id in scope.leaving where id == Self.user { basis.tokensBeingRevoked[id] = beingRevoked }
        for app in scope.judgedApps { basis.breakers[app] = breaker }
        return SettlementFold.fold(settlements, over: basis, apps: Self.apps, under: rules, at: now)
    }

    mutating func signIn(
        _ client: String = "app",
        at time: Timestamp = start,
        hasToken: Bool = true,
        fingerprint: UInt8 = 1,
        isAccepted: Bool = true
    ) {
        var record = credentials.first { $0.clientID == client }?.record ?? CredentialRecord()
        let token = RefreshToken(at: time, fingerprint: fingerprint)
        let id = CredentialID(clientID: client, userID: "ann")
        _ = record.take(Grant(grantedAt: time, token: hasToken ? token : nil), of: id, under: Self.policy, at: time)
        if hasToken, isAccepted {
            record.credential.apply(RefreshAnswer(.valid, token: token.key, requestedAt: time.advanced(by: .minutes(1))))
        }
        credentials.removeAll { $0.clientID == client }
        credentials.append((client, record))
    }

    mutating func take(_ changes: SettlementChanges) {
        guard let user = changes.users.first(where: { $0.id == Self.user }) else { return }
        registers = user.registers
        credentials = user.holdings.map { ($0.clientID, $0.record) }
    }

    // MARK: What the app asks, what Apple answers, and what comes of it

    static func request(
        _ client: String = "app",
        id: Int64 = 1,
        at time: Timestamp = asked,
        claim: Claim = .mine
    ) -> ClaimedRevocationRequest {
        let credential = CredentialID(clientID: client, userID: "ann")
        return ClaimedRevocationRequest(id: id, claim: claim, app: apps[client], requestedAt: time, credential: credential)
    }

    static func accepted(_ request: ClaimedRevocationRequest = request()) -> Settlement { .revocationRequest(request, .accepted(at: now)) }

    static func answer(_ word: RevocationProof.Answer.Word, date: Timestamp? = nil) -> RevocationVerdict {
        .answered(RevocationProof.Answer(word, askedAt: now, date: date), by: ClientIdentity(clientID: "app", keyID: "KEY"))
    }

    static func due(
        _ words: RevocationProof.Answer.Word...,
        at time: Timestamp = asked,
        claim: Claim = .mine,
        date: Timestamp? = nil,
        standing: DueRevocation.Standing = .acceptedBefore
    ) -> DueRevocation {
        var proof = RevocationProof()
        for word in words {
            let answer = RevocationProof.Answer(word, askedAt: now, date: date)
            _ = proof.take(answer, keyID: "KEY", of: .ann, under: policy, at: now)
        }
        var due = DueRevocation(requestedAt: time, grantedAt: start, claim: claim, proof: proof)
        due.standing = standing
        return due
    }

    static func finished(_ changes: SettlementChanges) -> (RevocationOutcome, RevocationRejection?)? {
        if case .revocation(.finish(_, _, let outcome, let reason)) = changes.queueRows.first { (outcome, reason) } else { nil }
    }

    static func proceeded(_ changes: SettlementChanges) -> (proof: RevocationProof, due: Timestamp)? {
        if case .revocation(.proceed(_, let proof, let due)) = changes.queueRows.first { (proof, due) } else { nil }
    }

    static func states(_ changes: SettlementChanges) -> [String] {
        (changes.users.first { $0.id == user }?.holdings ?? []).compactMap { holding in
            holding.standing.map { "\(holding.clientID) \($0.state.rawValue) \($0.reason.rawValue)" }
        }
    }

    /// The outcome and the states after it.
    static func end(_ changes: SettlementChanges) -> [String] {
        (finished(changes).map { outcome, reason in [outcome.rawValue] + [reason?.rawValue].compactMap(\.self) } ?? []) + states(changes)
    }
}
