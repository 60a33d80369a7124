// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The two SQL engines, and the differences of their SQL.
package enum Dialect: Sendable {
    case sqlite
    case postgres

    func words<Words>(sqlite: Words, postgres: Words) -> Words {
        switch self {
        case .sqlite: sqlite
        case .postgres: postgres
        }
    }

    var greatest: SQL { words(sqlite: "MAX", postgres: "GREATEST") }
    var least: SQL { words(sqlite: "MIN", postgres: "LEAST") }

    /// SQLite has one writer, so nothing there locks rows.
    var skipLocked: SQL { words(sqlite: "", postgres: "FOR UPDATE SKIP LOCKED") }

    var forUpdate: SQL { words(sqlite: "", postgres: "FOR UPDATE") }

    /// The order in which a statement locks many rows, so that no two statements wait for each other.
    func lockOrder(_ columns: String) -> SQL { words(sqlite: "", postgres: "ORDER BY \(sql: columns)") }

    func isOne<Value: BindableValue & Encodable>(_ column: String, of values: some Collection<Value>) throws -> SQL {
        switch self {
        case .sqlite: "\(sql: column) IN (SELECT value FROM json_each(\(try JSONText.encode(Array(values)))))"
        case .postgres: "\(sql: column) = ANY (\(array: values))"
        }
    }

    /// The bytes of a notification, in the type of their column.
    func payload(_ bytes: [UInt8]) -> SQL { words(sqlite: "CAST(\(bytes) AS TEXT)", postgres: "\(bytes)") }

    package func payloadSize(_ column: String) -> SQL {
        words(sqlite: "length(CAST(\(sql: column) AS BLOB))", postgres: "octet_length(\(sql: column))")
    }

    /// SQL: a number of attempts or failures, within bounds, because a writer of the file can put any number there.
    package func counted(_ column: String) -> String {
        words(sqlite: "MIN(MAX(\(column), 0), 1000)", postgres: "LEAST(GREATEST(\(column), 0), 1000)")
    }

    /// Names the index for a query that SQLite would plan badly. PostgreSQL keeps statistics.
    func indexed(by name: String) -> SQL { words(sqlite: "INDEXED BY \(sql: name)", postgres: "") }
}
