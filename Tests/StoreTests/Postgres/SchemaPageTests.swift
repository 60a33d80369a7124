// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import PostgresStore

/// The statements of docs/schema.md, as a backend or an operator with PostgreSQL copies them.
@Suite(.timeLimit(.minutes(10))) struct SchemaPageTests {
    private static let mark = "-- On PostgreSQL"

    /// Without the pragmas, and without statements that have another form for PostgreSQL below them.
    private static let blocks: [String] = {
        let blocks = SchemaPage.blocks(of: "sql")
        let next = blocks.dropFirst() + [""]
        return zip(blocks, next).filter { !$0.1.hasPrefix(mark) && !$0.0.hasPrefix("PRAGMA") }.map { $0.0 }
    }()

    /// In place of a driver's values. An untyped number has four bytes, as with many drivers.
    private static let values = [
        "body": "'{}'", "sub": "'ann'", "code": "'c'", "nonce": "'n'", "refresh_token": "'r'", "email": "'ann@example.com'",
        "is_private_email": "'true'", "iat": "1790000000", "token_granted_at": "1780000000999", "last_signed_in_at": "1785000000999",
        "signed_in_at": "1790000000999", "last_seen": "0", "id": "1",
    ]

    private static func statements(of block: String) -> [String] {
        let lines = block.split(separator: "\n").filter { !$0.hasPrefix("--") }
        return lines.joined(separator: "\n").split(separator: ";").map { statement in
            String(statement).replacing(/:([a-z_]+)/) { values[String($0.1)] ?? String($0.0) }
        }
    }

    @Test func everyStatementRunsAsPrinted() async throws {
        let store = try StoreKind.postgres.make()
        let door = PostgresDoor(try #require(store.ports as? PostgresStore).address)
        let blocks = Self.blocks.filter { !$0.contains("CREATE TABLE") }
        #expect(blocks.count > 12)
        for block in blocks {
            let isForOperators = block.contains("_log") || block.contains("notification_quarantine")
            try await door.run(isForOperators ? "RESET ROLE" : "SET ROLE siwatch_backend", [])
            for statement in Self.statements(of: block) {
                await #expect(throws: Never.self, "\(statement)") { try await door.run(statement, []) }
            }
        }
        let signIns = try await store.rows("SELECT email_is_private, granted_at FROM grant_queue WHERE email IS NOT NULL")
        #expect(signIns == [[1, 1_790_000_000_999]])
    }

    @Test func theQueuesAreThoseOfTheContract() {
        let tables = Self.blocks.filter { $0.contains("CREATE TABLE") }
        #expect(tables.count == 3)
        for table in tables { #expect(normalized(Schema.v1).contains(normalized(table.dropFirst(Self.mark.count)))) }
    }

    private func normalized(_ sql: some StringProtocol) -> String {
        sql.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }
}
