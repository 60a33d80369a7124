// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// Every event that leaves the queue is in the log, with its outcome.
@Suite(.schemas, .timeLimit(.minutes(10))) struct EventOutcomeTests {
    private static let later = Timestamp.start + .hours(1)

    @Test(arguments: StoreKind.allCases)
    func theLogHoldsWhatAppleSaid(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.receive("{\"payload\":\"a.b.c\"}", at: Self.later)
        let work = try await store.claimNotifications(at: Self.later)
        let verdict = NotificationVerdict.event(.accountDeleted, client: "web", type: "account-delete", tokenID: "jti.1")
        #expect(try await store.settle(.notification(work[0], verdict), at: Self.later + .seconds(1)) == .notification(.applied))
        #expect(
            try await store.rows(
                """
                SELECT app, jti, client_id, user_id, type, event_time, payload, received_at, settled_at, outcome FROM notification_log
                """
            ) == [
                [
                    "example", "jti.1", "web", "user", "account-delete", .at(.start), "{\"payload\":\"a.b.c\"}", .at(Self.later),
                    .at(Self.later + .seconds(1)), "applied",
                ]
            ]
        )
        #expect(try await store.count("notification_queue") == 0)
    }

    /// The four columns decide, not the message's own name.
    @Test(arguments: StoreKind.allCases)
    func toldTwiceIsADuplicate(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn()
        #expect(try await store.notify(.consentRevoked, at: Self.later, tokenID: "1") == .notification(.applied))
        #expect(try await store.notify(.consentRevoked, at: Self.later, tokenID: "1") == .notification(.duplicate))
        #expect(try await store.notify(.consentRevoked, client: "web", at: Self.later, tokenID: "2") == .notification(.duplicate))
        #expect(
            try await store.rows("SELECT outcome, jti, payload IS NULL FROM notification_log ORDER BY id")
                == [["applied", "1", 0], ["duplicate", "1", 1], ["duplicate", "2", 1]]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func oneDifferenceIsEnoughToBeAnother(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let outcomes = [
            try await store.notify(.unknown),
            try await store.notify(.unknown, "another"),
            try await store.notify(.unknown, client: "elsewhere"),
            try await store.notify(.unknown, at: Self.later),
            try await store.notify(.unknown, type: "newer"),
        ]
        #expect(outcomes == Array(repeating: .notification(.unknownType), count: 5))
        #expect(try await store.column("SELECT DISTINCT payload IS NOT NULL FROM notification_log") == [1])
    }

    @Test(arguments: StoreKind.allCases)
    func anUnknownTypeCanBeADuplicateToo(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.notify(.unknown)
        #expect(try await store.notify(.unknown) == .notification(.duplicate))
    }

    @Test(arguments: StoreKind.allCases)
    func whatMovesNoRegisterIsStale(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.notify(.consentRevoked, at: Self.later)
        #expect(try await store.notify(.consentRevoked, at: .start, now: Self.later) == .notification(.stale))
        #expect(
            try await store.rows("SELECT outcome, payload FROM notification_log ORDER BY id") == [["applied", "jws"], ["stale", "jws"]]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func whatASignInStandsAboveIsStale(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(at: Self.later)
        #expect(try await store.notify(.accountDeleted, at: .start, now: Self.later) == .notification(.stale))
        #expect(try await store.column("SELECT state FROM credential_state") == ["authorized"])
    }

    /// Apple has used two names for one event.
    @Test(arguments: StoreKind.allCases)
    func anotherNameForTheSameIsStale(_ kind: StoreKind) async throws {
        let store = try kind.make()
        #expect(try await store.notify(.accountDeleted, type: "account-delete") == .notification(.applied))
        #expect(try await store.notify(.accountDeleted, type: "account-deleted") == .notification(.stale))
    }

    @Test(arguments: StoreKind.allCases)
    func duplicatesWithinABatchAreSeen(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.receive(100)
        let work = try await store.claimNotifications()
        let results = try await store.settle(work.map { .notification($0, .event(.consentRevoked)) }).results
        #expect(results.first == .notification(.applied))
        #expect(results.count { $0 == .notification(.duplicate) } == 99)
        #expect(try await store.count("notification_log") == 100)
        #expect(try await store.count("credential_change") == 1)
    }
}
