// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// The tables and views that both engines have, in the SQL of one. docs/schema.md explains those that backends write and read.
///
/// Step 1 is frozen. If a query needs another value of a constant, step 1 keeps the old one. SQLite keeps the text of its tables, and
/// siwatch compares it, so that not even a space may change.
package struct Tables: Sendable {
    let dialect: Dialect

    package init(_ dialect: Dialect) { self.dialect = dialect }

    /// The statements of step 1 are those that the engine puts together.
    package func steps(_ first: String) -> [SchemaStep] {
        [SchemaStep(version: 1, compatibleFrom: 1, summary: "all tables and views", sql: first)]
    }

    package var definitions: String { queues + logs + registers + bookkeeping + doors }

    /// Which rows of the quarantine are in a ring.
    package func members(of ring: UnsignedRing) -> String {
        switch ring {
        case .forged: "(\(isWord("reason", of: "malformed", "not_an_event", "wrong_algorithm", "forbidden_header", "bad_signature")))"
        case .unknownKey: "reason = 'unknown_key'"
        }
    }

    /// Whether a column holds one of some words. Does not use IN for SQLite, which builds a table of more than two words with every row
    /// that it checks.
    func isWord(_ column: String, of values: String...) -> String {
        switch dialect {
        case .sqlite: values.map { "\(column) = '\($0)'" }.joined(separator: " OR ")
        case .postgres: "\(column) IN (\(values.map { "'\($0)'" }.joined(separator: ", ")))"
        }
    }

    func words(sqlite: String, postgres: String) -> String { dialect.words(sqlite: sqlite, postgres: postgres) }

    var id: String { words(sqlite: "INTEGER PRIMARY KEY", postgres: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY") }
    /// The id of a row, which no later row gets.
    var lastingID: String { words(sqlite: "INTEGER PRIMARY KEY AUTOINCREMENT", postgres: id) }
    var integer: String { words(sqlite: "INTEGER", postgres: "BIGINT") }
    var small: String { words(sqlite: "INTEGER", postgres: "SMALLINT") }
    /// A text of which there is an index. A server compares it by its bytes, whatever its locale, so that a library with a new sort order
    /// breaks no index.
    var name: String { words(sqlite: "TEXT", postgres: "TEXT COLLATE \"C\"") }
    var bytes: String { words(sqlite: "BLOB", postgres: "BYTEA") }
    var payload: String { words(sqlite: "TEXT", postgres: "BYTEA") }
    var noTime: String { words(sqlite: "NULL", postgres: "NULL::bigint") }

    func flag(_ column: String) -> String {
        words(sqlite: "INTEGER NOT NULL DEFAULT 0 CHECK (\(column) IN (0, 1))", postgres: "BOOLEAN NOT NULL DEFAULT FALSE")
    }

    /// On a server no table references one that all settlements write, because each reference would lock a row of it.
    func references(_ table: String) -> String { words(sqlite: " REFERENCES \(table) (id)", postgres: "") }

    /// The end of a table with ids.
    var rows: String { words(sqlite: " STRICT", postgres: "") }
    /// The end of a table with another key.
    var keyed: String { words(sqlite: " STRICT, WITHOUT ROWID", postgres: "") }
    /// The end of a table whose few rows change all the time.
    var counted: String { words(sqlite: keyed, postgres: " WITH (fillfactor = 10)") }
}

/// One numbered change of an engine's tables. Both engines have the same numbers. A released step never changes.
package struct SchemaStep: Sendable {
    package let version: Int
    /// The oldest version whose programs can work on the result. On a server they may be at work during the step. A file has one program at a
    /// time, so there it does not count.
    package let compatibleFrom: Int
    package let summary: String
    /// The statements, each with its semicolon. They run in one transaction.
    package let sql: String

    package init(version: Int, compatibleFrom: Int, summary: String, sql: String) {
        self.version = version
        self.compatibleFrom = compatibleFrom
        self.summary = summary
        self.sql = sql
    }
}

package struct MigrationPlan: Sendable {
    /// The version of the schema that is there; nil if there is no siwatch.
    package let found: Int?
    package let needed: Int
    /// Empty if no statement is missing.
    package let script: String

    package init(found: Int?, needed: Int, script: String) {
        (self.found, self.needed, self.script) = (found, needed, script)
    }
}

extension [SchemaStep] {
    package var newest: Int { self[count - 1].version }

    /// The steps that a schema of a version lacks. A database without siwatch has no version, and lacks all.
    package func after(_ version: Int?) -> [SchemaStep] { filter { $0.version > version ?? 0 } }

    package var script: String { map { "-- Step \($0.version): \($0.summary)\n\($0.sql)\n" }.joined() }
}
