// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The two SQL engines, and the differences of their SQL.
package enum Dialect: Sendable {
    case sqlite
    case postgres

    /// The function that returns the greatest of its arguments.
    var greatest: String {
        switch self {
        case .sqlite: "MAX"
        case .postgres: "GREATEST"
        }
    }

    /// The function that returns the least of its arguments.
    var least: String {
        switch self {
        case .sqlite: "MIN"
        case .postgres: "LEAST"
        }
    }

    /// The clause that locks the rows of a query and skips rows that another transaction has locked. Empty for SQLite, which has one
    /// writer.
    var skipLocked: String {
        switch self {
        case .sqlite: ""
        case .postgres: "FOR UPDATE SKIP LOCKED"
        }
    }

    /// The clause that locks the rows of a query. Empty for SQLite, which has one writer.
    var forUpdate: String {
        switch self {
        case .sqlite: ""
        case .postgres: "FOR UPDATE"
        }
    }

    /// The order in which a statement locks many rows, so that no two statements wait for each other. Empty for SQLite, which has one
    /// writer.
    func lockOrder(_ columns: String) -> String {
        switch self {
        case .sqlite: ""
        case .postgres: "ORDER BY \(columns)"
        }
    }

    /// The condition that a column has one of the values in a JSON array.
    func isOne(_ column: String, ofTexts array: String) -> String {
        switch self {
        case .sqlite: "\(column) IN (SELECT value FROM json_each(\(array)))"
        case .postgres: "\(column) = ANY (ARRAY(SELECT json_array_elements_text(\(array)::json)))"
        }
    }

    /// The condition that a column has one of the values in a JSON array.
    func isOne(_ column: String, ofIntegers array: String) -> String {
        switch self {
        case .sqlite: "\(column) IN (SELECT value FROM json_each(\(array)))"
        case .postgres: "\(column) = ANY (ARRAY(SELECT json_array_elements_text(\(array)::json)::bigint))"
        }
    }

    /// Converts the bytes of a notification to the type of its column.
    func payload(_ bytes: String) -> String {
        switch self {
        case .sqlite: "CAST(\(bytes) AS TEXT)"
        case .postgres: bytes
        }
    }

    /// The length of a notification in bytes.
    func payloadSize(_ column: String) -> String {
        switch self {
        case .sqlite: "length(CAST(\(column) AS BLOB))"
        case .postgres: "octet_length(\(column))"
        }
    }

    /// Names the index for a query that SQLite would plan badly. Empty for PostgreSQL, which keeps statistics.
    func indexed(by name: String) -> String {
        switch self {
        case .sqlite: "INDEXED BY \(name)"
        case .postgres: ""
        }
    }
}
