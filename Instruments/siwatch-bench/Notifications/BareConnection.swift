// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import GRDBSQLite

/// A connection by SQLite's C interface, without a library around it.
final class BareConnection {
    private let handle: OpaquePointer

    init(path: String) throws {
        var handle: OpaquePointer?
        let status = sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE, nil)
        guard status == SQLITE_OK, let handle else { throw HarnessError("SQLite cannot open the copy: \(status)") }
        self.handle = handle
    }

    deinit {
        sqlite3_close_v2(handle)
    }

    func execute(_ sql: String) throws {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else {
            throw HarnessError("\(sql): \(String(cString: sqlite3_errmsg(handle)))")
        }
    }

    func prepare(_ sql: String) throws -> BareStatement {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK, let statement else {
            throw HarnessError("\(sql): \(String(cString: sqlite3_errmsg(handle)))")
        }
        return BareStatement(statement, of: self)
    }

    var lastError: String { String(cString: sqlite3_errmsg(handle)) }
}

/// A prepared statement that runs many times.
final class BareStatement {
    private let handle: OpaquePointer
    /// Kept alive for as long as its statements.
    private let connection: BareConnection

    enum Value {
        case integer(Int64)
        case text(String)
    }

    fileprivate init(_ handle: OpaquePointer, of connection: BareConnection) {
        self.handle = handle
        self.connection = connection
    }

    deinit {
        sqlite3_finalize(handle)
    }

    /// Runs to the end, and hands each row to `eachRow`.
    func run(_ values: Value..., eachRow: (BareStatement) -> Void = { _ in }) throws {
        for (index, value) in zip(Int32(1)..., values) {
            switch value {
            case .integer(let integer): sqlite3_bind_int64(handle, index, integer)
            case .text(let text): sqlite3_bind_text(handle, index, text, -1, Self.copied)
            }
        }
        defer { sqlite3_reset(handle) }
        while true {
            switch sqlite3_step(handle) {
            case SQLITE_ROW: eachRow(self)
            case SQLITE_DONE: return
            default: throw HarnessError("\(String(cString: sqlite3_sql(handle))): \(connection.lastError)")
            }
        }
    }

    func integer(at index: Int32) -> Int64 {
        sqlite3_column_int64(handle, index)
    }

    /// The length of a text in bytes. SQLite must read the text for it.
    func length(at index: Int32) -> Int {
        Int(sqlite3_column_bytes(handle, index))
    }

    /// SQLITE_TRANSIENT, a macro that Swift cannot import.
    private static let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
}
