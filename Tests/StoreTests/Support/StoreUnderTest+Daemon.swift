// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting

/// The daemon's work, one round at a time.
extension StoreUnderTest {
    static let lease = Duration.seconds(60)
    static let policy = RefreshPolicy()
    static let rules = SettlementRules(policy: policy, pollInterval: .seconds(1), startedAt: .start, pseudonymizer: PlainSealer())

    func claimNotifications(upTo limit: Int = 100, at now: Timestamp = .start) async throws -> [ClaimedNotification] {
        try await ports.claimNotifications(upTo: limit, at: now, lease: Self.lease, suspects: true)
    }

    func claimGrants(upTo limit: Int = 100, at now: Timestamp = .start) async throws -> [ClaimedGrant] {
        try await ports.claimGrants(upTo: limit, at: now, lease: Self.lease)
    }

    static let permits = ["example": 100, "other": 100]

    func claimCodes(
        upTo limit: Int = 100,
        permits: [String: Int] = permits,
        at now: Timestamp = .start,
        suspects: Bool = true,
        quotas: [String: Int] = [:]
    ) async throws -> [ClaimedCode] {
        try await ports.claimCodes(upTo: limit, permits: permits, at: now, lease: Self.lease, suspects: suspects, quotas: quotas)
    }

    func claimRevocationRequests(upTo limit: Int = 100, at now: Timestamp) async throws -> [ClaimedRevocationRequest] {
        try await ports.claimRevocationRequests(upTo: limit, at: now, lease: Self.lease)
    }

    func claimRevocations(
        permits: [String: Int] = permits,
        at now: Timestamp,
        isTrusted: Bool = true,
        quotas: [String: Int] = [:]
    ) async throws -> [DueRevocation] {
        let trusted = isTrusted ? now : nil
        return try await ports.claimRevocations(permits: permits, at: now, trusted: trusted, policy: Self.policy, quotas: quotas)
    }

    func claimCredentials(
        of app: String = "example",
        upTo limit: Int = 100,
        firstChecks: Int? = nil,
        at now: Timestamp,
        preferring preferred: Set<String> = [],
        quotas: [String: Int] = [:]
    ) async throws -> [DueCredential] {
        try await ports.claimDueCredentials(
            of: app,
            upTo: limit,
            firstChecks: firstChecks ?? limit,
            at: now,
            policy: Self.policy,
            preferring: preferred,
            quotas: quotas
        )
    }

    func settle(
        _ settlements: [Settlement],
        at now: Timestamp = .start,
        startedAt: Timestamp = .start,
        canaries: [String: Set<String>] = [:],
        revocationLimit: RevocationLimitRules = RevocationLimitRules()
    ) async throws -> SettlementChanges {
        var rules = Self.rules
        (rules.startedAt, rules.revocationLimit, rules.canaries) = (startedAt, revocationLimit, canaries)
        return try await ports.settle(settlements, under: rules, at: now)
    }

    func settle(_ settlement: Settlement, at now: Timestamp = .start, startedAt: Timestamp = .start) async throws -> Settled {
        try await settle([settlement], at: now, startedAt: startedAt).results[0]
    }
}

extension StoreUnderTest {
    @discardableResult
    func settleGrants(at now: Timestamp, as verdict: (ClaimedGrant) -> GrantVerdict = { .acceptance(of: $0) }) async throws -> [Settled] {
        try await settle(claimGrants(at: now).map { .grant($0, verdict($0)) }, at: now).results
    }

    @discardableResult
    func settleNotifications(at now: Timestamp = .start, as verdict: NotificationVerdict) async throws -> [Settled] {
        try await settle(claimNotifications(at: now).map { .notification($0, verdict) }, at: now).results
    }

    @discardableResult
    func settleCodes(at now: Timestamp = .start, as verdict: CodeVerdict) async throws -> [Settled] {
        try await settle(claimCodes(at: now).map { .code($0, verdict) }, at: now).results
    }

    @discardableResult
    func settleChecks(at now: Timestamp, as verdict: RefreshVerdict) async throws -> [Settled] {
        try await settle(claimCredentials(at: now).map { .refresh($0, verdict) }, at: now).results
    }

    /// Settles the requests to revoke, by default as good ones.
    @discardableResult
    func settleRequests(
        at now: Timestamp,
        as verdict: RevocationRequestVerdict? = nil,
        revocationLimit: RevocationLimitRules = RevocationLimitRules()
    ) async throws -> [Settled] {
        let settlements = try await claimRevocationRequests(at: now).map { Settlement.revocationRequest($0, verdict ?? .accepted(at: now)) }
        return try await settle(settlements, at: now, revocationLimit: revocationLimit).results
    }

