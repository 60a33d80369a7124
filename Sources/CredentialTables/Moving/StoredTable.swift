// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A table or view of a store, as a move reads it: its columns, in the order of its key.
package struct StoredTable: Sendable {
    package struct Column: Sendable, Equatable {
        package var name: String
        package var form: Form
    }

    package enum Form: Sendable, Equatable {
        /// An integer of this many bytes, as in PostgreSQL's column; one byte is a BOOLEAN. In SQLite every integer is INTEGER.
        case integer(Int)
        /// UTF-8 without a NUL.
        case text
        case bytes
        /// Untrusted bytes: BYTEA in PostgreSQL, TEXT of any bytes in SQLite.
        case payload
    }

    /// What an arriving store does with rows that it already has.
    package enum Kind: Sendable {
        /// A configuration and a first start made the rows. The move replaces them.
        case setting
        /// The rows belong to users, so the store is not empty.
        case users
        /// Like `users`, with text as a backend wrote it. The move repairs invalid text and cuts what is too long, because siwatch decides
        /// nothing by it any more.
        case log
        case view
    }

    /// How many ids before a search of a log are looked at again, because on a server a lesser id may be committed later. It is enough for
    /// four siwatch that settle 4,096 rows each.
    static var searchMargin: Int64 { 20_000 }

    package let name: String
    package let kind: Kind
    /// SQL: the columns that order the rows for reading.
    package let key: String
    package let columns: [Column]
    /// SQL: which rows move. Rows that only one of the stores needs stay behind.
    package let condition: String
    /// Whether the table never gives an id twice, even after the row is gone.
    package let remembersGreatestID: Bool

    init(
        _ name: String,
        _ kind: Kind,
        key: String = "id",
        where condition: String = "TRUE",
        remembersGreatestID: Bool = false,
        _ columns: [Column]...
    ) {
        self.name = name
        self.kind = kind
        self.key = key
        self.condition = condition
        (self.columns, self.remembersGreatestID) = (columns.flatMap { $0 }, remembersGreatestID)
    }

    package var columnNames: [String] { columns.map(\.name) }
    package var columnList: String { columnNames.joined(separator: ", ") }

    /// SQL, the same for every store.
    package var selection: String { "SELECT \(columnList) FROM \(name) WHERE \(condition) ORDER BY \(key)" }
}

extension [StoredTable.Column] {
    static func integers(_ names: String..., bytes: Int = 8) -> Self { names.map { .init(name: $0, form: .integer(bytes)) } }
    static func texts(_ names: String...) -> Self { names.map { .init(name: $0, form: .text) } }
}

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
