// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB
import GRDBSQLite

/// A statement that GRDB has prepared and keeps. It runs without boxing a value or building a row: a settlement runs about ten of them, and
/// `StatementArguments` and `Row` stood out in its profile. Other code uses SQLite itself only for what GRDB does not offer: a file opened as
/// immutable, the length of the log, and SQLite's version.
package struct PreparedStatement {
    private let statement: Statement
    private let handle: OpaquePointer
    private let texts = BoundBytes()

    init(_ sql: String, in db: Database) throws {
        statement = try db.cachedStatement(sql: sql)
        handle = statement.sqliteStatement
    }

    func run(_ values: [ColumnValue]) throws { try forEachRow(values) { _ in } }

    func rows(_ values: [ColumnValue]) throws -> [SQLiteRow] {
        var rows: [SQLiteRow] = []
        var names: [String] = []
        try forEachRow(values) { row in
            if rows.isEmpty { names = row.names }
            rows.append(SQLiteRow(values: row.values, names: names))
        }
        return rows
    }

    func forEachRow(_ values: [ColumnValue], read: (Columns) throws -> Void) throws {
        try readRows(values) {
            try read($0)
            return true
        }
    }

    /// - Parameter next: reads a row, and returns whether to read another.
    func readRows(_ values: [ColumnValue], next: (Columns) throws -> Bool) throws {
        defer {
            // Unbinds all values, because their bytes are not kept.
            sqlite3_reset(handle)
            sqlite3_clear_bindings(handle)
        }
        texts.makeRoom(for: values.reduce(0) { $0 + $1.byteCount })
        for (index, value) in values.enumerated() { try check(value.bind(to: handle, at: Int32(index + 1), keptIn: texts)) }
        precondition(values.count == sqlite3_bind_parameter_count(handle), "a value for each parameter")
        while try step() { guard try next(Columns(handle: handle)) else { return } }
    }

    private func step() throws -> Bool {
        let code = sqlite3_step(handle)
        if code == SQLITE_ROW { return true }
        try check(code == SQLITE_DONE ? SQLITE_OK : code)
        return false
    }

    private func check(_ code: Int32) throws { if code != SQLITE_OK { throw DatabaseError(sqlite3_db_handle(handle)) } }

    package struct Columns: TableRow {
        fileprivate let handle: OpaquePointer

        package func isNull(at index: Int) -> Bool { sqlite3_column_type(handle, Int32(index)) == SQLITE_NULL }
        package func integer(at index: Int) -> Int64 { sqlite3_column_int64(handle, Int32(index)) }

        package func bytes(at index: Int) -> [UInt8] {
            guard let start = sqlite3_column_blob(handle, Int32(index)) else { return [] }
            return [UInt8](UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, Int32(index)))))
        }

        package func text(at index: Int) -> String? {
            guard let start = sqlite3_column_text(handle, Int32(index)) else { return nil }
            let bytes = UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, Int32(index))))
            return String(decoding: bytes, as: UTF8.self)
        }

        fileprivate var names: [String] {
            (0..<sqlite3_column_count(handle)).map { sqlite3_column_name(handle, $0).map { String(cString: $0) } ?? "" }
        }

        fileprivate var values: [SQLiteRow.Value] {
            (0..<Int(sqlite3_column_count(handle))).map { index in
                switch sqlite3_column_type(handle, Int32(index)) {
                case SQLITE_NULL: .null
                case SQLITE_INTEGER: .integer(integer(at: index))
                default: .bytes(bytes(at: index))
                }
            }
        }
    }
}

/// Texts and bytes while they are bound. One buffer serves all runs, where SQLite would allocate each value.
final class BoundBytes {
    private var bytes = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    private var used = 0

    deinit { bytes.deallocate() }

    fileprivate func makeRoom(for count: Int) {
        used = 0
        guard count > bytes.count else { return }
        bytes.deallocate()
        bytes = .allocate(byteCount: count, alignment: 1)
    }

    /// - Returns: the copy, valid until the next call of `makeRoom`.
    fileprivate func keep(_ source: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let place = UnsafeMutableRawBufferPointer(rebasing: bytes[used..<(used + source.count)])
        place.copyMemory(from: source)
        used += source.count
        return UnsafeRawBufferPointer(place)
    }
}

extension ColumnValue {
    fileprivate var byteCount: Int {
        switch self {
        case .integer, .boolean: 0
        case .text(let text): text?.utf8.count ?? 0
        case .bytes(let bytes): bytes?.count ?? 0
        case .array: preconditionFailure("SQLite has no arrays")
        }
    }

    fileprivate func bind(to statement: OpaquePointer, at index: Int32, keptIn kept: BoundBytes) -> Int32 {
        switch self {
        case .integer(let number?): return sqlite3_bind_int64(statement, index, number)
        case .boolean(let flag?): return sqlite3_bind_int64(statement, index, flag ? 1 : 0)
        case .text(var text?):
            // Without an address, SQLite would bind NULL.
            guard !text.isEmpty else { return sqlite3_bind_text(statement, index, "", 0, copied) }
            let bytes = text.withUTF8 { kept.keep(UnsafeRawBufferPointer($0)) }
            return sqlite3_bind_text(statement, index, bytes.assumingMemoryBound(to: CChar.self).baseAddress, Int32(bytes.count), nil)
        case .bytes(let bytes?):
            guard !bytes.isEmpty else { return sqlite3_bind_zeroblob(statement, index, 0) }
            let bytes = bytes.withUnsafeBytes(kept.keep)
            return sqlite3_bind_blob(statement, index, bytes.baseAddress, Int32(bytes.count), nil)
        case .integer(nil), .boolean(nil), .text(nil), .bytes(nil), .array: return sqlite3_bind_null(statement, index)
        }
    }
}

extension DatabaseError {
    init(_ connection: OpaquePointer?) {
        let code = ResultCode(rawValue: sqlite3_extended_errcode(connection))
        self.init(resultCode: code, message: String(cString: sqlite3_errmsg(connection)))
    }
}

/// SQLITE_TRANSIENT, a macro that Swift cannot see. SQLite makes a copy.
private var copied: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }
