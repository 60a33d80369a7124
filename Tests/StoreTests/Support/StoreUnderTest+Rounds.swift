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

    /// An answer of Apple's about the one credential of `example` that is due.
    @discardableResult
    func refresh(_ answer: RefreshAnswer.Verdict?, at now: Timestamp, nextCheck: Timestamp? = nil) async throws -> Settled {
        let due = try await claimCredentials(at: now)
        return try await settle(.refresh(due[0], .answer(answer, about: due[0], at: now, nextCheck: nextCheck)), at: now)
    }
}
