// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import NIOConcurrencyHelpers
import Testing

@testable import PostgresStore

/// A replica settles a fact about a user whom another replica forgets at that moment.
@Suite(.timeLimit(.minutes(5))) struct ForgottenMeanwhileTests {
    private let isSettled = NIOLockedValueBox(false)

    /// The row that both lock is gone when the settlement gets the lock. Without another try, the fact would be written nowhere.
    @Test func noFactIsLost() async throws {
        let store = try StoreKind.postgres.make()
        try await store.signIn(token: "r")
        try await store.receive(at: .start + .hours(1))
        let work = try await store.claimNotifications(at: .start + .hours(1))
        let event = Settlement.notification(work[0], .event(.consentRevoked, "user", at: .start + .hours(1)))
        let other = ConnectionThread(try #require(store.ports as? PostgresStore).address, label: "other")
        try await other.begin("SELECT * FROM user_event FOR UPDATE")
        let settling = Task {
            defer { isSettled.withLockedValue { $0 = true } }
            return try await store.settle([event], at: .start + .hours(1)).results
        }
        // In this schema only, because other tests wait for locks of their own.
        let waiting = """
            SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'user_event'::regclass)
            """
        while try await store.column(waiting) == [0], !isSettled.withLockedValue({ $0 }) { try Task.checkCancellation() }
        #expect(!isSettled.withLockedValue { $0 })
        try await other.run { connection in
            try connection.send("DELETE FROM credential")
            try connection.send("DELETE FROM user_event")
            try connection.send("COMMIT")
            try connection.flush()
        }
        await #expect(throws: StoreError.self) { try await settling.value }
        #expect(try await store.settle([event], at: .start + .hours(1)).results == [.notification(.applied)])
        #expect(try await store.rows("SELECT state, reason FROM user_state") == [["revoked", "consent_revoked"]])
        await other.close()
    }
}
