// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The two SQL engines, and the differences of their SQL.
package enum Dialect: Sendable {
    case sqlite
    case postgres

    private func words(sqlite: SQL, postgres: SQL) -> SQL {
        switch self {
        case .sqlite: sqlite
        case .postgres: postgres
        }
    }

    /// The function that returns the greatest of its arguments.
    var greatest: SQL { words(sqlite: "MAX", postgres: "GREATEST") }

    /// The function that returns the least of its arguments.
    var least: SQL { words(sqlite: "MIN", postgres: "LEAST") }

    /// The clause that locks the rows of a query and skips rows that another transaction has locked. SQLite has one writer.
    var skipLocked: SQL { words(sqlite: "", postgres: "FOR UPDATE SKIP LOCKED") }

    /// The clause that locks the rows of a query. SQLite has one writer.
    var forUpdate: SQL { words(sqlite: "", postgres: "FOR UPDATE") }

    /// The order in which a statement locks many rows, so that no two statements wait for each other. SQLite has one writer.
    func lockOrder(_ columns: String) -> SQL { words(sqlite: "", postgres: "ORDER BY \(sql: columns)") }

    /// The condition that a column has one of some texts.
    func isOne(_ column: String, of texts: some Collection<String>) throws -> SQL {
        let array = try JSONText.encode(Array(texts))
        return words(
            sqlite: "\(sql: column) IN (SELECT value FROM json_each(\(array)))",
            postgres: "\(sql: column) = ANY (ARRAY(SELECT json_array_elements_text(\(array)::json)))"
        )
    }

    /// The condition that a column has one of some numbers.
    func isOne(_ column: String, of integers: some Collection<Int64>) throws -> SQL {
        let array = try JSONText.encode(Array(integers))
        return words(
            sqlite: "\(sql: column) IN (SELECT value FROM json_each(\(array)))",
            postgres: "\(sql: column) = ANY (ARRAY(SELECT json_array_elements_text(\(array)::json)::bigint))"
        )
    }

    /// The bytes of a notification, in the type of their column.
    func payload(_ bytes: [UInt8]) -> SQL { words(sqlite: "CAST(\(bytes) AS TEXT)", postgres: "\(bytes)") }

    /// The length of a notification in bytes.
    func payloadSize(_ column: String) -> SQL {
        words(sqlite: "length(CAST(\(sql: column) AS BLOB))", postgres: "octet_length(\(sql: column))")
    }

    /// Names the index for a query that SQLite would plan badly. PostgreSQL keeps statistics.
    func indexed(by name: String) -> SQL { words(sqlite: "INDEXED BY \(sql: name)", postgres: "") }
}
