// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
import DaemonHarness
import Foundation

/// A connection by libpq, without a library around it. Only one thread may use it.
final class BareServerConnection {
    private let handle: OpaquePointer

    init(_ schema: ServerSchema) throws {
        guard let handle = PQconnectdb("\(schema.address) options='-c search_path=\(schema.name)'") else {
            throw HarnessError("libpq has no memory")
        }
        self.handle = handle
        guard PQstatus(handle) == CONNECTION_OK else { throw HarnessError(String(cString: PQerrorMessage(handle))) }
    }

    deinit {
        PQfinish(handle)
    }

    func execute(_ sql: String) throws {
        PQclear(try checked(PQexec(handle, sql)))
    }

    func prepare(_ name: String, _ sql: String) throws {
        PQclear(try checked(PQprepare(handle, name, sql, 0, nil)))
    }

    /// Runs a prepared statement, and hands each row to `eachRow`. The answer is in binary.
    func run(_ name: String, _ values: [String] = [], eachRow: (BareServerRow) -> Void = { _ in }) throws {
        let texts = values.map { strdup($0) }
        defer { for text in texts { free(text) } }
        let result = try checked(PQexecPrepared(handle, name, Int32(texts.count), texts.map { UnsafePointer($0) }, nil, nil, 1))
        defer { PQclear(result) }
        for index in 0..<PQntuples(result) { eachRow(BareServerRow(result: result, index: index)) }
    }

    private func checked(_ result: OpaquePointer?) throws -> OpaquePointer? {
        guard [PGRES_COMMAND_OK, PGRES_TUPLES_OK].contains(PQresultStatus(result)) else {
            defer { PQclear(result) }
            throw HarnessError(String(cString: PQresultErrorMessage(result)))
        }
        return result
    }
}

struct BareServerRow {
    fileprivate let result: OpaquePointer?
    fileprivate let index: Int32

    /// An integer of eight bytes.
    func integer(at column: Int32) -> Int64 {
        UnsafeRawPointer(PQgetvalue(result, index, column)).loadUnaligned(as: Int64.self).byteSwapped
    }

    /// The length of a value in bytes.
    func length(at column: Int32) -> Int {
        Int(PQgetlength(result, index, column))
    }
}
