// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables
import DaemonHarness
import Foundation
import GRDB
import Testing

@testable import PostgresStore
@testable import SQLiteStore
@testable import siwatch

/// A version of the schema is frozen. Every later change is a step, and a step loses no row.
@Suite(.timeLimit(.minutes(10))) struct FrozenDatabaseTests {
    private static let newest = FrozenDatabases.versions.upperBound
    private static let widened = "ALTER TABLE credential ADD COLUMN another INT NOT NULL DEFAULT 7;"
    private static let step = SchemaStep(version: newest + 1, compatibleFrom: newest, summary: "a column", sql: widened)

    @Test(.enabled(if: ProcessInfo.processInfo.environment["WRITE_FROZEN"] != nil)) func writesTheNewestVersion() async throws {
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
        let store = try StoreUnderTest(sqlite, door: door, file: file)
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
        try await isAtWork(StoreUnderTest(postgres))
    }

    /// Asks for everything that a daemon asks for.
    private func isAtWork(_ store: StoreUnderTest) async throws {
        #expect(try await store.column("SELECT DISTINCT another FROM credential") == [7])
        try await store.signIn("newcomer", token: "n")
        #expect(try await store.column("SELECT state FROM user_state WHERE user_id = 'newcomer'") == ["authorized"])
        try await store.askEverything()
    }
}

/// The databases of released schemas, with rows in every table: a file, and a dump of a server's schema. They never change, because every
/// later release must be able to migrate them.
enum FrozenDatabases {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Frozen")
    /// The name of the schema in a dump.
    private static let schema = "frozen_schema"

    private static func file(_ version: Int) -> URL { folder.appending(path: "v\(version).sqlite") }
    private static func dump(_ version: Int) -> URL { folder.appending(path: "v\(version).postgres.sql") }

    static func copy(of version: Int) throws -> TemporaryFile {
        let copy = try TemporaryFile()
        try FileManager.default.copyItem(at: file(version), to: copy.url)
        return copy
    }

    static func restore(_ version: Int) async throws -> PostgresAddress {
        let address = try PostgresUnderTest.address()
        let script = try String(contentsOf: dump(version), encoding: .utf8).replacing(schema, with: address.schema)
        let thread = ConnectionThread(address, label: "restore")
        try await thread.run { try $0.runScript(script) }
        await thread.close()
        return address
    }

    static let versions = 1...DatabaseFile(path: "").newestVersion

    static func write() async throws {
        let version = versions.upperBound
        for url in [file(version), dump(version)] where FileManager.default.fileExists(atPath: url.path) {
            throw HarnessError("\(url.path) is frozen")
        }
        let full = try await FullFile()
        let address = try PostgresUnderTest.address()
        _ = try PostgresStore.open(address)
        _ = try await StoreMove(source: try full.contents(), destination: PostgresContents(address), progress: ProgressLine.silent)
            .run(id: "1", at: .start)
        let door = PostgresDoor(address)
        // Only a move makes it.
        try await door.run("DROP TABLE arrival", [])
        try await door.run("INSERT INTO replica VALUES ('first', 1, 2, '{}', '[]')", [])
        try await door.run("INSERT INTO lane VALUES ('example', 'first', 3, 4)", [])
        try await door.run("INSERT INTO settled_batch VALUES ('first', 5, 6)", [])
        try await writeDump(of: address, to: dump(version))

        let whole = try await FullFile()
        try whole.store.sqlite.close()
        try FileManager.default.copyItem(at: whole.store.file.url, to: file(version))
    }

    /// Leaves out the settings of the session, some of which an older server does not know.
    private static func writeDump(of address: PostgresAddress, to file: URL) async throws {
        let process = try ChildProcess(
            URL(filePath: "\(try #require(PostgresServer.programs))/pg_dump"),
            ["--schema=\(address.schema)", "--inserts", "--no-owner", "--dbname=\(try PostgresServer.shared.get().address())"]
        )
        guard try await process.end() == 0 else { throw HarnessError(process.output.joined(separator: "\n")) }
        let lines = process.output.filter { line in
            !line.isEmpty && !["--", "SET ", "SELECT pg_catalog.set_config", "\\"].contains { line.hasPrefix($0) }
        }
        let text = (lines + [""]).joined(separator: "\n").replacing(address.schema, with: schema)
        try text.write(to: file, atomically: true, encoding: .utf8)
    }
}

struct TableContents: Equatable {
    /// By table, the values of its columns by name, in the order of these values.
    private(set) var rows: [String: [[SQLValue]]] = [:]

    init(_ door: any SQLDoor, _ columns: [String: [String]]) async throws {
        for (table, names) in columns {
            let order = names.indices.map { "\($0 + 1)" }.joined(separator: ", ")
            rows[table] = try await door.rows("SELECT \(names.joined(separator: ", ")) FROM \(table) ORDER BY \(order)", [])
        }
    }

    /// The columns of every table of a file.
    static func columns(ofFile door: any SQLDoor) async throws -> [String: [String]] {
        try await columns(
            door,
            """
            SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
             WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%' AND t.name NOT LIKE 'grdb%'
            """
        )
    }

    /// The columns of every table of a server's schema, but of the one that changes with each migration.
    static func columns(ofServer door: any SQLDoor) async throws -> [String: [String]] {
        try await columns(
            door,
            """
            SELECT c.relname::text, a.attname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
             WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace AND c.relname <> 'schema_version'
            """
        )
    }

    private static func columns(_ door: any SQLDoor, _ question: String) async throws -> [String: [String]] {
        let pairs = try await door.rows(question, []).map { ($0[0].text ?? "", $0[1].text ?? "") }
        return Dictionary(grouping: pairs, by: \.0).mapValues { $0.map(\.1).sorted() }
    }
}
