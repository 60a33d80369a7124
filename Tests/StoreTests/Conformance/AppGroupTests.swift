// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// A user consents to an app group. A fact about the user there holds for every client of the group, and for no other group.
@Suite(.schemas, .timeLimit(.minutes(10))) struct AppGroupTests {
    private static let later = Timestamp.start + .hours(1)

    private func states(_ store: StoreUnderTest) async throws -> [[SQLValue]] {
        try await store.rows("SELECT app, client_id, state, reason FROM credential_state ORDER BY app, client_id")
    }

    @Test(arguments: StoreKind.allCases)
    func anEventForOneClientReachesAll(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(client: "app")
        try await store.signIn(client: "web")
        try await store.notify(.consentRevoked, client: "web", at: Self.later)
        #expect(
            try await states(store)
                == [["example", "app", "revoked", "consent_revoked"], ["example", "web", "revoked", "consent_revoked"]]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func anEventMakesARowForTheClientItNames(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(client: "app")
        try await store.notify(.accountDeleted, client: "web", at: Self.later)
        #expect(
            try await states(store)
                == [["example", "app", "notFound", "account_deleted"], ["example", "web", "notFound", "account_deleted"]]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func aSignInAtOneClientLeavesTheOtherRevoked(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(client: "app")
        try await store.signIn(client: "web")
        try await store.notify(.consentRevoked, at: Self.later)
        try await store.signIn(client: "web", at: Self.later + .hours(1))
        #expect(
            try await states(store) == [["example", "app", "revoked", "consent_revoked"], ["example", "web", "authorized", "granted"]]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func anEventBetweenTwoSignInsIsApplied(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(client: "app")
        try await store.signIn(client: "web", at: Self.later + .hours(1))
        #expect(try await store.notify(.consentRevoked, at: Self.later, now: Self.later + .hours(2)) == .notification(.applied))
        #expect(
            try await states(store) == [["example", "app", "revoked", "consent_revoked"], ["example", "web", "authorized", "granted"]]
        )
    }

    /// Two developers' teams may see the same `sub`. The tables do not forbid it.
    @Test(arguments: StoreKind.allCases)
    func anotherAppIsAnotherWorld(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let address = EmailAddress("a@example.com")
        try await store.signIn(client: "app", token: "r1", email: address)
        try await store.signIn(client: "elsewhere", token: "r2")
        try await store.notify(.accountDeleted, client: "elsewhere", at: Self.later)
        #expect(
            try await states(store) == [
                ["example", "app", "authorized", "granted"], ["other", "elsewhere", "notFound", "account_deleted"],
            ]
        )
        #expect(try await store.column("SELECT email FROM credential_state ORDER BY app") == ["a@example.com", nil])
        #expect(try await store.claimCredentials(of: "other", at: .start + .days(3)).isEmpty)
        #expect(try await store.claimCredentials(of: "example", at: .start + .days(3)).count == 1)
    }

    /// Swift treats the two spellings as one string. To Apple, and to the tables, they are two users.
    @Test(arguments: StoreKind.allCases)
    func usersAreToldApartByBytes(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let (composed, decomposed) = ("us\u{e9}r", "use\u{301}r")
        try await store.grant(composed)
        try await store.grant(decomposed, at: .start - .hours(1))
        #expect(try await store.settleGrants(at: .start) == [.grant(.applied, nil), .grant(.applied, nil)])
        #expect(
            try await store.column("SELECT changed_at FROM credential_state ORDER BY changed_at") == [.at(.start - .hours(1)), .at(.start)]
        )
    }
}
