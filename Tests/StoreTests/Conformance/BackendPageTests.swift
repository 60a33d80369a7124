// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

@testable import PostgresStore

/// The statements of the pages for backends, as a backend or an operator copies them, on both stores.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct BackendPageTests: ConformanceSuite {
    /// Without the pragmas.
    private static func statements(of page: String) -> [String] {
        BackendPages.blocks(of: page).filter { !$0.hasPrefix("PRAGMA") }.flatMap { block -> [String] in
            let lines = block.split(separator: "\n").filter { !$0.hasPrefix("--") }
            return lines.joined(separator: "\n").split(separator: ";").map { BackendPages.filled(String($0)) }
        }
    }

    @Test func everyStatementRunsAsPrinted() async throws {
        // A connection of its own, so that its role is nobody else's.
        let door = (store.ports as? PostgresStore).map { PostgresDoor($0.address) as any SQLDoor } ?? store.door
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
    private var rules: [(file: String, user: String, app: String, time: String)] {
        [
            ("docs/schema.md", ":sub", "'example'", ":signed_in_at"), ("README.md", ":sub", ":app", ":signed_in_at"),
            ("Examples/fastapi/app_sql.py", ":user_id", ":app", ":signed_in_at"),
            kind == .postgres
                ? ("docs/postgresql.md", "'000123.abc.456'", "'example'", "1790000000999")
                : ("Examples/ruby/by_sql.rb", "?1", "?2", "?3"),
        ]
    }

    /// Otherwise it would outlive each revocation.
    @Test func theRuleEndsASessionThatIsDatedAhead() async throws {
        let now = kind == .postgres ? "extract(epoch FROM now()) * 1000" : "strftime('%s', 'now') * 1000"
        #expect(BackendPages.schema.contains("`\(now)`"))
        func ends(_ minutes: Int?) async throws -> [Bool] {
            var ends: [Bool] = []
            for (file, user, app, time) in rules {
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
        let (all, none) = (rules.map { _ in true }, rules.map { _ in false })
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
    @Test(.on(.postgres), arguments: BackendPages.queues) func theQueuesAreThoseOfTheContract(_ queue: String) async throws {
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

/// The README's statements, as a new user copies them, on both stores.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct ReadmeTests: ConformanceSuite {
    /// SQLite only. docs/postgresql.md has their counterparts for PostgreSQL.
    private static let forSQLite = ["unixepoch", "CAST(:body AS TEXT)"]

    @Test func everyStatementRunsAsPrinted() async throws {
        let statements = BackendPages.blocks(of: BackendPages.file("README.md"))
        #expect(statements.count == 7)
        for statement in statements where kind != .postgres || !Self.forSQLite.contains(where: statement.contains) {
            let sql = BackendPages.filled(statement.replacing(/--.*/, with: ""))
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

enum BackendPages {
    static let schema = file("docs/schema.md")
    static let sqlite = file("docs/backend-sqlite.md")
    static let postgresql = file("docs/backend-postgresql.md")

    static func file(_ path: String) -> String {
        let url = URL(filePath: #filePath).appending(path: "../../../../\(path)").standardized
        return try! String(contentsOf: url, encoding: .utf8)
    }

    static func blocks(of page: String) -> [String] {
        page.components(separatedBy: "\n```sql\n").dropFirst().compactMap { $0.components(separatedBy: "\n```\n").first }
    }

    /// In place of a driver's values. An untyped number has four bytes, as with many drivers.
    private static let values = [
        "body": "'{}'", "sub": "'ann'", "client_id": "'app'", "app": "'example'", "code": "'c'", "nonce": "'n'",
        "redirect_uri": "'https://example.com/callback'", "refresh_token": "'r'", "email": "'ann@example.com'", "email_is_private": "1",
        "iat": "1790000000", "signed_in_at": "1790000000999", "last_seen": "0", "id": "1", "since": "0", "now": "1790000000000",
    ]

    static func filled(_ statement: String) -> String { statement.replacing(/:([a-z_]+)/) { values[String($0.1)] ?? String($0.0) } }

    static let queues = ["notification_queue", "grant_queue", "revocation_queue"]

    /// The columns of a queue that the schema's page lets a backend set, each with its row.
    static func columns(of queue: String) -> [(name: String, row: String)] {
        let section = schema.components(separatedBy: "\n### `\(queue)`\n").last?.components(separatedBy: "\n###").first ?? ""
        return section.matches(of: /(?m)^\| `(\w+)` \| (.+) \|$/).map { (String($0.1), String($0.2)) }
    }

    /// The constraints that the rows of a queue name. A row has them without the name of its column.
    static func constraints(of queue: String) -> Set<String> {
        Set(columns(of: queue).flatMap { column in column.row.matches(of: #/\*([^*]+)\*/#).map { "\(column.name) \($0.1)" } })
    }

    /// Whether a page names a constraint outside of the rows, whole or without its first word.
    static func names(_ constraint: String, in page: String) -> Bool {
        let text = page.replacing("\n", with: " ")
        let rest = constraint.split(separator: " ").dropFirst().joined(separator: " ")
        return text.contains("*\(constraint)*") || text.contains("it *\(rest)*")
    }
}
