// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables
import GRDB
import Testing

@testable import SQLiteStore

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
        let file = try TemporaryFile()
        defer { file.remove() }
        try SQLiteStore.open(DatabaseFile(path: file.path)).close()
        let queue = try DatabaseQueue(path: file.path)
        try queue.writeWithoutTransaction { db in try db.execute(sql: sql) }
        try queue.close()
        for open in [{ _ = try $0.inspect() }, { try SQLiteStore.open($0).close() }] as [(DatabaseFile) throws -> Void] {
            let error = try #require(throws: DatabaseFile.Unusable.self) { try open(DatabaseFile(path: file.path)) }
            #expect("\(error)".contains(words), "\(error)")
        }
    }

    /// The statistics of `ANALYZE` are SQLite's.
    @Test func whatSQLiteMakesIsNotForeign() throws {
        let file = try TemporaryFile()
        defer { file.remove() }
        try SQLiteStore.open(DatabaseFile(path: file.path)).close()
        let queue = try DatabaseQueue(path: file.path)
        try queue.write { db in try db.execute(sql: "ANALYZE") }
        try queue.close()
        #expect(try DatabaseFile(path: file.path).inspect() == .siwatch(version: Schema.steps.newest))
    }
}
