// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// All that is kept of one user, and of no other, without a secret.
@Suite(.schemas, .timeLimit(.minutes(10))) struct PersonalDataTests {
    private func data(_ kind: StoreKind) async throws -> (StoreUnderTest, [String: [[String: PersonalData.Value]]]) {
        let store = try kind.make()
        try await store.askEverything()
        try await store.grant("leaving", token: "in-clear", email: EmailAddress("l@example.com"), at: .start + .days(20))
        try await store.receive("leaving waits", at: .start + .days(20))
        let tables = try await store.personalData(of: "leaving").tables
        return (store, Dictionary(uniqueKeysWithValues: tables.map { ($0.name, $0.rows) }))
    }

    @Test(arguments: StoreKind.allCases)
    func everyRowIsThere(_ kind: StoreKind) async throws {
        let (_, tables) = try await data(kind)
        let filled = tables.filter { !$0.value.isEmpty }.keys.sorted()
        #expect(
            filled == [
                "credential", "credential_change", "grant_log", "grant_queue", "notification_queue", "revocation", "revocation_queue",
            ]
        )
        let credential = try #require(tables["credential"]?.first)
        #expect(credential["user_id"] == .text("leaving") && credential["app"] == .text("example"))
        #expect(credential["client_id"] == .text("app") && credential["state"] == .text("authorized"))
        #expect(credential["granted_at"] == .time(.start + .days(10)) && credential["rejected_at"] == .absent)
        #expect(tables["notification_queue"]?.first?["payload"] == .text("leaving waits"))
        #expect(tables["grant_queue"]?.first?["email"] == .text("l@example.com"))
    }

    @Test(arguments: StoreKind.allCases)
    func noTokenIsShown(_ kind: StoreKind) async throws {
        let (_, tables) = try await data(kind)
        #expect(tables["credential"]?.first?["sealed_token"] == .held)
        #expect(tables["revocation"]?.first?["sealed_token"] == .held)
        #expect(tables["grant_queue"]?.first?["refresh_token"] == .held)
        #expect(tables["grant_queue"]?.first?["authorization_code"] == .absent)
        #expect(!"\(tables)".contains("in-clear"))
    }

    @Test(arguments: StoreKind.allCases)
    func nobodyHasNoRow(_ kind: StoreKind) async throws {
        let (store, _) = try await data(kind)
        #expect(try await store.personalData(of: "nobody").isEmpty)
        #expect(
            try await store.personalData(of: "leaving", in: "other").tables.allSatisfy {
                $0.name.hasPrefix("notification_") || $0.rows.isEmpty
            }
        )
    }
}
