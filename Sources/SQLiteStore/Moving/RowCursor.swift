// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB
import GRDBSQLite

/// A statement that reads the rows of a table, one portion at a time. GRDB ends a statement with the call that began it.
final class RowCursor {
    private let table: StoredTable
    private let statement: OpaquePointer
    private var isOpen = true
    private var isAtEnd = false

    /// The approximate size of one portion, in bytes.
    private static let portion = 1 << 18

    init(of table: StoredTable, in db: Database) throws {
        self.table = table
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(db.sqliteConnection, table.selection, -1, &statement, nil) == SQLITE_OK, let statement else {
            throw DatabaseError(db.sqliteConnection)
        }
        self.statement = statement
    }

    /// Call it within a call of its connection.
    func close() {
        if isOpen { sqlite3_finalize(statement) }
        isOpen = false
    }

    func read() throws -> StoredRows? {
        var rows: StoredRows = []
        var size = 0
        while !isAtEnd, size < Self.portion {
            switch sqlite3_step(statement) {
            case SQLITE_ROW:
                rows.append(try table.columns.enumerated().map { try value(of: $1, at: Int32($0), &size) })
            case SQLITE_DONE: isAtEnd = true
            default: throw DatabaseError(sqlite3_db_handle(statement))
            }
        }
        return rows.isEmpty ? nil : rows
    }

    private func value(of column: StoredTable.Column, at place: Int32, _ size: inout Int) throws -> ColumnValue {
        let isNull = sqlite3_column_type(statement, place) == SQLITE_NULL
        if case .integer(let width) = column.form {
            let number = sqlite3_column_int64(statement, place)
            let range = width == 1 ? 0...1 : (Int64.min >> (64 - 8 * width))...(Int64.max >> (64 - 8 * width))
            guard range.contains(number) else { throw unreadable(column) }
            size += 8
            return width == 1 ? .boolean(isNull ? nil : number == 1) : .integer(isNull ? nil : number)
        }
        let value = UnsafeRawBufferPointer(start: sqlite3_column_blob(statement, place), count: Int(sqlite3_column_bytes(statement, place)))
        size += 8 + value.count
        guard column.form == .text else { return .bytes(isNull ? nil : Array(value)) }
        if isNull { return .text(nil) }
        let isLogged = table.kind == .log
        if !value.contains(0), value.count <= Self.longestLogged || !isLogged, let text = String(validating: value, as: UTF8.self) {
            return .text(text)
        }
        guard isLogged else { throw unreadable(column) }
        return .text(mended(value))
    }

    /// The beginning of a text, valid and without a NUL.
    private func mended(_ text: UnsafeRawBufferPointer) -> String {
        var mended = String(decoding: text.prefix(Self.longestLogged), as: UTF8.self).replacing("\0", with: "\u{FFFD}")
        while mended.utf8.count > Self.longestLogged { mended.unicodeScalars.removeLast() }
        return mended
    }

    /// In bytes, as in PostgreSQL's queues. Its indexes take no much longer text, and a backend may have inserted any into a file.
    private static let longestLogged = 2048

    private func unreadable(_ column: StoredTable.Column) -> MoveRefusal {
        .unreadable(table: table.name, column: column.name, id: table.key == "id" ? sqlite3_column_int64(statement, 0) : 0)
    }
}
