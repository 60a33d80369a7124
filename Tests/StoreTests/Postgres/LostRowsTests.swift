// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Testing

@testable import PostgresStore

/// Rows that a failover has lost, a restore has taken back, or a copy of the database has left behind.
@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(10))) struct LostRowsTests: ConformanceSuite {
    private var postgres: PostgresStore { store.postgres }

    private func settleGrant() async throws -> [Settled] {
        let settlements = try await store.claimGrants().map { Settlement.grant($0, .acceptance(of: $0)) }
        do {
            return try await store.settle(settlements).results
        } catch StoreError.retry {
            return try await store.settle(settlements).results
        }
    }

    /// Otherwise its number would be unknown, or another client's, and no backend would see the sign-in.
    @Test func aClientThatWasForgottenIsTakenInAgain() async throws {
        try postgres.register([AppClients(name: "late", clientIDs: ["com.example.late"])])
        try await store.run("DELETE FROM client WHERE client_id = 'com.example.late'")
        try await store.run("INSERT INTO grant_queue (client_id, user_id, granted_at) VALUES ('com.example.late', 'user', 1767225600000)")
        #expect(try await settleGrant() == [.grant(.applied, nil)])
        let seen = try await store.column("SELECT client_id FROM credential_state WHERE app = 'late' AND user_id = 'user'")
        #expect(seen.compactMap(\.text) == ["com.example.late"])
    }

    /// The server gives no id out again after an operator has copied rows without their sequences.
    @Test func idsGoOnWhereTheRowsEnd() async throws {
        let sql = "SELECT table_name::text FROM information_schema.columns WHERE table_schema = ? AND is_identity = 'YES'"
        let tables = try await store.column(sql, [.text(postgres.address.schema)]).compactMap(\.text)
        #expect(tables.contains("credential_change") && tables.contains("client") && tables.count > 8)
        try await store.run("INSERT INTO grant_queue (client_id, user_id) SELECT 'other', 'u' || n FROM generate_series(1, 7) n")
        for table in tables { try await store.run("ALTER TABLE \(table) ALTER COLUMN id RESTART") }
        try await PostgresStore.open(postgres.address).close()
        try await store.run("INSERT INTO grant_queue (client_id, user_id) VALUES ('other', 'next')")
        #expect(try await store.column("SELECT id FROM grant_queue WHERE user_id = 'next'") == [.integer(8)])
        let clients = try #require(try await store.count("client"))
        try postgres.register([AppClients(name: "late", clientIDs: ["com.example.late"])])
        #expect(try await store.count("client") == clients + 1)
        // A receipt keeps the number of its request.
        let receipt = "revocation_log (request, client_id, user_id, requested_at, settled_at, outcome)"
        try await store.run("INSERT INTO \(receipt) VALUES (41, 'app', 'user', 1, 1, 'no_token')")
        // siwatch sets nothing back, and leaves other programs' tables alone.
        try await store.run("CREATE TABLE \"Somebody's\" (id BIGINT GENERATED ALWAYS AS IDENTITY)")
        try await store.run("DELETE FROM grant_queue")
        try await PostgresStore.open(postgres.address).close()
        try await store.run("INSERT INTO grant_queue (client_id, user_id) VALUES ('other', 'last')")
        #expect(try await store.column("SELECT id FROM grant_queue WHERE user_id = 'last'") == [.integer(9)])
        try await store.run("INSERT INTO revocation_queue (client_id, user_id) VALUES ('other', 'last')")
        #expect(try await store.column("SELECT id FROM revocation_queue") == [.integer(42)])
    }

    /// Logical replication finds a row by its key. A publication of all tables refuses deletes from a table without one.
    @Test func everyTableHasAKey() async throws {
        let without = try await store.column(
            """
            SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = ? AND c.relkind = 'r' AND NOT EXISTS (SELECT 1 FROM pg_index WHERE indrelid = c.oid AND indisprimary)
            """,
            [.text(postgres.address.schema)]
        ).compactMap(\.text)
        #expect(without == [])
    }
}
