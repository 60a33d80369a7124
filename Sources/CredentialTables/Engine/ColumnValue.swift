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

/// A Swift type that a column can hold.
package protocol BindableValue {
    /// NULL of this type.
    static var null: ColumnValue { get }
    var columnValue: ColumnValue { get }
}

extension Int64: BindableValue {
    package static var null: ColumnValue { .integer(nil) }
    package var columnValue: ColumnValue { .integer(self) }
}

extension Int: BindableValue {
    package static var null: ColumnValue { .integer(nil) }
    package var columnValue: ColumnValue { .integer(Int64(self)) }
}

extension Timestamp: BindableValue {
    package static var null: ColumnValue { .integer(nil) }
    /// In milliseconds since 1970.
    package var columnValue: ColumnValue { .integer(milliseconds) }
}

extension Duration: BindableValue {
    package static var null: ColumnValue { .integer(nil) }
    /// In milliseconds.
    package var columnValue: ColumnValue { .integer(milliseconds) }
}

extension Bool: BindableValue {
    package static var null: ColumnValue { .boolean(nil) }
    package var columnValue: ColumnValue { .boolean(self) }
}

extension String: BindableValue {
    package static var null: ColumnValue { .text(nil) }
    package var columnValue: ColumnValue { .text(self) }
}

extension Array: BindableValue where Element == UInt8 {
    package static var null: ColumnValue { .bytes(nil) }
    package var columnValue: ColumnValue { .bytes(self) }
}

extension Optional: BindableValue where Wrapped: BindableValue {
    package static var null: ColumnValue { Wrapped.null }
    package var columnValue: ColumnValue { self?.columnValue ?? Wrapped.null }
}
