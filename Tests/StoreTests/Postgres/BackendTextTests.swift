// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import PostgresStore

/// What a backend may write into a text, and what the server refuses.
@Suite struct BackendTextTests {
    @Test(arguments: ["convert_from('\\xc328', 'UTF8')", "convert_from('\\x6100', 'UTF8')", "chr(0)", "''"])
    func whatIsNoTextIsRefused(_ value: String) async throws {
        let store = try StoreKind.postgres.make()
        for column in ["client_id", "user_id", "refresh_token"] {
            let values = ["client_id": "'app'", "user_id": "'ann'"].merging([column: value]) { $1 }
            let sql = "INSERT INTO grant_queue (\(values.keys.joined(separator: ", "))) VALUES (\(values.values.joined(separator: ", ")))"
            await #expect(throws: StoreError.self) { try await store.run(sql) }
        }
        #expect(try await store.count("grant_queue") == 0)
    }

    @Test(arguments: ["client_id", "user_id", "authorization_code", "redirect_uri", "nonce"])
    func whatIsTooLongIsMalformed(_ column: String) async throws {
        let store = try StoreKind.postgres.make()
        let values = ["client_id": "'app'", "user_id": "'ann'", "authorization_code": "'c'"].merging([column: "repeat('a', 8193)"]) { $1 }
        let now = Timestamp.start
        try await store.run(
            """
            INSERT INTO grant_queue (\(values.keys.joined(separator: ", ")), granted_at)
            VALUES (\(values.values.joined(separator: ", ")), \(now.milliseconds))
            """
        )
        let claimed = try await store.ports.claimCodes(
            upTo: 9,
            permits: ["example": 9],
            at: now,
            lease: StoreUnderTest.lease,
            suspects: true
        )
        let work = try #require(claimed.first)
        #expect(work.content == nil)
        #expect(try await store.settle(.code(work, .rejected(.malformed)), at: now) == .grant(.rejected, .malformed))
    }

    @Test func aRenamedAppHasItsHistory() async throws {
        let store = try StoreKind.postgres.make()
        try await store.signIn(token: "r")
        let postgres = try #require(store.ports as? PostgresStore)
        try await postgres.renameApp("example", to: "renamed")
        #expect(try await store.column("SELECT app FROM credential_change UNION SELECT app FROM user_state") == ["renamed"])
        await #expect(throws: AppRenameError.taken("other")) { try await postgres.renameApp("renamed", to: "other") }
        await #expect(throws: AppRenameError.unknown("example", known: ["other", "renamed"])) {
            try await postgres.renameApp("example", to: "new")
        }
    }
}
