// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import Testing

@testable import PostgresStore

/// Both stores have the same tables and views for backends, and one migration runs at a time.
@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(10))) struct PostgresSchemaTests: ConformanceSuite {
    /// The tables that docs/schema.md names.
    private static let tables = [
        "notification_queue", "grant_queue", "revocation_queue", "user_state", "credential_state", "app_client", "credential_change",
        "notification_log", "notification_quarantine", "grant_log", "revocation_log", "grant_outcome", "revocation_outcome", "heartbeat",
    ]

    @Test func theColumnsAreTheSame() async throws {
        let file = try StoreKind.file.make()
        for table in Self.tables {
            let sqlite = try await file.column("SELECT name FROM pragma_table_info(?) ORDER BY name", [.text(table)])
            let columns = "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0 ORDER BY 1"
            let postgres = try await store.column(columns, [.text(table)])
            #expect(postgres == sqlite && !postgres.isEmpty, "\(table)")
        }
    }

    /// A change of the schema needs a migration and an entry in the changelog. To write the file anew: `WRITE_SCHEMA=1 make test
    /// ARGS="--filter SchemaTests"`.
    @Test func isTheOneThatWasPublished() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../PostgresSchema.sql").standardized
        let found = Schema.v1 + Schema.grants(in: "siwatch")
        if ProcessInfo.processInfo.environment["WRITE_SCHEMA"] != nil { try found.write(to: file, atomically: true, encoding: .utf8) }
        #expect(found == (try String(contentsOf: file, encoding: .utf8)))
    }

    /// Poolers: one drops siwatch's settings, so that siwatch would make the tables in another schema. One hands on connections with
    /// another client's prepared statements.
    @Test(arguments: ["SET search_path TO public", "PREPARE s2 AS SELECT 1"])
    func nothingIsMadeBehindAPooler(_ before: String) async throws {
        let address = try PostgresUnderTest.address()
        let thread = ConnectionThread(address, label: "dropped")
        await #expect {
            try await thread.run { connection in
                try connection.run(before)
                try Migrator(address: address, connection: connection).migrate()
            }
        } throws: {
            ($0 as? StoreOpenError).map { "\($0)".contains("a pooler on the way") } ?? false
        }
        await thread.close()
    }

    @Test func aRefusalSaysWhatOughtToHold() async throws {
        let tooLong = "grant_queue (client_id, user_id, refresh_token) VALUES ('app', 'user', repeat('r', 65537))"
        let refusals = [
            (tooLong, "refresh_token is at most 65536 bytes"),
            ("notification_queue (id, payload) OVERRIDING SYSTEM VALUE VALUES (-7, 'x')", "id is not to be given"),
            ("grant_queue (client_id, user_id, email) VALUES ('app', 'user', repeat('ü', 32769))", "email is at most 65536 bytes"),
            ("revocation_queue (client_id, user_id) VALUES (repeat('a', 2049), 'user')", "client_id is at most 2048 bytes"),
        ]
        for (insert, constraint) in BackendBytesTests.refusals + refusals {
            await #expect("\(insert)") {
                try await store.run("INSERT INTO \(insert)")
            } throws: {
                // The message contains nothing of the row.
                "\($0)" == "the database refuses a row: 23514 \(constraint)"
            }
        }
    }

    @Test func manyMayMigrateAtOnce() async throws {
        let address = try PostgresUnderTest.address()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 1...4 { group.addTask { _ = try PostgresStore.open(address) } }
            try await group.waitForAll()
        }
    }

    @Test func aNewerSchemaIsUsedWhileItIsCompatible() async throws {
        let address = store.postgres.address
        try await store.run("UPDATE schema_version SET version = 7")
        _ = try PostgresStore.open(address)
        try await store.run("UPDATE schema_version SET compatible_from = 7")
        #expect(throws: StoreOpenError.self) { try PostgresStore.open(address) }
    }

    @Test func whatIsNotOursIsLeftAlone() async throws {
        let address = try PostgresUnderTest.address()
        let door = PostgresDoor(address)
        try await door.run("CREATE SCHEMA \(address.quotedSchema)", [])
        try await door.run("CREATE TABLE theirs (id BIGINT)", [])
        #expect(throws: StoreOpenError.self) { try PostgresStore.open(address) }
        #expect(try await door.rows("SELECT COUNT(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace", []) == [[1]])
    }

    /// Too many transactions without a vacuum are the server's trouble. siwatch blames no row.
    @Test func aServerThatTakesNoMoreTransactionsIsWaitedFor() async throws {
        func raise(_ naming: String) async -> String? {
            let error = "ERRCODE = 'program_limit_exceeded', MESSAGE = 'not accepting commands'\(naming)"
            return await storeFailure { try await store.run("DO $$ BEGIN RAISE EXCEPTION USING \(error); END $$") }
        }
        #expect(await raise("") == "unavailable")
        #expect(await raise(", TABLE = 'grant_queue'") == "refused")
    }

    /// The store replaces a lost connection, and settles its claims over the new one.
    @Test func aLostConnectionIsMadeAnew() async throws {
        try await store.grant()
        let work = try await store.claimGrants()
        await #expect(throws: StoreError.self) {
            try await store.postgres.writer.run { try $0.rows("SELECT pg_terminate_backend(pg_backend_pid())").count }
        }
        #expect(try await store.settle(.grant(work[0], .acceptance(of: work[0]))) == .grant(.applied, nil))
    }

    /// Such as by a restart of the server in a quiet minute. No caller has to fail first.
    @Test func aConnectionThatTheServerHasEndedFailsNobody() async throws {
        for thread in [store.postgres.writer, store.postgres.reader] {
            let session = try await thread.run { try $0.fetchInt("SELECT pg_backend_pid()") }
            #expect(try await store.column("SELECT pg_terminate_backend(\(session), 60000)::int")[0].integer == 1)
            #expect(try await thread.run { try $0.fetchInt("SELECT pg_backend_pid()") } != session)
        }
    }

    /// A role may have another default. siwatch is made for this one.
    @Test func itsTransactionsAreReadCommitted() async throws {
        for thread in [store.postgres.writer, store.postgres.reader] {
            let ours = "name = 'default_transaction_isolation' AND setting = 'read committed' AND source = 'client'"
            #expect(try await thread.run { try $0.fetchInt("SELECT COUNT(*) FROM pg_settings WHERE \(sql: ours)") } == 1)
        }
    }
}
