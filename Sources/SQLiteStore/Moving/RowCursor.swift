// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB
import GRDBSQLite

/// A statement that reads or writes the rows of a table, one portion at a time.
///
/// A copy has tens of values a row and decides nothing about them, so they go from SQLite to `StoredRows` and back as bytes. GRDB would box
/// each value, and ends a statement with the call that began it.
final class RowCursor {
    private let table: StoredTable
    private let statement: OpaquePointer
    private var isOpen = true
    private var isAtEnd = false

    init(_ sql: String, of table: StoredTable, in db: Database) throws {
        self.table = table
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(db.sqliteConnection, sql, -1, &statement, nil) == SQLITE_OK, let statement else {
            throw DatabaseError(db.sqliteConnection)
        }
        self.statement = statement
    }

    /// Call it within a call of its connection.
    func close() {
        if isOpen { sqlite3_finalize(statement) }
        isOpen = false
    }

    /// - Returns: nil after the last row.
    func read() throws -> StoredRows? {
        var rows = StoredRows()
        while !rows.isFull, try step() { try append(to: &rows) }
        return rows.count > 0 ? rows : nil
    }

    func write(_ rows: StoredRows) throws {
        try rows.forEachRow { row in
            for (index, column) in table.columns.enumerated() { try check(bind(row, index, column.form)) }
            _ = try step()
            sqlite3_reset(statement)
            isAtEnd = false
        }
    }

    private func step() throws -> Bool {
        if isAtEnd { return false }
        switch sqlite3_step(statement) {
        case SQLITE_ROW: return true
        case SQLITE_DONE:
            isAtEnd = true
            return false
        default: throw DatabaseError(sqlite3_db_handle(statement))
        }
    }

    private func check(_ code: Int32) throws {
        if code != SQLITE_OK { throw DatabaseError(sqlite3_db_handle(statement)) }
    }

    /// - Returns: SQLite's result code. The bound bytes belong to the row, which outlives the step.
    private func bind(_ row: StoredRows.Row, _ index: Int, _ form: StoredTable.Form) -> Int32 {
        let place = Int32(index + 1)
        guard let value = row[index] else { return sqlite3_bind_null(statement, place) }
        switch form {
        case .integer: return sqlite3_bind_int64(statement, place, row.integer(at: index) ?? 0)
        case .text, .payload:
            return sqlite3_bind_text(statement, place, value.assumingMemoryBound(to: CChar.self).baseAddress, Int32(value.count), nil)
        case .bytes: return sqlite3_bind_blob(statement, place, value.baseAddress, Int32(value.count), nil)
        }
    }

    private func append(to rows: inout StoredRows) throws {
        rows.beginRow(of: table.columns.count)
        for (index, column) in table.columns.enumerated() {
            let place = Int32(index)
            guard sqlite3_column_type(statement, place) != SQLITE_NULL else {
                rows.appendNull()
                continue
            }
            switch column.form {
            case .integer(let width):
                guard rows.append(sqlite3_column_int64(statement, place), bytes: width) else { throw unreadable(column) }
            case .bytes, .payload: rows.append(bytes(at: place))
            case .text:
                let text = bytes(at: place)
                if text.isText, text.count <= Self.longestLogged || table.kind != .log {
                    rows.append(text)
                } else if table.kind == .log {
                    var mended = mended(text)
                    mended.withUTF8 { rows.append(UnsafeRawBufferPointer($0)) }
                } else {
                    throw unreadable(column)
                }
            }
        }
    }

    /// The beginning of a text, valid and without a NUL.
    private func mended(_ text: UnsafeRawBufferPointer) -> String {
        var mended = String(decoding: text.prefix(Self.longestLogged), as: UTF8.self).replacing("\0", with: "\u{FFFD}")
        while mended.utf8.count > Self.longestLogged { mended.unicodeScalars.removeLast() }
        return mended
    }

    /// In bytes, as in PostgreSQL's queues. Its indexes take no much longer text, and a backend may have inserted any into a file.
    private static let longestLogged = 2048

    /// The bytes of a value, also of a text. Valid while the statement stands on the row.
    private func bytes(at place: Int32) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: sqlite3_column_blob(statement, place), count: Int(sqlite3_column_bytes(statement, place)))
    }

    private func unreadable(_ column: StoredTable.Column) -> MoveRefusal {
        .unreadable(table: table.name, column: column.name, id: table.key == "id" ? sqlite3_column_int64(statement, 0) : 0)
    }
}

extension UnsafeRawBufferPointer {
    /// Whether the bytes are UTF-8 without a NUL.
    fileprivate var isText: Bool {
        if allSatisfy({ 1...127 ~= $0 }) { return true }
        return !contains(0) && String(validating: self, as: UTF8.self) != nil
    }
}

extension DatabaseError {
    fileprivate init(_ connection: OpaquePointer?) {
        self.init(
            resultCode: ResultCode(rawValue: sqlite3_extended_errcode(connection)),
            message: String(cString: sqlite3_errmsg(connection))
        )
    }
}
