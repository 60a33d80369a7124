// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables
import Foundation
import GRDB
import Testing

@testable import PostgresStore
@testable import SQLiteStore

/// A version of the schema is frozen. Every later change is a step, and a step loses no row.
@Suite(.timeLimit(.minutes(10))) struct FrozenDatabaseTests {
    private static let newest = FrozenDatabases.versions.upperBound
    private static let step = SchemaStep(
        version: newest + 1,
        compatibleFrom: newest,
        summary: "a column",
        sql: "ALTER TABLE credential ADD COLUMN another INT NOT NULL DEFAULT 7;"
    )

    @Test(.enabled(if: ProcessInfo.processInfo.environment["WRITE_FROZEN"] != nil))
    func writesTheNewestVersion() async throws {
        try await FrozenDatabases.write()
    }

    // MARK: They stay

    @Test(arguments: FrozenDatabases.versions) func theStepsMakeTheFrozenFile(_ version: Int) async throws {
        let file = try FrozenDatabases.copy(of: version)
        defer { file.remove() }
        let question = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"
        let fresh = try DatabaseQueue()
        try DatabaseFile(path: ":memory:", steps: Array(DatabaseFile(path: "").steps.prefix(version))).migrate(fresh)
        #expect(try await SQLiteDoor(asBackendOf: file.path).rows(question, []) == SQLiteDoor(fresh).rows(question, []))
    }

    @Test(arguments: FrozenDatabases.versions) func theStepsMakeTheFrozenSchemaOfAServer(_ version: Int) async throws {
        let frozen = try await FrozenDatabases.restore(version)
        let fresh = try PostgresUnderTest.address()
        let thread = ConnectionThread(fresh, label: "fresh")
        try await thread.run { connection in
            var migrator = Migrator(address: fresh, connection: connection)
            migrator.steps = Array(migrator.steps.prefix(version))
            try migrator.migrate()
        }
        await thread.close()
        let (found, made) = (try await catalog(of: frozen), try await catalog(of: fresh))
        #expect(made.count > 200)
        for line in found.symmetricDifference(made) { Issue.record("\(line)") }
    }

    /// Columns, constraints, indexes, views, functions, triggers, settings of tables, and rights.
    private func catalog(of address: PostgresAddress) async throws -> Set<String> {
        let rows = try await PostgresDoor(address).rows(
            """
            WITH ours AS (SELECT * FROM pg_class WHERE relnamespace = current_schema()::regnamespace)
            SELECT concat_ws(' ', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attcollation::regcollation,
                             pg_get_expr(d.adbin, d.adrelid), a.attacl)
              FROM ours c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (c.oid, a.attnum)
             WHERE c.relkind IN ('r', 'v')
            UNION ALL SELECT concat_ws(' ', relname, relkind, reloptions, relacl) FROM ours WHERE relkind <> 'i'
            UNION ALL SELECT concat_ws(' ', c.relname, k.conname, pg_get_constraintdef(k.oid)) FROM pg_constraint k JOIN ours c ON c.oid = k.conrelid
            UNION ALL SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN ours c ON c.oid = i.indrelid
            UNION ALL SELECT concat_ws(' ', relname, pg_get_viewdef(oid)) FROM ours WHERE relkind = 'v'
            UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
            UNION ALL SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN ours c ON c.oid = t.tgrelid WHERE NOT tgisinternal
            """,
            []
        )
        return Set(rows.compactMap { $0[0].text?.replacing(address.schema, with: "siwatch") })
    }

    @Test(arguments: FrozenDatabases.versions) func everyTableOfAFrozenDatabaseHasRows(_ version: Int) async throws {
        let file = try FrozenDatabases.copy(of: version)
        defer { file.remove() }
        let inFile = try SQLiteDoor(asBackendOf: file.path)
        let onServer = PostgresDoor(try await FrozenDatabases.restore(version))
        let contents = [
            try await TableContents(inFile, TableContents.columns(ofFile: inFile)),
            try await TableContents(onServer, TableContents.columns(ofServer: onServer)),
        ]
        #expect(contents.allSatisfy { $0.rows.count > 15 })
        for (table, rows) in contents.flatMap(\.rows) { #expect(!rows.isEmpty, "\(table)") }
    }

    // MARK: They can be migrated

    @Test(arguments: FrozenDatabases.versions) func theStepsLoseNoRowOfAFile(_ version: Int) async throws {
        let file = try FrozenDatabases.copy(of: version)
        let next = DatabaseFile(path: file.path, nextSteps: [Self.step])
        let door = try SQLiteDoor(asBackendOf: file.path)
        let columns = try await TableContents.columns(ofFile: door)
        let before = try await TableContents(door, columns)

        #expect(try next.migrationPlan(isInUse: false).found == version)
        #expect(throws: DatabaseFile.Unusable.outdated(path: file.path, version: version)) { try next.exists() }
        let sqlite = try SQLiteStore.open(next)
        #expect(try next.inspect() == .siwatch(version: Self.step.version))
        #expect(try next.migrationPlan(isInUse: false).script == "")
        #expect(try await TableContents(door, columns) == before)
        let store = try StoreUnderTest(sqlite, door: door) { file.remove() }
        try await isAtWork(store)
    }

    @Test(arguments: FrozenDatabases.versions) func theStepsLoseNoRowOfAServer(_ version: Int) async throws {
        let address = try await FrozenDatabases.restore(version)
        let door = PostgresDoor(address)
        let columns = try await TableContents.columns(ofServer: door)
        let before = try await TableContents(door, columns)

        let postgres = try PostgresStore.open(address, nextSteps: [Self.step])
        #expect(try await door.rows("SELECT version FROM schema_version", []) == [[.integer(Int64(Self.step.version))]])
        #expect(try await TableContents(door, columns) == before)
        try await isAtWork(PostgresUnderTest.store(postgres))
    }

    /// Asks for everything that a daemon asks for.
    private func isAtWork(_ store: StoreUnderTest) async throws {
        #expect(try await store.column("SELECT DISTINCT another FROM credential") == [7])
        try await store.signIn("newcomer", token: "n")
        #expect(try await store.column("SELECT state FROM user_state WHERE user_id = 'newcomer'") == ["authorized"])
        try await store.askEverything()
    }
}
