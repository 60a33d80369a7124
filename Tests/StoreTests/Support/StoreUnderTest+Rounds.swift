// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Whole rounds.
extension StoreUnderTest {
    /// Settles every grant that is due, each as told.
    @discardableResult
    func settleGrants(
        at now: Timestamp,
        as verdict: (ClaimedGrant) -> GrantVerdict = { .acceptance(of: $0) }
    ) async throws -> [Settled] {
        try await settle(claimGrants(at: now).map { .grant($0, verdict($0)) }, at: now).results
    }

    /// A sign-in that is queued and settled, by default in the minute of the sign-in.
    @discardableResult
    func signIn(
        _ user: String = "user",
        client: String = "app",
        token: String? = nil,
        email: EmailAddress? = nil,
        at time: Timestamp = .start,
        now: Timestamp? = nil
    ) async throws -> Settled {
        try await grant(user, client: client, token: token, email: email, at: time)
        return try await settleGrants(at: now ?? time)[0]
    }

    /// Apple has accepted a user's tokens, in the moment of their sign-ins.
    func accept(_ user: String = "user") async throws {
        try await run("UPDATE credential SET verified_at = token_granted_at WHERE user_id = ?", [.text(user)])
    }

    /// An event that is queued and settled, by default in the minute it happened.
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
        let claimed = try await claimNotifications(at: now ?? time)
        return try await settle(
            .notification(claimed[0], .event(kind, user, client: client, at: time, type: type, tokenID: tokenID)),
            at: now ?? time
        )
    }

    /// What Apple said of a user's token, a second after it was asked: by default a rejection, which waits.
    ///
    /// - Parameter requestedAt: when it was asked by Apple's clock; by ours at the time at which this happens.
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

    /// Claims what is to be believed of `example`, and settles it.
    @discardableResult
    func admit(_ rule: AdmissionRule? = nil, at now: Timestamp) async throws -> [Settled] {
        let rule = rule ?? AdmissionRule(clientID: "app", keyID: "KEY", answered: .earliest...(now - .minutes(15)))
        return try await settle(admissions(of: "example", by: rule, at: now), at: now).results
    }

    /// Claims what is to be believed of an app; without a rule all that waits.
    func admissions(of app: String, by rule: AdmissionRule? = nil, at now: Timestamp) async throws -> [Settlement] {
        let rules = [rule ?? AdmissionRule(answered: .earliest...now)]
        let claimed = try await ports.claimPendingRejections(of: app, admittedBy: rules, upTo: 100, at: now, policy: Self.policy)
        return claimed.compactMap { work in
            guard case .admission(let rejection) = work.purpose else { return nil }
            return .admission(work, rejection)
        }
    }

    /// An answer of Apple's about the one credential of `example` that is due. A rejection is believed at once; nil is neither yes nor no.
    @discardableResult
    func refresh(_ answer: RefreshAnswer.Verdict?, at now: Timestamp) async throws -> Settled {
        try await settle(answer, about: try await claimCredentials(at: now)[0], at: now)
    }

    /// - Parameter now: when Apple answered, and when it is settled.
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
