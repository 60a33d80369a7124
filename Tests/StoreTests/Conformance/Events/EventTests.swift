// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// The effect of each kind of event on a credential.
@Suite(.schemas, .timeLimit(.minutes(10))) struct EventTests {
    private static let later = Timestamp.start + .hours(1)

    private func row(after kind: Event.Kind, in store: StoreUnderTest) async throws -> [SQLValue] {
        try await store.signIn(token: "r", email: EmailAddress("a@example.com"))
        #expect(try await store.notify(kind, at: Self.later) == .notification(kind == .unknown ? .unknownType : .applied))
        return try await store.rows("SELECT state, reason, changed_at, email, email_is_private, email_forwarding FROM credential_state")[0]
    }

    @Test(arguments: StoreKind.allCases)
    func withdrawnConsentRevokes(_ kind: StoreKind) async throws {
        #expect(
            try await row(after: .consentRevoked, in: kind.make())
                == ["revoked", "consent_revoked", .at(Self.later), "a@example.com", nil, nil]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func aDeletedAccountIsNotFound(_ kind: StoreKind) async throws {
        #expect(try await row(after: .accountDeleted, in: kind.make()) == ["notFound", "account_deleted", .at(Self.later), nil, nil, nil])
    }

    @Test(arguments: StoreKind.allCases)
    func mailThatIsForwardedChangesNoState(_ kind: StoreKind) async throws {
        #expect(
            try await row(after: .emailEnabled(EmailAddress("b@privaterelay.appleid.com", isPrivate: true)), in: kind.make())
                == ["authorized", "granted", .at(.start), "b@privaterelay.appleid.com", 1, "enabled"]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func mailThatIsNotForwardedChangesNoState(_ kind: StoreKind) async throws {
        #expect(
            try await row(after: .emailDisabled(nil), in: kind.make())
                == ["authorized", "granted", .at(.start), "a@example.com", nil, "disabled"]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func anUnknownTypeChangesNothing(_ kind: StoreKind) async throws {
        let store = try kind.make()
        #expect(try await row(after: .unknown, in: store) == ["authorized", "granted", .at(.start), "a@example.com", nil, nil])
        #expect(try await store.notify(.unknown, "nobody", type: "other", now: Self.later) == .notification(.unknownType))
        #expect(try await store.count("credential_state") == 1)
    }

    @Test(arguments: StoreKind.allCases)
    func aSignInAfterwardsAuthorizesAgain(_ kind: StoreKind) async throws {
        let store = try kind.make()
        _ = try await row(after: .consentRevoked, in: store)
        try await store.signIn(token: "new", at: Self.later + .hours(1))
        #expect(try await store.rows("SELECT state, reason FROM credential_state") == [["authorized", "granted"]])
        #expect(try await store.claimCredentials(at: Self.later + .days(3)).count == 1)
    }

    /// The user consents to the app group, so the event also counts for a client that gets its first row later.
    @Test(arguments: StoreKind.allCases)
    func aSignInThatComesLateDoesNotUndoIt(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.notify(.consentRevoked, at: Self.later)
        try await store.signIn(client: "web", token: "r", at: .start, now: Self.later)
        #expect(
            try await store.rows("SELECT client_id, state, reason, next_check_at FROM credential_state ORDER BY client_id")
                == [["app", "revoked", "consent_revoked", nil], ["web", "revoked", "consent_revoked", nil]]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func atOneMomentTheSignInWins(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn()
        #expect(try await store.notify(.consentRevoked) == .notification(.stale))
        #expect(try await store.rows("SELECT state, reason FROM credential_state") == [["authorized", "granted"]])
    }
}
