// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB
import NIOConcurrencyHelpers
import Testing

@testable import SQLiteStore

/// Ten million credentials cost what ten thousand do: every look-up is a search.
@Suite struct QueryPlanTests {
    private func plan(_ sql: String, in store: SQLiteStore) async throws -> [String] {
        try await store.writer.writeWithoutTransaction { db in
            let statement = try db.makeStatement(sql: "EXPLAIN QUERY PLAN \(sql)")
            statement.setUncheckedArguments(StatementArguments())
            return try Row.fetchAll(statement).map { $0["detail"] }
        }
    }

    /// What walks a table from one end to the other.
    private func scans(_ sql: String, in store: SQLiteStore) async throws -> [String] {
        // Apps and clients are a handful of rows; what a search has found may be walked.
        let small = ["SCAN app", "SCAN client", "SCAN operator_request", "SCAN breaker", "SCAN CONSTANT ROW", "SCAN (subquery"]
        return try await plan(sql, in: store).filter { step in
            step.hasPrefix("SCAN") && !small.contains { step.hasPrefix($0) }
        }
    }

    @Test(
        arguments: [
            "SELECT state FROM credential_state WHERE app = ? AND client_id = ? AND user_id = ?",
            "SELECT state FROM credential_state WHERE user_id = ?",
            "SELECT state FROM credential_state WHERE user_id = ? AND app = ?",
            "SELECT state, email FROM user_state WHERE app = ? AND user_id = ?",
            "SELECT state, email FROM user_state WHERE user_id = ?",
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

    /// However many of an app are overdue: those of one client are found without looking at the others'.
    @Test func theScheduleIsSearchedByClient() async throws {
        let store = try SQLiteStore.inMemory()
        let plan = try await plan(
            "SELECT user_id, client, attempts, due_at FROM credential WHERE client = ?1 AND due_at <= ?2 ORDER BY due_at LIMIT ?3",
            in: store
        )
        #expect(plan == ["SEARCH credential USING INDEX credential_due (client=? AND due_at<?)"])
    }

    /// Whatever statements the daemon runs, found by running them.
    @Test func theDaemonNeverScans() async throws {
        let sqlite = try SQLiteStore.inMemory()
        let store = try StoreUnderTest(sqlite, door: SQLiteDoor(sqlite.writer)) {}
        let statements = StatementLog()
        try await sqlite.writer.writeWithoutTransaction { db in db.trace { statements.note($0) } }

        try await store.signIn(token: "r", email: EmailAddress("a@example.com"))
        try await store.signIn(client: "forgotten")
        try await store.notify(.emailDisabled(nil), at: .start + .minutes(1))
        try await store.notify(.emailDisabled(nil), at: .start + .minutes(1))
        try await store.refresh(.valid, at: .start + .days(2))
        try await store.grant(at: .start + .days(4))
        try await store.notify(.consentRevoked, at: .start + .days(3))
        try await store.run("UPDATE counter SET value = 10000 WHERE name = 'quarantine_unsigned_rows'")
        try await store.receive(at: .start + .days(3))
        let work = try await store.claimNotifications(at: .start + .days(3))
        _ = try await store.settle(.notification(work[0], .rejected(.unknownKey, detail: "new")), at: .start + .days(3))
        let key = SigningKeyRecord(keyID: "new", jwk: "{}", firstSeenAt: .start, lastSeenAt: .start)
        try await store.ports.remember([key], fetchedAt: .start)
        _ = try await store.ports.overdueCredentials(before: .start, upTo: 10)
        _ = try await store.ports.apps()
        _ = try await store.ports.foreignTokens(of: "example")
        _ = try await store.ports.neverAcceptedTokens(of: "example")
        _ = try await store.ports.waitingGrants(datedAfter: .start, upTo: 10)
        _ = try await store.ports.dueRows(at: .start, upTo: 10)
        _ = try await store.ports.clients()
        _ = try await store.ports.breakers()
        _ = try await store.ports.unknownCanaries(["user"], of: "example")
        _ = try await store.ports.takeCanaries(["good"], of: "example", upTo: 10, at: .start)
        try await store.signIn("left", token: "r")
        try await store.reject("left", at: .start + .days(5))
        try await store.run("UPDATE credential SET due_at = 1 WHERE user_id = 'left'")
        _ = try await store.claimCredentials(at: .start + .days(5))
        try await store.admit(at: .start + .days(5) + .hours(1))
        _ = try await store.ports.countMissedNotifications(at: .start + .days(6))
        try await store.signIn("open", token: "r")
        try await store.reject("open", at: .start + .days(7), finding: .blamed)
        let all = Set(["app", "web"])
        _ = try await store.ports.claimDueCredentials(
            of: "example",
            upTo: 1,
            at: .start + .days(9),
            policy: StoreUnderTest.policy,
            preferring: all
        )
        _ = try await store.ports.claimFirstChecks(of: all, upTo: 1, at: .start, policy: StoreUnderTest.policy)
        _ = try await store.ports.neverAcceptedTokens(of: "example")
        _ = try await sqlite.scheduledCredentials(of: "example")
        _ = try await sqlite.hasScheduledCredentials(clientID: "app")
        _ = try await store.ports.checks()
        for request: OperatorRequest in [
            .pause(app: "example"), .resume(app: "example"), .recheckUser("user"), .recheckApp("example"),
            .retryQuarantined([1], receivedAt: nil), .dropQuarantined([1]),
        ] {
            _ = try await store.ask(request)
        }
        try await sqlite.writer.writeWithoutTransaction { db in db.trace(options: []) }

        let found = statements.all
        #expect(found.count > 30)
        for sql in found { #expect(try await scans(sql, in: sqlite) == [], "in \(sql)") }
    }

    /// Every statement that ran, once.
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
