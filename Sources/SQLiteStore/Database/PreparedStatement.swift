// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB
import GRDBSQLite

/// A statement that GRDB has prepared and keeps, run without boxing a value or building a row.
///
/// A settlement runs about ten of them, so that `StatementArguments` and `Row` stood out in its profile.
///
/// Everything else goes through GRDB, but for what it does not offer: `DatabaseFile` opens a file as immutable, which takes a URI, so that
/// looking at it leaves no `-wal` and no `-shm` behind; `Checkpointer` learns the length of the log from `sqlite3_wal_hook`, and sets a time-out
/// back in a task that may be cancelled, where GRDB runs no statement; and `SQLiteLibrary` asks for the version where no connection is open.
struct PreparedStatement {
    /// Owns the handle.
    private let statement: Statement
    private let handle: OpaquePointer
    private let texts = BoundBytes()

    init(_ sql: String, in db: Database) throws {
        statement = try db.cachedStatement(sql: sql)
        handle = statement.sqliteStatement
    }

    /// Runs it to the end.
    func run<each Value: BindableValue>(_ values: repeat each Value) throws {
        try forEachRow(repeat each values) { _ in }
    }

    /// - Returns: what `read` makes of the first row; nil where there is none.
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

    /// - Parameter next: reads a row, and says whether it wants another.
    func readRows<each Value: BindableValue>(_ values: repeat each Value, next: (Columns) throws -> Bool) throws {
        defer { reset() }
        try bind(repeat each values)
        while try step() { guard try next(Columns(handle: handle)) else { return } }
    }

    private func bind<each Value: BindableValue>(_ values: repeat each Value) throws {
        var count = 0
        for value in repeat each values { count += value.byteCount }
        texts.makeRoom(for: count)
        var index: Int32 = 0
        for value in repeat each values {
            index += 1
            try check(value.bind(to: handle, at: index, keptIn: texts))
        }
        precondition(index == sqlite3_bind_parameter_count(handle), "a value for each parameter")
    }

    /// Leaves nothing bound that is not kept.
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

    /// One row, while the statement stands on it. Columns count from 0.
    struct Columns {
        fileprivate let handle: OpaquePointer

        func isNull(at index: Int) -> Bool {
            sqlite3_column_type(handle, Int32(index)) == SQLITE_NULL
        }

        /// 0 for NULL.
        func integer(at index: Int) -> Int64 {
            sqlite3_column_int64(handle, Int32(index))
        }

        func time(at index: Int) -> Timestamp? {
            isNull(at: index) ? nil : Timestamp(milliseconds: integer(at: index))
        }

        /// Empty for NULL.
        func bytes(at index: Int) -> [UInt8] {
            guard let start = sqlite3_column_blob(handle, Int32(index)) else { return [] }
            return [UInt8](UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, Int32(index)))))
        }

        /// What this program wrote itself: a backend's text is selected as bytes.
        func text(at index: Int) -> String? {
            guard let start = sqlite3_column_text(handle, Int32(index)) else { return nil }
            return String(
                decoding: UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, Int32(index)))),
                as: UTF8.self
            )
        }
    }
}

/// Texts and bytes while they are bound: kept in one place from run to run, where SQLite would allocate each for itself.
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

    /// - Returns: where the copy stands until there is room to be made again.
    fileprivate func keep(_ source: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let place = UnsafeMutableRawBufferPointer(rebasing: bytes[used..<(used + source.count)])
        place.copyMemory(from: source)
        used += source.count
        return UnsafeRawBufferPointer(place)
    }
}

/// What can stand for a parameter of a `PreparedStatement`.
protocol BindableValue {
    /// How many bytes are to be kept while it is bound.
    var byteCount: Int { get }

    /// - Returns: SQLite's result code.
    func bind(to statement: OpaquePointer, at index: Int32, keptIn bytes: BoundBytes) -> Int32
}

extension BindableValue {
    var byteCount: Int { 0 }
}

extension Int64: BindableValue {
    func bind(to statement: OpaquePointer, at index: Int32, keptIn bytes: BoundBytes) -> Int32 {
        sqlite3_bind_int64(statement, index, self)
    }
}

extension Int: BindableValue {
    func bind(to statement: OpaquePointer, at index: Int32, keptIn bytes: BoundBytes) -> Int32 {
        sqlite3_bind_int64(statement, index, Int64(self))
    }
}

extension Bool: BindableValue {
    func bind(to statement: OpaquePointer, at index: Int32, keptIn bytes: BoundBytes) -> Int32 {
        sqlite3_bind_int64(statement, index, self ? 1 : 0)
    }
}

extension Timestamp: BindableValue {
    func bind(to statement: OpaquePointer, at index: Int32, keptIn bytes: BoundBytes) -> Int32 {
        sqlite3_bind_int64(statement, index, milliseconds)
    }
}

extension String: BindableValue {
    var byteCount: Int { utf8.count }

    func bind(to statement: OpaquePointer, at index: Int32, keptIn bytes: BoundBytes) -> Int32 {
        // Without an address SQLite would bind NULL.
        guard !isEmpty else { return sqlite3_bind_text(statement, index, "", 0, copied) }
        var text = self
        let kept = text.withUTF8 { bytes.keep(UnsafeRawBufferPointer($0)) }
        return sqlite3_bind_text(statement, index, kept.assumingMemoryBound(to: CChar.self).baseAddress, Int32(kept.count), nil)
    }
}

extension Array: BindableValue where Element == UInt8 {
    var byteCount: Int { count }

    func bind(to statement: OpaquePointer, at index: Int32, keptIn bytes: BoundBytes) -> Int32 {
        guard !isEmpty else { return sqlite3_bind_zeroblob(statement, index, 0) }
        let kept = withUnsafeBytes(bytes.keep)
        return sqlite3_bind_blob(statement, index, kept.baseAddress, Int32(kept.count), nil)
    }
}

extension Optional: BindableValue where Wrapped: BindableValue {
    var byteCount: Int { self?.byteCount ?? 0 }

    func bind(to statement: OpaquePointer, at index: Int32, keptIn bytes: BoundBytes) -> Int32 {
        self?.bind(to: statement, at: index, keptIn: bytes) ?? sqlite3_bind_null(statement, index)
    }
}

/// SQLITE_TRANSIENT, a macro that Swift cannot see: SQLite makes a copy.
private var copied: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }
