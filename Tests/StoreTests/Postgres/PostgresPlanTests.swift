// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Testing

@testable import PostgresStore

/// Ten million rows cost no more than ten thousand, because no statement walks a growing table.
@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(10))) struct PostgresPlanTests: ConformanceSuite {
    /// Rows for each growing table. One in a thousand is due, claimed or waiting.
    private static let rows = [
        "notification_queue": "(payload, due_at) SELECT 'x', \(rarely("0", else: "4102444800000"))",
        "grant_queue": "(client_id, user_id, due_at) SELECT 'app', 'u' || n, \(rarely("0", else: "4102444800000"))",
        "revocation_queue": "(client_id, user_id, opened_at) SELECT 'app', 'u' || n, \(rarely("NULL", else: "1"))",
        "revocation": """
        (request, client, app, user_id, requested_at, token_granted_at, token_fingerprint, sealed_token, standing, due_at)
        SELECT n, 2, 1, 'u' || n, 1, 1, 'f', 's', 'accepted', \(rarely("0", else: "4102444800000"))
        """,
        "notification_log": """
        (app, jti, client_id, user_id, type, event_time, payload, received_at, settled_at, outcome)
        SELECT 'example', 'j', 'app', 'u' || n, 'consent-revoked', n, 'x', n, n, 'applied'
        """,
        "notification_quarantine": """
        (payload, received_at, rejected_at, reason, detail)
        SELECT 'x', n, n, \(rarely("'unknown_key'", else: "'foreign_audience'")), 'key' || n
        """,
        "grant_log": "(grant_id, client_id, user_id, granted_at, settled_at, outcome) SELECT n, 'app', 'u' || n, n, n, 'applied'",
        "revocation_log": "(request, client_id, user_id, requested_at, settled_at, outcome) SELECT n, 'app', 'u' || n, n, n, 'no_token'",
        "credential_change": """
        (app, client_id, user_id, kind, to_state, reason, source, occurred_at, recorded_at)
        SELECT 'example', 'app', 'u' || n, 'state', 'authorized', 'granted', 'grant', n, n
        """,
        "credential": """
        (user_id, client, app, state, reason, changed_at, granted_at, token_granted_at, token_fingerprint, sealed_token, due_at)
        SELECT 'u' || n, 1, 1, 'authorized', 'granted', n, n, n, 'f', 's', \(rarely("0", else: "4102444800000"))
        """,
        "user_event": "(user_id, app) SELECT 'u' || n, 1",
    ]

    private static func rarely(_ value: String, else other: String) -> String { "CASE n % 1000 WHEN 0 THEN \(value) ELSE \(other) END" }

    private func fill() async throws {
        // Backwards, because a revocation refers to its row in the queue.
        for (table, select) in Self.rows.sorted(by: { $0.key > $1.key }) {
            try await store.run("INSERT INTO \(table) \(select) FROM generate_series(1, 20000) n ON CONFLICT DO NOTHING")
        }
        // Indexes of this schema only, because other tests use others of the same server.
        let query = "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
        let tables = try await store.column(query).compactMap(\.text)
        try await store.run("ANALYZE \(tables.joined(separator: ", "))")
    }

    /// The steps that walk a growing table.
    private func walks(_ plan: [String]) -> [String] {
        plan.filter { step in Self.rows.keys.contains { step.contains("Seq Scan on \($0) ") } }
    }

    @Test func backendsNeverScan() async throws {
        try await fill()
        for sql in [
            "SELECT state FROM credential_state WHERE app = 'example' AND client_id = 'app' AND user_id = 'u7'",
            "SELECT state FROM credential_state WHERE user_id = 'u7'",
            "SELECT state FROM credential_state WHERE user_id = 'u7' AND app = 'example'",
            "SELECT state, email FROM user_state WHERE app = 'example' AND user_id = 'u7'",
            "SELECT state, email FROM user_state WHERE user_id = 'u7'",
            "SELECT outcome, reason FROM grant_outcome WHERE id = 7",
            "SELECT client_id, outcome, reason FROM revocation_outcome WHERE id = 7",
            "SELECT * FROM credential_change WHERE id > 7 ORDER BY id LIMIT 500",
            "SELECT (SELECT min(id) FROM credential_change), (SELECT max(id) FROM credential_change)",
        ] {
            let plan = try await store.column("EXPLAIN \(sql)").compactMap(\.text)
            #expect(walks(plan) == [] && plan.contains { $0.contains("Index") }, "\(sql)\n\(plan.joined(separator: "\n"))")
        }
    }

    /// Finds the daemon's prepared statements by running them. Each must have an index, whatever row counts the server expects.
    @Test func theDaemonNeverScans() async throws {
        try await store.askEverything()
        let plans = try await plans(under: ["enable_seqscan = off", "plan_cache_mode = force_generic_plan"]) { _ in "NULL" }
        #expect(plans.count > 60)
        for (statement, plan) in plans { #expect(walks(plan) == [], "in \(statement)\n\(plan.joined(separator: "\n"))") }
    }

    /// However many rows wait without being due: with the server's present row counts, claims use a search.
    @Test func eachClaimSearches() async throws {
        try await store.askEverything()
        try await fill()
        let claims = try await plans(under: ["plan_cache_mode = force_custom_plan"]) { type in
            ["bigint": "1000", "text": "'[\"1\"]'"]["\(type)"] ?? "NULL"
        }
        .filter { $0.statement.contains(/due_at (<=|BETWEEN \$\d AND) \$\d.* ORDER BY due_at/.dotMatchesNewlines()) }
        #expect(claims.count >= 7)
        for (statement, plan) in claims {
            #expect(walks(plan) == [] && plan.contains { $0.contains("Index") }, "in \(statement)\n\(plan.joined(separator: "\n"))")
        }
    }

    /// A vacuum that may remove nothing finds a queue empty, and the server expects one row in it. Then a walk over any index seems as
    /// cheap as a search. Claims and settlements must still search, and not by the second column of an index.
    @Test func whatSeemsEmptyIsSearched() async throws {
        try await store.askEverything()
        try await fill()
        for table in ["notification_queue", "grant_queue", "revocation_queue"] {
            let relation = "'\(table)'::regclass"
            // The server's own vacuum would count anew. Keep it away, and wait for one at work.
            try await store.run("ALTER TABLE \(table) SET (autovacuum_enabled = false)")
            try await store.run("UPDATE pg_class SET reltuples = 0, relpages = 3000 WHERE oid = \(relation)")
            try await store.run("UPDATE pg_class SET reltuples = 0 FROM pg_index WHERE indrelid = \(relation) AND oid = indexrelid")
        }
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let ids = (1...500).map(String.init).joined(separator: ",")
            let values = ["bigint": "1000", "bigint[]": "'{\(ids)}'", "integer": "1", "boolean": "TRUE"]
            let plans = try await plans(under: ["plan_cache_mode = \(mode)"]) { values["\($0)"] ?? "NULL" }
                .filter { $0.statement.contains(/(?:UPDATE|DELETE FROM) (?:notification|grant|revocation)_queue/) }
            #expect(plans.count > 10)
            for (statement, plan) in plans {
                let walks = plan.indices.filter { strays(plan[$0], plan[($0 + 1)...].first ?? "") }.map { plan[$0] }
                #expect(walks == [], "\(mode), in \(statement)\n\(plan.joined(separator: "\n"))")
            }
        }
    }

    /// Whether a step goes through a queue in another way than by the first column of an index.
    private func strays(_ step: String, _ next: String) -> Bool {
        if step.contains(/Seq Scan on \w+_queue/) { return true }
        let scan = /Index (?:Only )?Scan (?:Backward )?(?:using|on) (?:\w+_queue)_(\w+)/
        guard let index = step.firstMatch(of: scan)?.1 else { return false }
        let columns = ["pkey": "id", "due": "due_at", "code": "granted_at", "code_client": "client_id", "user": "user_id"]
        return !next.contains("Index Cond: (\(columns["\(index)"] ?? "")") && !next.contains("Index Cond: ((\(columns["\(index)"] ?? "")")
    }

    /// - Parameter value: SQL for a parameter of this type.
    private func plans(
        under settings: [String],
        _ value: @escaping @Sendable (_ type: Substring) -> String
    ) async throws -> [(statement: String, plan: [String])] {
        var plans: [(statement: String, plan: [String])] = []
        for thread in [store.postgres.writer, store.postgres.claims, store.postgres.reader] {
            plans += try await thread.run { connection in
                for setting in settings { try connection.run("SET \(setting)") }
                // Earlier plans do not know the new row counts.
                try connection.run("DISCARD PLANS")
                let prepared = try connection.rows(
                    """
                    SELECT statement, name, array_to_string(parameter_types, ',') FROM pg_prepared_statements
                     WHERE statement ~ '^\\s*(SELECT|INSERT|UPDATE|DELETE|WITH)'
                    """
                ).map { ($0.text(at: 0) ?? "", $0.text(at: 1) ?? "", $0.text(at: 2) ?? "") }
                return try prepared.map { statement, name, types in
                    let values = types.split(separator: ",").map(value).joined(separator: ", ")
                    let plan = try connection.rows("EXPLAIN EXECUTE \(sql: name)\(sql: values.isEmpty ? "" : "(\(values))")").map {
                        $0.text(at: 0) ?? ""
                    }
                    return (statement, plan)
                }
            }
        }
        return plans
    }
}
