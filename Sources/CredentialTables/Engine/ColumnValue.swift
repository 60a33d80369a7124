// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// A column value, in one of the tables' types. Nil is NULL. NULL has a type too, because PostgreSQL asks for one.
package enum ColumnValue: Sendable, Equatable {
    case integer(Int64?)
    case boolean(Bool?)
    case text(String?)
    case bytes([UInt8]?)
    /// Of a server. `of` is NULL of its elements.
    indirect case array([ColumnValue], of: ColumnValue)
}

/// One row of an answer. Columns count from 0.
package protocol TableRow {
    func isNull(at column: Int) -> Bool
    /// 0 for NULL. True is 1, and false is 0.
    func integer(at column: Int) -> Int64
    /// The bytes of a column, also of a text column. Empty for NULL.
    func bytes(at column: Int) -> [UInt8]
    /// Nil for NULL. Replaces bytes that are not UTF-8.
    func text(at column: Int) -> String?
}

/// A row that stays valid after its statement, and knows its column names.
package protocol FetchedRow: TableRow {
    func index(of column: String) -> Int?
}

extension TableRow {
    /// A column as the type that the caller needs. NULL is nil, or else 0, false or empty.
    package subscript<Value: BindableValue>(column: Int) -> Value { Value(self, at: column) }

    package func int(at column: Int) -> Int { self[column] }
    package func bool(at column: Int) -> Bool { self[column] }
    package func time(at column: Int) -> Timestamp? { self[column] }
    /// A number that siwatch counts.
    package func count(at column: Int) -> Int { max(self[column], 0) }
}

package protocol BindableValue {
    static var null: ColumnValue { get }
    var columnValue: ColumnValue { get }
    init(_ row: some TableRow, at column: Int)
}

/// The values of a row that a statement takes.
package func bound<each Value: BindableValue>(_ values: repeat each Value) -> [ColumnValue] {
    var row: [ColumnValue] = []
    // Most rows have fewer, so one allocation serves them.
    row.reserveCapacity(8)
    for value in repeat each values { row.append(value.columnValue) }
    return row
}

extension Int64: BindableValue {
    package static var null: ColumnValue { .integer(nil) }
    package var columnValue: ColumnValue { .integer(self) }
    package init(_ row: some TableRow, at column: Int) { self = row.integer(at: column) }
}

extension Int: BindableValue {
    package static var null: ColumnValue { .integer(nil) }
    package var columnValue: ColumnValue { .integer(Int64(self)) }
    /// A number between -2^40 and 2^40. A writer of the file can put any other number there, and sums must not overflow.
    package init(_ row: some TableRow, at column: Int) { self = Swift.min(Swift.max(Int(row.integer(at: column)), -(1 << 40)), 1 << 40) }
}

/// In milliseconds since 1970.
extension Timestamp: BindableValue {
    package static var null: ColumnValue { .integer(nil) }
    package var columnValue: ColumnValue { .integer(milliseconds) }
    package init(_ row: some TableRow, at column: Int) { self.init(milliseconds: row.integer(at: column)) }
}

/// In milliseconds.
extension Duration: BindableValue {
    package static var null: ColumnValue { .integer(nil) }
    package var columnValue: ColumnValue { .integer(milliseconds) }
    package init(_ row: some TableRow, at column: Int) { self = .milliseconds(row.integer(at: column)) }
}

extension Bool: BindableValue {
    package static var null: ColumnValue { .boolean(nil) }
    package var columnValue: ColumnValue { .boolean(self) }
    package init(_ row: some TableRow, at column: Int) { self = row.integer(at: column) != 0 }
}

extension String: BindableValue {
    package static var null: ColumnValue { .text(nil) }
    package var columnValue: ColumnValue { .text(self) }
    package init(_ row: some TableRow, at column: Int) { self = row.text(at: column) ?? "" }
}

extension Array: BindableValue where Element == UInt8 {
    package static var null: ColumnValue { .bytes(nil) }
    package var columnValue: ColumnValue { .bytes(self) }
    package init(_ row: some TableRow, at column: Int) { self = row.bytes(at: column) }
}

extension Optional: BindableValue where Wrapped: BindableValue {
    package static var null: ColumnValue { Wrapped.null }
    package var columnValue: ColumnValue { self?.columnValue ?? Wrapped.null }
    package init(_ row: some TableRow, at column: Int) { self = row.isNull(at: column) ? nil : Wrapped(row, at: column) }
}
