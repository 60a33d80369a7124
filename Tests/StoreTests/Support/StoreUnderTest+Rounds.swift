// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Whole rounds.
extension StoreUnderTest {
    /// Settles every due grant with this verdict.
    @discardableResult
    func settleGrants(
        at now: Timestamp,
        as verdict: (ClaimedGrant) -> GrantVerdict = { .acceptance(of: $0) }
    ) async throws -> [Settled] {
        try await settle(claimGrants(at: now).map { .grant($0, verdict($0)) }, at: now).results
    }

    /// Queues and settles a sign-in, by default in the minute of the sign-in.
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

    /// Lets Apple accept a user's tokens at the time of their sign-ins.
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
        let claimed = try await claimNotifications(at: now ?? time)
        return try await settle(
            .notification(claimed[0], .event(kind, user, client: client, at: time, type: type, tokenID: tokenID)),
            at: now ?? time
        )
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
