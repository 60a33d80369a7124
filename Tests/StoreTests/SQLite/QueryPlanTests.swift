// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB
import NIOConcurrencyHelpers
import Testing

@testable import SQLiteStore

/// Ten million credentials cost no more than ten thousand, because every look-up is a search.
@Suite struct QueryPlanTests {
    private func plan(_ sql: String, in store: SQLiteStore) async throws -> [String] {
        try await store.writer.writeWithoutTransaction { db in
            let statement = try db.makeStatement(sql: "EXPLAIN QUERY PLAN \(sql)")
            statement.setUncheckedArguments(StatementArguments())
            return try Row.fetchAll(statement).map { $0["detail"] }
        }
    }

    private func scans(_ sql: String, in store: SQLiteStore) async throws -> [String] {
        // Apps, clients, deliveries, tables and waiting codes are a handful of rows. A statement may walk the rows that a search has found.
        let small = [
            "SCAN app", "SCAN client", "SCAN operator_request", "SCAN breaker", "SCAN grant_queue USING INDEX grant_queue_code",
            "SCAN CONSTANT ROW", "SCAN (subquery", "SCAN found", "SCAN json_each", "SCAN sqlite_sequence", "SCAN grant_outcome",
            "SCAN revocation_outcome",
            "SCAN heartbeat",
            // An hour's rejections.
            "SCAN admitted_rejection",
        ]
        return try await plan(sql, in: store).filter { step in
            step.hasPrefix("SCAN") && step != "SCAN delivery" && !small.contains { step.hasPrefix($0) }
        }
    }

    @Test(
        arguments: [
            "SELECT state FROM credential_state WHERE app = ? AND client_id = ? AND user_id = ?",
            "SELECT state FROM credential_state WHERE user_id = ?",
            "SELECT state FROM credential_state WHERE user_id = ? AND app = ?",
            "SELECT state, email FROM user_state WHERE app = ? AND user_id = ?",
            "SELECT state, email FROM user_state WHERE user_id = ?",
            "SELECT outcome, reason FROM grant_outcome WHERE id = ?",
            "SELECT client_id, outcome, reason FROM revocation_outcome WHERE id = ?",
            "SELECT alive_at FROM heartbeat",
            "SELECT * FROM credential_change WHERE id > ? ORDER BY id LIMIT 500",
            """
            SELECT coalesce((SELECT min(id) FROM credential_change), 1) AS oldest,
                   coalesce((SELECT max(id) FROM credential_change), 0) AS newest
            """,
        ]
    )
    func backendsNeverScan(_ sql: String) async throws {
        let store = try SQLiteStore.inMemory()
        #expect(try await scans(sql, in: store) == [])
        #expect(try await plan(sql, in: store).contains { $0.hasPrefix("SEARCH") })
    }

    /// The statement walks the portion alone, and reads no other user.
    @Test func aPortionOfUsersIsCompared() async throws {
        let store = try SQLiteStore.inMemory()
        let sql = try #require(BackendPages.blocks(of: BackendPages.schema).first { $0.hasPrefix("WITH yours") })
        #expect(try await scans(sql, in: store).filter { !$0.contains("yours") } == [])
    }

    /// However many credentials of an app are overdue, a search finds one client's without looking at the others'.
    @Test func theScheduleIsSearchedByClient() async throws {
        let store = try SQLiteStore.inMemory()
        let search = "SELECT user_id, client, attempts, due_at FROM credential WHERE client = ?1 AND due_at <= ?2 ORDER BY due_at LIMIT ?3"
        let plan = try await plan(search, in: store)
        #expect(plan == ["SEARCH credential USING INDEX credential_due (client=? AND due_at<?)"])
    }

    @Test func theDaemonNeverScans() async throws {
        let sqlite = try SQLiteStore.inMemory()
        let store = try StoreUnderTest(sqlite, door: SQLiteDoor(sqlite.writer))
        let statements = StatementLog()
        try await sqlite.writer.writeWithoutTransaction { db in db.trace { statements.note($0) } }

        try await store.askEverything()
        _ = try await sqlite.scheduledCredentials(of: "example")
        try await sqlite.writer.writeWithoutTransaction { db in db.trace(options: []) }

        let found = statements.all
        #expect(found.count > 30)
        for sql in found { #expect(try await scans(sql, in: sqlite) == [], "in \(sql)") }
    }

    private final class StatementLog: Sendable {
        private let statements = NIOLockedValueBox<Set<String>>([])

        var all: [String] {
            statements.withLockedValue {
                $0.filter { sql in ["SELECT", "INSERT", "UPDATE", "DELETE"].contains { sql.hasPrefix($0) } }.sorted()
            }
        }

        func note(_ event: Database.TraceEvent) {
            if case .statement(let statement) = event { statements.withLockedValue { _ = $0.insert(statement.sql) } }
        }
    }
}
