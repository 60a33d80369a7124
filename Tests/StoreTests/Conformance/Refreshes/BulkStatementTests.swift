// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// A statement over many rows has the same effect as `CredentialRecord` on each row.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct BulkStatementTests: RejectionSuite {
    private static let later = asked + .minutes(5)

    private func rows(_ columns: String = "due_at, first_check", of store: StoreUnderTest) async throws -> [[SQLValue]] {
        try await store.rows(
            """
            SELECT state, answered_at, answer, pending_since, pending_asked_at, pending_key, failures, unverified, attempts, claimed_by,
                   \(columns) FROM credential WHERE user_id IN ('one', 'two') ORDER BY user_id
            """
        )
    }

    /// The batch that opens the breaker touches one of the users, and not the other.
    @Test func openingTakesBackWhatWaitsWhetherTheBatchTouchesItOrNot() async throws {
        try await rejected(users: "one", "two")
        try await store.signIn("three", token: "three")
        try await store.run("UPDATE credential SET due_at = 0 WHERE user_id = 'three'")
        let due = try await store.claimCredentials(upTo: 1, at: Self.later)[0]
        try await store.receive(at: Self.later)
        let event = try await store.claimNotifications(at: Self.later)[0]
        let mail = NotificationVerdict.event(.emailEnabled(EmailAddress("one@example.com")), "one", at: Self.later)
        let blame = Settlement.refresh(due, .failed(.misconfigured, at: Self.later))
        _ = try await store.settle([.notification(event, mail), blame], at: Self.later)
        let found = try await rows(of: store)
        #expect(found[0] == found[1])
        #expect(found[0][3] == nil)
        #expect(try await store.column("SELECT pending FROM app WHERE name = 'example'") == [0])
    }

    /// An operator rechecks one of them, and all. Only the places in the schedule differ.
    @Test func aRecheckOfAnAppIsARecheckOfEveryUser() async throws {
        try await rejected(users: "one", "two")
        let users = store
        try renew()
        try await rejected(users: "one", "two")
        let app = store
        let now = Self.asked + .hours(2)
        // The settle time is over, and nothing proves the rejections. They wait for the daily check.
        for store in [users, app] { #expect(try await store.claimCredentials(at: now).isEmpty) }
        for user in ["one", "two"] { _ = try await users.ask(.recheckUser(user), at: now) }
        _ = try await app.ask(.recheckApp("example"), at: now)
        let due = "due_at <= \((now + .seconds(1)).milliseconds)"
        let found = try await rows(due, of: users)
        #expect(try await rows(due, of: app) == found)
        #expect(found.map(\.last) == [1, 1])
        #expect(try await app.column("SELECT pending FROM app WHERE name = 'example'") == [0])
        #expect(try await users.column("SELECT pending FROM app WHERE name = 'example'") == [0])
    }
}
