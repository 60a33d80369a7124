// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A table or view of a store, as a move reads it: its columns, in the order of its key.
package struct StoredTable: Sendable {
    package struct Column: Sendable, Equatable {
        package var name: String
        package var form: Form
    }

    /// The form of a column's values.
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
        /// A view has no rows of its own.
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
        self.columns = columns.flatMap { $0 }
        self.condition = condition
        self.remembersGreatestID = remembersGreatestID
    }

    package var columnNames: [String] { columns.map(\.name) }

    /// SQL, the same for every store: the names of the columns.
    package var columnList: String { columnNames.joined(separator: ", ") }

    /// SQL, the same for every store: all rows, in the order of the key.
    package var selection: String { "SELECT \(columnList) FROM \(name) WHERE \(condition) ORDER BY \(key)" }
}

extension [StoredTable.Column] {
    static func integers(_ names: String..., bytes: Int = 8) -> Self { names.map { .init(name: $0, form: .integer(bytes)) } }
    static func texts(_ names: String...) -> Self { names.map { .init(name: $0, form: .text) } }
}
