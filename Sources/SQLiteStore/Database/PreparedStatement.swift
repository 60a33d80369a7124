// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB
import GRDBSQLite

/// A statement that GRDB has prepared and keeps. It runs without boxing a value or building a row.
///
/// A settlement runs about ten of them, so `StatementArguments` and `Row` stood out in its profile.
///
/// Other code uses SQLite itself only for what GRDB does not offer. `DatabaseFile` opens a file as immutable by a URI, and so leaves no
/// `-wal` and no `-shm` behind. `Checkpointer` learns the length of the log from `sqlite3_wal_hook`, and resets a time-out in a task that
/// may be cancelled, where GRDB runs no statement. `SQLiteLibrary` asks for the version without a connection.
package struct PreparedStatement {
    /// Owns `handle`.
    private let statement: Statement
    private let handle: OpaquePointer
    private let texts = BoundBytes()

    init(_ sql: String, in db: Database) throws {
        statement = try db.cachedStatement(sql: sql)
        handle = statement.sqliteStatement
    }

    /// Runs the statement to its end.
    func run<each Value: BindableValue>(_ values: repeat each Value) throws {
        try forEachRow(repeat each values) { _ in }
    }

    /// The rows of a statement whose parameters are named `$1`, `$2` and so on.
    func rows(named values: [ColumnValue]) throws -> [SQLiteRow] {
        var rows: [SQLiteRow] = []
        var names: [String] = []
        try forEachRow(values, isNamed: true) { row in
            if rows.isEmpty { names = row.names }
            rows.append(SQLiteRow(values: row.values, names: names))
        }
        return rows
    }

    /// - Parameter isNamed: whether the parameters are named `$1`, `$2` and so on, or only numbered.
    func forEachRow(_ values: [ColumnValue], isNamed: Bool, read: (Columns) throws -> Void) throws {
        defer { reset() }
        texts.makeRoom(for: values.reduce(0) { $0 + $1.byteCount })
        for (index, value) in values.enumerated() {
            let place = isNamed ? sqlite3_bind_parameter_index(handle, "$\(index + 1)") : Int32(index + 1)
            try check(value.bind(to: handle, at: place, keptIn: texts))
        }
        precondition(values.count == sqlite3_bind_parameter_count(handle), "a value for each parameter")
        while try step() { try read(Columns(handle: handle)) }
    }

    /// - Returns: the value that `read` makes of the first row; nil if there is no row.
    func first<Result, each Value: BindableValue>(
        _ values: repeat each Value,
        read: (Columns) throws -> Result
    ) throws -> Result? {
        defer { reset() }
        try bind(repeat each values)
        return try step() ? read(Columns(handle: handle)) : nil
    }

    func forEachRow<each Value: BindableValue>(_ values: repeat each Value, read: (Columns) throws -> Void) throws {
        try readRows(repeat each values) {
            try read($0)
            return true
        }
    }

    /// - Parameter next: reads a row, and returns whether to read another.
    func readRows<each Value: BindableValue>(_ values: repeat each Value, next: (Columns) throws -> Bool) throws {
        defer { reset() }
        try bind(repeat each values)
        while try step() { guard try next(Columns(handle: handle)) else { return } }
    }

    private func bind<each Value: BindableValue>(_ values: repeat each Value) throws {
        var count = 0
        for value in repeat each values { count += value.columnValue.byteCount }
        texts.makeRoom(for: count)
        var index: Int32 = 0
        for value in repeat each values {
            index += 1
            try check(value.columnValue.bind(to: handle, at: index, keptIn: texts))
        }
        precondition(index == sqlite3_bind_parameter_count(handle), "a value for each parameter")
    }

    /// Unbinds all values, because their bytes are not kept.
    private func reset() {
        sqlite3_reset(handle)
        sqlite3_clear_bindings(handle)
    }

    /// - Returns: whether there is a row to read.
    private func step() throws -> Bool {
        let code = sqlite3_step(handle)
        if code == SQLITE_ROW { return true }
        try check(code == SQLITE_DONE ? SQLITE_OK : code)
        return false
    }

    private func check(_ code: Int32) throws {
        guard code != SQLITE_OK else { return }
        let connection = sqlite3_db_handle(handle)
        throw DatabaseError(
            resultCode: ResultCode(rawValue: sqlite3_extended_errcode(connection)),
            message: String(cString: sqlite3_errmsg(connection))
        )
    }

    /// The current row of a statement.
    package struct Columns: TableRow {
        fileprivate let handle: OpaquePointer

        package func isNull(at index: Int) -> Bool {
            sqlite3_column_type(handle, Int32(index)) == SQLITE_NULL
        }

        package func integer(at index: Int) -> Int64 {
            sqlite3_column_int64(handle, Int32(index))
        }

        package func bytes(at index: Int) -> [UInt8] {
            guard let start = sqlite3_column_blob(handle, Int32(index)) else { return [] }
            return [UInt8](UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, Int32(index)))))
        }

        package func text(at index: Int) -> String? {
            guard let start = sqlite3_column_text(handle, Int32(index)) else { return nil }
            return String(
                decoding: UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, Int32(index)))),
                as: UTF8.self
            )
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

    deinit {
        bytes.deallocate()
    }

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
    /// The number of bytes to keep while the value is bound.
    fileprivate var byteCount: Int {
        switch self {
        case .integer, .boolean: 0
        case .text(let text): text?.utf8.count ?? 0
        case .bytes(let bytes): bytes?.count ?? 0
        case .array: preconditionFailure("SQLite has no arrays")
        }
    }

    /// - Returns: SQLite's result code.
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

/// SQLITE_TRANSIENT, a macro that Swift cannot see. SQLite makes a copy.
private var copied: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }
