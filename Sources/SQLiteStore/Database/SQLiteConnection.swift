// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
package import CredentialTables
import GRDB

package struct SQLiteConnection: TableConnection {
    let db: Database

    /// A query that runs when its answer is read, once for each row of values.
    package struct Answer {
        fileprivate var sql: String
        fileprivate var rows: [[ColumnValue]]
        fileprivate var shared: [ColumnValue] = []
    }

    init(_ db: Database) { self.db = db }

    package var dialect: Dialect { .sqlite }

    package func fetchAll(_ sql: CredentialTables.SQL) throws -> [SQLiteRow] {
        try PreparedStatement(sql.text, in: db).rows(sql.values)
    }

    @discardableResult
    package func change(_ sql: CredentialTables.SQL) throws -> Int {
        try execute(sql)
        return db.changesCount
    }

    package func execute(_ sql: CredentialTables.SQL) throws { try PreparedStatement(sql.text, in: db).run(sql.values) }

    package func execute(_ statement: RowStatement, _ rows: [[ColumnValue]], _ shared: [ColumnValue]) throws {
        try forEachRow(of: ask(statement, rows, shared)) { _, _ in }
        guard !rows.isEmpty, !statement.removal.isEmpty else { return }
        let removal = try PreparedStatement(statement.removal, in: db)
        for row in rows { try removal.run([row[0]]) }
    }

    package func ask(_ sql: CredentialTables.SQL) -> Answer { Answer(sql: sql.text, rows: [sql.values]) }

    package func ask(_ statement: RowStatement, _ rows: [[ColumnValue]], _ shared: [ColumnValue]) -> Answer? {
        let sql = statement.sql(.sqlite)
        return rows.isEmpty || sql.isEmpty ? nil : Answer(sql: sql, rows: rows, shared: shared)
    }

    package func forEachRow(of answer: Answer?, _ body: (_ place: Int, _ row: PreparedStatement.Columns) throws -> Void) throws {
        guard let answer else { return }
        let statement = try PreparedStatement(answer.sql, in: db)
        for (place, row) in answer.rows.enumerated() {
            try statement.forEachRow(answer.shared.isEmpty ? row : row + answer.shared) { try body(place, $0) }
        }
    }

    package func inSavepoint<Value>(_ body: () throws -> Value) throws -> Value {
        var value: Value?
        do {
            try db.inSavepoint {
                value = try body()
                return .commit
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw StoreError(error)
        }
        return value!
    }

    /// Does nothing: the file has one lock, which every transaction takes first.
    package func lockSettlements() {}

    package func releaseNotifications() throws {
        let (aside, postponed, time) = (Tables.setAside, Tables.postponed, NotificationRows.leftBehind)
        try execute("UPDATE notification_queue SET due_at = \(time) WHERE \(sql: aside) AND \(sql: postponed)")
    }

    /// Does nothing: the caller holds the lock on the file.
    package func beginRename(of app: String) {}
}

/// A row that outlives its statement.
package struct SQLiteRow: FetchedRow {
    enum Value {
        case null
        case integer(Int64)
        /// Also the bytes of a text.
        case bytes([UInt8])
    }

    let values: [Value]
    let names: [String]

    package func isNull(at column: Int) -> Bool { if case .null = values[column] { true } else { false } }
    package func integer(at column: Int) -> Int64 { if case .integer(let number) = values[column] { number } else { 0 } }
    package func bytes(at column: Int) -> [UInt8] { if case .bytes(let bytes) = values[column] { bytes } else { [] } }

    package func text(at column: Int) -> String? {
        if case .bytes(let bytes) = values[column] { String(decoding: bytes, as: UTF8.self) } else { nil }
    }

    package func index(of column: String) -> Int? { names.firstIndex(of: column) }
}
