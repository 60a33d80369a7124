// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Every row of every table of a database.
struct TableContents: Equatable {
    /// By table, the values of its columns by name, in the order of these values.
    private(set) var rows: [String: [[SQLValue]]] = [:]

    /// - Parameter columns: those to read, by table.
    init(_ door: any SQLDoor, _ columns: [String: [String]]) async throws {
        for (table, names) in columns {
            let order = names.indices.map { "\($0 + 1)" }.joined(separator: ", ")
            rows[table] = try await door.rows("SELECT \(names.joined(separator: ", ")) FROM \(table) ORDER BY \(order)", [])
        }
    }

    /// The columns of every table of a file.
    static func columns(ofFile door: any SQLDoor) async throws -> [String: [String]] {
        try await columns(
            door,
            """
            SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
             WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%' AND t.name NOT LIKE 'grdb%'
            """
        )
    }

    /// The columns of every table of a server's schema, but of the one that changes with each migration.
    static func columns(ofServer door: any SQLDoor) async throws -> [String: [String]] {
        try await columns(
            door,
            """
            SELECT c.relname::text, a.attname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
             WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace AND c.relname <> 'schema_version'
            """
        )
    }

    private static func columns(_ door: any SQLDoor, _ question: String) async throws -> [String: [String]] {
        let pairs = try await door.rows(question, []).map { ($0[0].text ?? "", $0[1].text ?? "") }
        return Dictionary(grouping: pairs, by: \.0).mapValues { $0.map(\.1).sorted() }
    }
}
