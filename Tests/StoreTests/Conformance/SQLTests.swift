// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables
import Testing

struct SQLTests {
    /// What a backend or a person wrote never becomes text of a statement, also where one statement is a part of another.
    @Test func aValueIsNoTextOfAStatement() {
        let (user, limit, column) = ("x'; DROP TABLE credential; --", 5, "user_id")
        let condition: SQL = "\(sql: column) = \(user) AND due_at > \(nil as Int64?)"
        let statement: SQL = "SELECT \(values: [7.columnValue, true.columnValue]) FROM credential WHERE \(condition) LIMIT \(limit)"
        #expect(statement.text == "SELECT $1, $2 FROM credential WHERE user_id = $3 AND due_at > $4 LIMIT $5")
        #expect(statement.values == [.integer(7), .boolean(true), .text(user), .integer(nil), .integer(5)])
        #expect(("SELECT 1" as SQL).text == "SELECT 1" && ("" as SQL).values.isEmpty)
    }
}
