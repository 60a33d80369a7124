// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The statements that insert and update many rows of a table, both with the same arrays. The caller has loaded the rows and knows which
/// one to run.
struct BulkStatements {
    let insert, update: String

    init(of table: String, key: [String], values: [String]) {
        let columns = key + values
        let rows = "unnest(\(columns.indices.map { "$\($0 + 1)" }.joined(separator: ", "))) AS n (\(columns.joined(separator: ", ")))"
        insert = """
            INSERT INTO \(table) (\(columns.joined(separator: ", ")))
            SELECT \(columns.map { "n.\($0)" }.joined(separator: ", ")) FROM \(rows)
            """
        update = """
            UPDATE \(table) AS t SET \(values.map { "\($0) = n.\($0)" }.joined(separator: ", "))
              FROM \(rows)
             WHERE \(key.map { "t.\($0) = n.\($0)" }.joined(separator: " AND "))
            """
    }
}
