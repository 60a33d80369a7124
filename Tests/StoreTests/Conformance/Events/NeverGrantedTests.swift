// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// A user known only by an event about e-mail.
@Suite(.schemas, .timeLimit(.minutes(10))) struct NeverGrantedTests {
    private static let address = EmailAddress("a@privaterelay.appleid.com", isPrivate: true)

    @Test(arguments: StoreKind.allCases)
    func standsInTheViewsAndSaysNothing(_ kind: StoreKind) async throws {
        let store = try kind.make()
        #expect(try await store.notify(.emailEnabled(Self.address)) == .notification(.applied))
        #expect(
            try await store.rows("SELECT state, reason, changed_at, verified_at, next_check_at FROM credential_state")
                == [["notFound", "never_granted", nil, nil, nil]]
        )
        #expect(
            try await store.rows("SELECT app, user_id, state, reason, changed_at, verified_at FROM user_state")
                == [["example", "user", "notFound", "never_granted", nil, nil]]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func announcesNothing(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.notify(.emailEnabled(Self.address))
        try await store.notify(.emailDisabled(Self.address), at: .start + .hours(1))
        #expect(try await store.count("credential_change") == 0)
    }

    @Test(arguments: StoreKind.allCases)
    func isNewWithTheFirstSignIn(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.notify(.emailEnabled(Self.address))
        try await store.signIn(at: .start + .hours(1))
        #expect(
            try await store.rows(
                "SELECT kind, from_state, to_state, reason, email, email_forwarding, source FROM credential_change ORDER BY id"
            ) == [
                ["state", nil, "authorized", "granted", nil, nil, "grant"],
                ["email", nil, nil, nil, "a@privaterelay.appleid.com", "enabled", "grant"],
            ]
        )
    }
}