    /// Settles an answer of Apple about each token that is being revoked.
    @discardableResult
    func settleTokens(
        _ word: RevocationProof.Answer.Word,
        dated date: Timestamp? = nil,
        permits: [String: Int] = permits,
        at now: Timestamp
    ) async throws -> [Settled] {
        let answer = RevocationProof.Answer(word, askedAt: now, date: date ?? now)
        let settlements = try await claimRevocations(permits: permits, at: now).map { work in
            Settlement.revocation(work, .answered(answer, by: ClientIdentity(clientID: work.id.clientID, keyID: "KEY")))
        }
        return try await settle(settlements, at: now).results
    }

    /// Queues and settles a sign-in, by default in the minute of the sign-in.
    ///
    /// - Parameter isAccepted: whether Apple has accepted the token.
    @discardableResult
    func signIn(
        _ user: String = "user",
        client: String = "app",
        token: String? = nil,
        email: EmailAddress? = nil,
        at time: Timestamp = .start,
        now: Timestamp? = nil,
        isAccepted: Bool = false
    ) async throws -> Settled {
        try await grant(user, client: client, token: token, email: email, at: time)
        let settled = try await settleGrants(at: now ?? time)[0]
        if isAccepted { try await accept(user) }
        return settled
    }

    func accept(_ user: String = "user") async throws {
        try await run("UPDATE credential SET verified_at = token_granted_at WHERE user_id = ?", [.text(user)])
    }

    /// Queues and settles an event, by default in the minute of the event.
    @discardableResult
    func notify(
        _ kind: Event.Kind,
        _ user: String = "user",
        client: String = "app",
        at time: Timestamp = .start,
        type: String? = nil,
        tokenID: String = "jti",
        now: Timestamp? = nil
    ) async throws -> Settled {
        try await receive(at: now ?? time)
        let verdict = NotificationVerdict.event(kind, user, client: client, at: time, type: type, tokenID: tokenID)
        return try await settleNotifications(at: now ?? time, as: verdict)[0]
    }

    /// Settles Apple's answer about a user's token, a second after the question: by default a rejection, which then waits.
    ///
    /// - Parameter requestedAt: the time of the question by Apple's clock. By the host's clock it is now.
    @discardableResult
    func reject(
        _ user: String,
        at now: Timestamp,
        keyID: String = "KEY",
        finding: RejectionBreaker.Finding = .rejected,
        dated requestedAt: Timestamp? = nil,
        canaries: Set<String> = []
    ) async throws -> Settled {
        try await run("UPDATE credential SET due_at = 0, first_check = 0 WHERE user_id = ?", [.text(user)])
        var due = try await claimCredentials(upTo: 1, at: now)[0]
        if finding == .blamed { due.clientAnswer = .refused(word: "invalid_client", at: now) }
        let answeredAt = now + .seconds(1)
        let verdict: RefreshVerdict =
            switch finding {
            case .valid: .valid(requestedAt: now, answeredAt: answeredAt)
            case .rejected:
                .rejected(PendingRejection(requestedAt: requestedAt ?? now, answeredAt: answeredAt, keyID: keyID), isProven: true)
            case .blamed: .failed(.misconfigured, at: answeredAt)
            }
        return try await settle([.refresh(due, verdict)], at: now, canaries: ["example": canaries]).results[0]
    }

    /// Claims the pending rejections of `example` that siwatch may believe, and settles them.
    @discardableResult
    func admit(_ rule: AdmissionRule? = nil, at now: Timestamp) async throws -> [Settled] {
        let rule = rule ?? AdmissionRule(clientID: "app", keyID: "KEY", answered: .earliest...(now - .minutes(15)))
        return try await settle(admissions(of: "example", by: rule, at: now), at: now).results
    }

    /// Claims the pending rejections of an app that siwatch may believe; without a rule, all of them.
    func admissions(of app: String, by rule: AdmissionRule? = nil, at now: Timestamp) async throws -> [Settlement] {
        let rules = [rule ?? AdmissionRule(answered: .earliest...now)]
        let claimed = try await ports.claimPendingRejections(of: app, admittedBy: rules, upTo: 100, at: now, policy: Self.policy)
        return claimed.compactMap { work in
            guard case .admission(let rejection) = work.purpose else { return nil }
            return .admission(work, rejection)
        }
    }

    /// Settles Apple's answer about the one due credential of `example`. siwatch believes a rejection at once. Nil is neither yes nor no.
    @discardableResult
    func refresh(_ answer: RefreshAnswer.Verdict?, at now: Timestamp) async throws -> Settled {
        try await settle(answer, about: try await claimCredentials(at: now)[0], at: now)
    }

    /// - Parameter now: the time of Apple's answer and of its settlement.
    @discardableResult
    func settle(_ answer: RefreshAnswer.Verdict?, about due: DueCredential, at now: Timestamp) async throws -> Settled {
        switch answer {
        case .valid: return try await settle(.refresh(due, .valid(at: now)), at: now)
        case nil: return try await settle(.refresh(due, .unclear(answeredAt: now)), at: now)
        case .rejected:
            let settled = try await settle(.refresh(due, .rejected(at: now)), at: now)
            return try await admit(AdmissionRule(answered: .earliest...now), at: now).first ?? settled
        }
    }
}
