// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The statements that insert and update a row, both with the same parameters. The caller has loaded the row and knows which one to run, so
/// SQLite need not look.
struct SavedRows {
    let insert, update: String

    init(of table: String, key: [String], values: [String]) {
        let columns = key + values
        let places = columns.indices.map { "?\($0 + 1)" }
        func equations(_ names: ArraySlice<String>) -> [String] { names.indices.map { "\(names[$0]) = \(places[$0])" } }
        insert = "INSERT INTO \(table) (\(columns.joined(separator: ", "))) VALUES (\(places.joined(separator: ", ")))"
        update = """
            UPDATE \(table) SET \(equations(columns[key.count...]).joined(separator: ", "))
             WHERE \(equations(columns[..<key.count]).joined(separator: " AND "))
            """
    }
}
