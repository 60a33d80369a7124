// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import PostgresStore

/// The statements of the pages for backends, as a backend or an operator copies them, on both stores.
@Suite(.schemas, .timeLimit(.minutes(10))) struct BackendPageTests {
    /// In place of a driver's values. An untyped number has four bytes, as with many drivers.
    private static let values = [
        "body": "'{}'", "sub": "'ann'", "code": "'c'", "nonce": "'n'", "redirect_uri": "'https://example.com/callback'",
        "refresh_token": "'r'", "email": "'ann@example.com'", "email_is_private": "1", "iat": "1790000000",
        "signed_in_at": "1790000000999", "last_seen": "0", "id": "1", "since": "0",
        "now": "1790000000000",
    ]

    /// Without the pragmas.
    private static func statements(of page: String) -> [String] {
        BackendPages.blocks(of: page).filter { !$0.hasPrefix("PRAGMA") }.flatMap { block -> [String] in
            let lines = block.split(separator: "\n").filter { !$0.hasPrefix("--") }
            return lines.joined(separator: "\n").split(separator: ";").map { statement in
                String(statement).replacing(/:([a-z_]+)/) { values[String($0.1)] ?? String($0.0) }
            }
        }
    }

    /// A connection of its own, so that its role is nobody else's.
    private static func door(to store: StoreUnderTest) -> any SQLDoor {
        guard let postgres = store.ports as? PostgresStore else { return store.door }
        return PostgresDoor(postgres.address)
    }

    @Test(arguments: StoreKind.allCases)
    func everyStatementRunsAsPrinted(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let door = Self.door(to: store)
        let page = kind == .postgres ? BackendPages.postgresql : BackendPages.sqlite
        let statements = Self.statements(of: BackendPages.schema) + Self.statements(of: page)
        #expect(statements.count == 14)
        for statement in statements {
            if kind == .postgres {
                let isForOperators = statement.contains("_log") || statement.contains("notification_quarantine")
                try await door.run(isForOperators ? "RESET ROLE" : "SET ROLE siwatch_backend", [])
            }
            await #expect(throws: Never.self, "\(statement)") { try await door.run(statement, []) }
        }
        let signIns = try await store.rows("SELECT email_is_private, granted_at FROM grant_queue WHERE email IS NOT NULL")
        #expect(signIns == [[1, 1_790_000_000_999]])
        #expect(try await store.count("grant_queue") == 2)
        for queue in ["notification_queue", "revocation_queue"] { #expect(try await store.count(queue) == 1) }
    }

    /// Where the rule for sessions stands, and what stands there for the user, the app, and the session's time.
    private static func rules(for kind: StoreKind) -> [(file: String, user: String, app: String, time: String)] {
        [
            ("docs/schema.md", ":sub", "'example'", ":signed_in_at"), ("README.md", ":sub", ":app", ":signed_in_at"),
            ("Examples/fastapi/app_sql.py", ":user_id", ":app", ":signed_in_at"),
            kind == .postgres
                ? ("docs/postgresql.md", "'000123.abc.456'", "'example'", "1790000000999")
                : ("Examples/ruby/by_sql.rb", "?1", "?2", "?3"),
        ]
    }

    /// Otherwise it would outlive each revocation.
    @Test(arguments: StoreKind.allCases)
    func theRuleEndsASessionThatIsDatedAhead(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let now = kind == .postgres ? "extract(epoch FROM now()) * 1000" : "strftime('%s', 'now') * 1000"
        #expect(BackendPages.schema.contains("`\(now)`"))
        func ends(_ minutes: Int?) async throws -> [Bool] {
            var ends: [Bool] = []
            for (file, user, app, time) in Self.rules(for: kind) {
                let text = BackendPages.file(file)
                let rule = text.firstMatch(of: /SELECT EXISTS \((\s*SELECT 1 FROM (?:siwatch\.)?user_state[\s\S]*?300000)\s*\)/)
                let condition = try #require(rule, "\(file)").1.replacing("siwatch.", with: "").replacing(user, with: "'user'")
                    .replacing("app = \(app)", with: "app IS NOT NULL")
                    .replacing(time, with: minutes.map { "(\(now) + \($0) * 60000)" } ?? "(NULL)")
                    .replacing(":now", with: now).replacing("{NOW}", with: now)
                ends.append(try await store.column("SELECT COUNT(*) FROM (\(condition)) AS found") == [1])
            }
            return ends
        }
        let (all, none) = (Self.rules(for: kind).map { _ in true }, Self.rules(for: kind).map { _ in false })
        try await store.signIn(token: "r", at: .start)
        try await store.refresh(.valid, at: .start + .days(1))
        #expect(try await ends(10) == none, "the user is signed in")
        try await store.refresh(.rejected, at: .start + .days(3))
        #expect(try await ends(10) == all)
        #expect(try await ends(1) == none, "a clock may be off by minutes")
        // The page of PostgreSQL has a number there.
        #expect(try await ends(nil).prefix(3) == all.prefix(3), "a time that the backend has lost")
    }

    /// The page lists the columns that a backend may set, and names every constraint. `SchemaTests` compares SQLite's.
    @Test(arguments: BackendPages.queues)
    func theQueuesAreThoseOfTheContract(_ queue: String) async throws {
        let store = try StoreKind.postgres.make()
        let columns = try await store.column(
            """
            SELECT attname::text FROM pg_attribute
             WHERE attrelid = to_regclass(?) AND attnum > 0 AND has_column_privilege('siwatch_backend', attrelid, attnum, 'INSERT')
             ORDER BY attnum
            """,
            [.text(queue)]
        ).compactMap(\.text)
        #expect(columns == BackendPages.columns(of: queue).map { $0.name })
        let constraints = try await store.column(
            "SELECT conname::text FROM pg_constraint WHERE conrelid = to_regclass(?) AND contype = 'c'",
            [.text(queue)]
        ).compactMap(\.text)
        for constraint in constraints where !BackendPages.constraints(of: queue).contains(constraint) {
            let pages = [BackendPages.schema, BackendPages.postgresql]
            #expect(pages.contains { BackendPages.names(constraint, in: $0) }, "\(constraint)")
        }
    }
}
