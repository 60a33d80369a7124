// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Rows of a table on their way from one store to another, each with a value for each column of `StoredTable`.
package typealias StoredRows = [[ColumnValue]]

extension StoredRows {
    /// The rows as bytes. Equal rows of any store have equal bytes, so a digest of them is a digest of the contents.
    package var bytes: [UInt8] {
        var bytes: [UInt8] = []
        for value in joined() {
            switch value {
            case .integer(let number?): Swift.withUnsafeBytes(of: number.bigEndian) { bytes.append(8, $0) }
            case .boolean(let flag?): bytes += [1, flag ? 1 : 0]
            case .text(var text?): text.withUTF8 { bytes.append($0.count, UnsafeRawBufferPointer($0)) }
            case .bytes(let value?): value.withUnsafeBytes { bytes.append($0.count, $0) }
            case .integer(nil), .boolean(nil), .text(nil), .bytes(nil), .array: bytes.append(0xff)
            }
        }
        return bytes
    }
}

extension [UInt8] {
    fileprivate mutating func append(_ count: Int, _ value: UnsafeRawBufferPointer) {
        Swift.withUnsafeBytes(of: UInt32(count).bigEndian) { append(contentsOf: $0) }
        append(contentsOf: value)
    }
}

extension ColumnValue {
    /// Nil for NULL, and for a value of another type.
    var number: Int64? { if case .integer(let number) = self { number } else { nil } }
    var text: String? { if case .text(let text) = self { text } else { nil } }
}

extension StoredTable {
    /// Inserts rows as they are.
    package var insertion: RowStatement {
        let values = columnNames.map { "@\($0)" }.joined(separator: ", ")
        let casts = columns.map { $0.form == .payload ? "CAST(@\($0.name) AS TEXT)" : "@\($0.name)" }.joined(separator: ", ")
        return RowStatement(
            columnNames,
            sqlite: "INSERT INTO \(name) (\(columnList)) VALUES (\(casts))",
            postgres: "INSERT INTO \(name) (\(columnList)) OVERRIDING SYSTEM VALUE SELECT \(values) FROM @rows"
        )
    }
}
