// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

/// The schema is a promise: a change to it needs a migration and an entry in the changelog.
@Suite struct SchemaTests {
    private static let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../Schema.sql").standardized

    private func dump() async throws -> String {
        let sqlite = try SQLiteStore.inMemory()
        return try await SQLiteDoor(sqlite.writer).rows(
            """
            SELECT sql FROM sqlite_schema
             WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'grdb\\_%' ESCAPE '\\'
             ORDER BY rowid
            """,
            []
        ).compactMap { $0[0].text.map { $0 + ";\n" } }.joined(separator: "\n")
    }

    /// To write the file anew: `WRITE_SCHEMA=1 make test ARGS="--filter SchemaTests"`.
    @Test func isTheOneThatWasPublished() async throws {
        let found = try await dump()
        if ProcessInfo.processInfo.environment["WRITE_SCHEMA"] != nil { try found.write(to: Self.file, atomically: true, encoding: .utf8) }
        #expect(found == (try String(contentsOf: Self.file, encoding: .utf8)))
    }

    /// docs/schema.md lists the columns before siwatch's own, and names every constraint and no other.
    @Test(arguments: BackendPages.queues) func theQueuesAreThoseOfTheContract(_ queue: String) async throws {
        let sqlite = try SQLiteStore.inMemory()
        let door = SQLiteDoor(sqlite.writer)
        let columns = try await door.rows("SELECT name FROM pragma_table_info(?) ORDER BY cid", [.text(queue)]).compactMap { $0[0].text }
        #expect(Array(columns.prefix { $0 != "due_at" }) == ["id"] + BackendPages.columns(of: queue).map { $0.name })
        let table = try await door.rows("SELECT sql FROM sqlite_schema WHERE name = ?", [.text(queue)])
        let constraints = try #require(table.first?[0].text).matches(of: /CONSTRAINT "([^"]+)"/).map { String($0.1) }
        #expect(BackendPages.constraints(of: queue).isSubset(of: constraints))
        for constraint in constraints where !BackendPages.constraints(of: queue).contains(constraint) {
            #expect(BackendPages.names(constraint, in: BackendPages.schema), "\(constraint)")
        }
    }

    /// The index of each ring and the code agree on the rejections that any sender could cause.
    @Test(arguments: RejectionReason.allCases) func theRingKnowsTheReasons(_ reason: RejectionReason) {
        let rings = UnsignedRing.allCases.filter { FileSchema.tables.members(of: $0).contains("'\(reason.rawValue)'") }
        #expect(rings == (reason.ring.map { [$0] } ?? []))
    }

    /// In the contract's list these are the reasons from `malformed` to `bad_signature`.
    @Test func rubbishIsWhatTheContractCallsRubbish() {
        let shown = RejectionReason.allCases.filter { $0.ring != nil }
        #expect(shown == [.malformed, .notAnEvent, .wrongAlgorithm, .forbiddenHeader, .unknownKey, .badSignature])
    }
}

/// A member of the group can change the tables of the file. siwatch names what it has not made, and does not work on it.
struct ForeignSchemaTests {
    private static let thief = "CREATE TRIGGER \"thief\" AFTER INSERT ON grant_queue BEGIN INSERT INTO loot VALUES (NEW.refresh_token); END"

    @Test(
        arguments: [
            ("CREATE TABLE loot (token TEXT); \(thief)", "table loot is not siwatch's; trigger thief is not siwatch's"),
            ("CREATE VIEW spy AS SELECT * FROM grant_queue", "view spy is not siwatch's"),
            ("CREATE INDEX \"x\u{1b}[2J\u{202e}\" ON grant_log (user_id)", "index x?[2J? is not siwatch's"),
            ("DROP INDEX notification_queue_due", "index notification_queue_due is missing"),
            ("INSERT INTO grdb_migrations VALUES ('v99')", "its list of migrations was changed"),
            ("ALTER TABLE grant_queue ADD COLUMN more TEXT", "table grant_queue was changed"),
            (
                "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'granted_at INTEGER', 'granted_at TEXT')",
                "table grant_log was changed"
            ),
        ]
    )
    func whatSiwatchHasNotMadeIsNamed(sql: String, words: String) throws {
        let file = try TemporaryFile.migrated()
        defer { file.remove() }
        try file.run(sql)
        for open in [{ _ = try $0.inspect() }, { try SQLiteStore.open($0).close() }] as [(DatabaseFile) throws -> Void] {
            let error = try #require(throws: DatabaseFile.Unusable.self) { try open(DatabaseFile(path: file.path)) }
            #expect("\(error)".contains(words), "\(error)")
        }
    }

    /// The statistics of `ANALYZE` are SQLite's.
    @Test func whatSQLiteMakesIsNotForeign() throws {
        let file = try TemporaryFile.migrated()
        defer { file.remove() }
        try file.run("ANALYZE")
        #expect(try DatabaseFile(path: file.path).inspect() == .siwatch(version: FileSchema.steps.newest))
    }
}
