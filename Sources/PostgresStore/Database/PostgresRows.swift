// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
import CredentialTables

/// The rows of an answer, in binary.
final class PostgresRows: RandomAccessCollection {
    let result: OpaquePointer

    /// - Parameter result: a `PGresult`, which this object owns from now on.
    init(_ result: OpaquePointer) {
        self.result = result
    }

    deinit {
        PQclear(result)
    }

    var changed: Int { PQcmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0 }

    var startIndex: Int { 0 }

    var endIndex: Int { Int(PQntuples(result)) }

    subscript(index: Int) -> PostgresRow { PostgresRow(rows: self, index: Int32(index)) }

    /// The first column of the first row; 0 if there is no row.
    var integer: Int { first.map { Int($0.integer(at: 0)) } ?? 0 }

    /// The first column of the first row; false if there is no row.
    var isTrue: Bool { first?.bool(at: 0) ?? false }
}

/// One row. It keeps the whole answer.
package struct PostgresRow: FetchedRow {
    fileprivate let rows: PostgresRows
    fileprivate let index: Int32

    package func isNull(at column: Int) -> Bool {
        PQgetisnull(rows.result, index, Int32(column)) != 0
    }

    /// An integer of any width.
    package func integer(at column: Int) -> Int64 {
        let bytes = value(at: column)
        guard let first = bytes.first else { return 0 }
        return bytes.dropFirst().reduce(Int64(Int8(bitPattern: first))) { $0 << 8 | Int64($1) }
    }

    package func bytes(at column: Int) -> [UInt8] { [UInt8](value(at: column)) }

    package func text(at column: Int) -> String? {
        isNull(at: column) ? nil : String(decoding: value(at: column), as: UTF8.self)
    }

    package func index(of column: String) -> Int? {
        let columns = 0..<PQnfields(rows.result)
        return columns.first { PQfname(rows.result, $0).map { String(cString: $0) } == column }.map { Int($0) }
    }

    /// From the last column, which counts from 1.
    var place: Int { int(at: Int(PQnfields(rows.result)) - 1) - 1 }

    private func value(at column: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(
            start: PQgetvalue(rows.result, index, Int32(column)),
            count: Int(PQgetlength(rows.result, index, Int32(column)))
        )
    }
}
