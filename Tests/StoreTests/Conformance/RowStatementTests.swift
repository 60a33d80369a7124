// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import CredentialTables

/// One description of a statement, which a server runs once and SQLite for each row.
@Suite(.schemas, .timeLimit(.minutes(10))) struct RowStatementTests {
    private static let key = ["user_id", "client"]
    private static let insert = RowStatement.insert(into: "canary", key, shared: ["asked_at"])
    private static let read = RowStatement.read("t.asked_at", of: "canary", key: key, lockedBy: "t.user_id, t.client")

    private func ask(_ store: some TableStore) async throws -> [[Int64]] {
        try await store.transaction { connection in
            func row(_ user: String) -> [ColumnValue] { [user.columnValue, 1.columnValue] }
            try connection.execute(Self.insert, [row("b"), row("a"), row("c")], [7.columnValue])
            try connection.execute(
                .update("canary", key: Self.key, ["asked_at"]),
                [row("a") + [8.columnValue], row("c") + [9.columnValue]]
            )
            try connection.execute(.delete(from: "canary", key: Self.key, where: "t.asked_at = 7"), [row("a"), row("b")])
            var found: [[Int64]] = []
            try connection.forEachRow(of: connection.ask(Self.read, [row("c"), row("nobody"), row("b"), row("a")])) { place, row in
                found.append([Int64(place), row.integer(at: 0)])
            }
            return found.sorted { $0[0] < $1[0] }
        }
    }

    @Test(arguments: StoreKind.allCases)
    func eachRowHasItsOwnValuesAndItsPlace(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let tables = try #require(store.ports as? any TableStore)
        #expect(try await ask(tables) == [[0, 9], [3, 8]])
    }
}
