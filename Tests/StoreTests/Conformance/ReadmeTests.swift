// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

/// The README's statements, as a new user copies them, on both stores.
@Suite(.schemas, .timeLimit(.minutes(10))) struct ReadmeTests {
    private static let values = [
        "sub": "'ann'", "client_id": "'app'", "app": "'example'", "refresh_token": "'r'", "code": "'c'", "body": "'{\"payload\":\"ey\"}'",
        "iat": "1790000000", "signed_in_at": "1790000000999", "now": "1790000000000",
    ]
    /// SQLite only. docs/postgresql.md has their counterparts for PostgreSQL.
    private static let forSQLite = ["unixepoch", "CAST(:body AS TEXT)"]

    private static let statements: [String] = {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../README.md").standardized
        let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
        return text.matches(of: /(?ms)^```sql\n(.*?)^```$/).map { String($0.1) }
    }()

    @Test(arguments: StoreKind.allCases)
    func everyStatementRunsAsPrinted(_ kind: StoreKind) async throws {
        let store = try kind.make()
        #expect(Self.statements.count == 7)
        for statement in Self.statements where kind != .postgres || !Self.forSQLite.contains(where: statement.contains) {
            let sql = statement.replacing(/--.*/, with: "").replacing(/:([a-z_]+)/) { Self.values[String($0.1)] ?? String($0.0) }
            await #expect(throws: Never.self, "\(statement)") {
                if sql.hasPrefix("SELECT") { _ = try await store.rows(sql) } else { try await store.run(sql) }
            }
        }
        #expect(try await store.rows("SELECT granted_at FROM grant_queue WHERE refresh_token = 'r'") == [[1_790_000_000_999]])
        #expect(try await store.count("grant_queue") == 2)
        #expect(try await store.count("revocation_queue") == 1)
        #expect(try await store.count("notification_queue") == (kind == .postgres ? 0 : 1))
    }
}
