// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// A statement for many rows, each with values of the same columns. A server runs it once, over an array of each column. SQLite runs it for
/// each row. In its SQL, `@name` is the value of a column, or a value that all rows share.
package struct RowStatement: Sendable {
    private let sqlite: String
    private let postgres: String
    /// SQL: what SQLite then runs for each row, over its first value. Without text, if there is nothing to do.
    package private(set) var removal = ""

    /// - Parameters:
    ///   - sqlite: without text, if there is nothing to do for SQLite.
    ///   - postgres: `@rows` are the rows as a table `n`, and `@places` the rows with a column `place`, which counts from 1. `$1` is the
    ///     array of the first column.
    package init(_ columns: [String], shared: [String] = [], sqlite: String, postgres: String) {
        let values = columns + shared
        let places = Dictionary(uniqueKeysWithValues: values.enumerated().map { ($1, $0 + 1) })
        let arrays = "unnest(\(columns.indices.map { "$\($0 + 1)" }.joined(separator: ", ")))"
        let names = columns.joined(separator: ", ")
        self.sqlite = sqlite.replacing(/@(\w+)/) { "?\(places[String($0.1)]!)" }
        self.postgres = postgres.replacing(/@(\w+)/) { match in
            let name = String(match.1)
            return switch name {
            case "rows": "\(arrays) AS n (\(names))"
            case "places": "\(arrays) WITH ORDINALITY AS n (\(names), place)"
            default: columns.contains(name) ? "n.\(name)" : "$\(places[name]!)"
            }
        }
    }

    package func sql(_ dialect: Dialect) -> String { dialect.words(sqlite: sqlite, postgres: postgres) }
}

// MARK: Shapes

extension RowStatement {
    package static func insert(
        into table: String,
        _ columns: [String],
        shared: [String] = [],
        orElse conflict: String = ""
    ) -> RowStatement {
        let start = "INSERT INTO \(table) (\((columns + shared).joined(separator: ", ")))"
        let values = (columns + shared).map { "@\($0)" }.joined(separator: ", ")
        return RowStatement(
            columns,
            shared: shared,
            sqlite: "\(start) VALUES (\(values)) \(conflict)",
            postgres: "\(start) SELECT \(values) FROM @rows \(conflict)"
        )
    }

    /// Updates rows `t`. `others` is SQL with more assignments.
    static func update(
        _ table: String,
        key: [String],
        _ columns: [String],
        others: String = "",
        where condition: String = "TRUE",
        shared: [String] = []
    ) -> RowStatement {
        let assignments = "\(columns.map { "\($0) = @\($0)" }.joined(separator: ", "))\(others)"
        return RowStatement(
            key + columns,
            shared: shared,
            sqlite: "UPDATE \(table) AS t SET \(assignments) WHERE \(equal(key)) AND \(condition)",
            postgres: "UPDATE \(table) AS t SET \(assignments) FROM @rows WHERE \(equal(key)) AND \(isNamed(key)) AND \(condition)"
        )
    }

    static func delete(from table: String, key: [String], where condition: String = "TRUE") -> RowStatement {
        RowStatement(
            key,
            sqlite: "DELETE FROM \(table) AS t WHERE \(equal(key)) AND \(condition)",
            postgres: "DELETE FROM \(table) AS t USING @rows WHERE \(equal(key)) AND \(condition)"
        )
    }

    /// Reads rows `t`. `others` are values of a row that are no part of the key. A server locks the rows in the given order.
    static func read(
        _ columns: String,
        of table: String,
        key: [String],
        others: [String] = [],
        where condition: String = "TRUE",
        lockedBy order: String? = nil
    ) -> RowStatement {
        let lock = order.map { "ORDER BY \($0) FOR UPDATE OF t" } ?? ""
        let source =
            key.count == 1
            ? "FROM \(table) AS t WHERE t.\(key[0]) = ANY($1)"
            : "FROM @places JOIN \(table) AS t ON \(equal(key)) WHERE TRUE"
        return RowStatement(
            key + others,
            sqlite: "SELECT \(columns) FROM \(table) AS t WHERE \(equal(key)) AND \(condition)",
            postgres: "SELECT \(columns)\(key.count == 1 ? "" : ", n.place") \(source) AND \(condition) \(lock)"
        )
    }

    /// Moves rows `q` of a queue into a log, whose columns come with their values in SQL.
    static func move(
        from queue: String,
        _ taken: String,
        into log: String,
        _ columns: KeyValuePairs<String, String>,
        row: [String],
        shared: [String]
    ) -> RowStatement {
        let start = "INSERT INTO \(log) (\(columns.map(\.key).joined(separator: ", ")))"
        let values = columns.map(\.value).joined(separator: ", ")
        var move = RowStatement(
            ["id"] + row,
            shared: shared,
            sqlite: "\(start) SELECT \(values) FROM \(queue) AS q WHERE q.id = @id",
            postgres: """
                WITH q AS (DELETE FROM \(queue) WHERE id = ANY($1) RETURNING id, \(taken))
                \(start) SELECT \(values) FROM @places JOIN q ON q.id = @id ORDER BY n.place
                """
        )
        move.removal = "DELETE FROM \(queue) WHERE id = ?1"
        return move
    }

    /// Takes rows `t` that are still due when they were, and moves their due time to the end of a lease. Skips rows that others hold.
    static func take(
        _ table: String,
        key: [String],
        where condition: (sqlite: String, postgres: String) = ("TRUE", "TRUE"),
        returning columns: String
    ) -> RowStatement {
        let names = key.map { "t.\($0)" }.joined(separator: ", ")
        return RowStatement(
            key + ["due_at", "lease_end"],
            shared: ["owner"],
            sqlite: """
                UPDATE \(table) AS t SET due_at = @lease_end, attempts = \(Dialect.sqlite.counted("attempts")) + 1, claimed_by = @owner
                 WHERE \(equal(key)) AND t.due_at = @due_at AND \(condition.sqlite)
                RETURNING \(columns)
                """,
            // It does not use `=` for the due time, because many rows share one, and the server would look for each row among all of them.
            postgres: """
                WITH free AS (
                  SELECT \(names), n.lease_end, n.place
                    FROM @places JOIN \(table) t ON \(equal(key)) AND t.due_at IS NOT DISTINCT FROM @due_at
                   WHERE \(condition.postgres)
                   ORDER BY \(names) FOR UPDATE OF t SKIP LOCKED),
                claimed AS (
                  UPDATE \(table) t
                     SET due_at = free.lease_end, attempts = \(Dialect.postgres.counted("t.attempts")) + 1, claimed_by = @owner
                    FROM free WHERE \(key.map { "t.\($0) = free.\($0)" }.joined(separator: " AND "))
                  RETURNING free.place, t.*)
                SELECT \(columns), place FROM claimed ORDER BY place
                """
        )
    }

    /// Takes rows of a queue of SQLite for a lease.
    package static func take(_ queue: Queue, returning columns: String) -> RowStatement {
        RowStatement(
            ["id"],
            shared: ["lease_end", "owner"],
            sqlite: """
                UPDATE \(queue.rawValue) SET due_at = @lease_end, attempts = \(Dialect.sqlite.counted("attempts")) + 1, claimed_by = @owner
                 WHERE id = @id RETURNING id, attempts, \(columns)
                """,
            postgres: ""
        )
    }

    private static func equal(_ key: [String]) -> String { key.map { "t.\($0) = @\($0)" }.joined(separator: " AND ") }

    /// A server that believes a queue empty must still search it by id.
    private static func isNamed(_ key: [String]) -> String { key == ["id"] ? "t.id = ANY($1)" : "TRUE" }
}
