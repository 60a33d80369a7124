// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
import CredentialTables

/// A value in PostgreSQL's binary format.
struct Parameter {
    /// The id of the type in `pg_type`.
    var type: UInt32
    var bytes: [UInt8]?
}

extension Parameter {
    init(_ value: ColumnValue) {
        if case .array(let elements, let null) = value {
            var rows = RowArrays(of: [null])
            for element in elements { rows.append([element]) }
            self = rows.parameters[0]
        } else {
            var bytes: [UInt8] = []
            self.init(type: value.type, bytes: value.encode(into: &bytes) ? bytes : nil)
        }
    }
}

extension ColumnValue {
    /// The id of the type in `pg_type`, which never changes.
    fileprivate var type: UInt32 {
        switch self {
        case .integer: 20
        case .boolean: 16
        case .text: 25
        case .bytes: 17
        case .array(_, let null): null.arrayType
        }
    }

    fileprivate var arrayType: UInt32 {
        switch self {
        case .integer: 1016
        case .boolean: 1000
        case .text: 1009
        case .bytes: 1001
        case .array: preconditionFailure("an array of arrays")
        }
    }

    /// False for NULL.
    fileprivate func encode(into bytes: inout [UInt8]) -> Bool {
        switch self {
        case .integer(let number?): bytes.append(bigEndian: number)
        case .boolean(let flag?): bytes.append(flag ? 1 : 0)
        case .text(let text?): bytes.append(contentsOf: text.utf8)
        case .bytes(let value?): bytes.append(contentsOf: value)
        case .integer(nil), .boolean(nil), .text(nil), .bytes(nil), .array: return false
        }
        return true
    }
}

/// Values of many rows, for UNNEST: an array for each column.
struct RowArrays {
    private struct Column {
        var element: UInt32
        var array: UInt32
        var bytes: [UInt8] = []

        init(_ value: ColumnValue) {
            element = value.type
            array = value.arrayType
        }

        mutating func append(_ value: ColumnValue) {
            let start = bytes.count
            bytes.append(bigEndian: Int32(-1))
            guard value.encode(into: &bytes) else { return }
            let length = Int32(bytes.count - start - 4)
            withUnsafeBytes(of: length.bigEndian) { for (offset, byte) in $0.enumerated() { bytes[start + offset] = byte } }
        }
    }

    private var columns: [Column]
    private var count = 0

    init(of row: [ColumnValue]) { columns = row.map { Column($0) } }

    mutating func append(_ values: [ColumnValue]) {
        for (index, value) in values.enumerated() { columns[index].append(value) }
        count += 1
    }

    /// The arrays in the format of PostgreSQL's `array_recv`: dimensions, whether there may be NULLs, type, length, lower bound, elements.
    var parameters: [Parameter] {
        columns.map { column in
            var bytes: [UInt8] = []
            bytes.reserveCapacity(20 + column.bytes.count)
            // An empty array has no dimension. The server refuses a dimension without elements.
            let (dimensions, element) = (count == 0 ? 0 : 1, Int32(bitPattern: column.element))
            for number in [Int32(dimensions), 1, element] { bytes.append(bigEndian: number) }
            if count > 0 { for number in [Int32(count), 1] { bytes.append(bigEndian: number) } }
            return Parameter(type: column.array, bytes: bytes + column.bytes)
        }
    }
}

extension [UInt8] {
    fileprivate mutating func append(bigEndian value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }
}

final class PostgresRows: RandomAccessCollection {
    let result: OpaquePointer

    /// This object owns the `PGresult` from now on.
    init(_ result: OpaquePointer) { self.result = result }

    deinit { PQclear(result) }

    var changed: Int { PQcmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0 }
    var startIndex: Int { 0 }
    var endIndex: Int { Int(PQntuples(result)) }

    subscript(index: Int) -> PostgresRow { PostgresRow(rows: self, index: Int32(index)) }
}

/// One row. It keeps the whole answer.
package struct PostgresRow: FetchedRow {
    fileprivate let rows: PostgresRows
    fileprivate let index: Int32

    package func isNull(at column: Int) -> Bool { PQgetisnull(rows.result, index, Int32(column)) != 0 }

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
