// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import SQLiteStore
import Testing

/// Evidence is kept as long as it was asked for, and no longer.
@Suite struct RetentionTests {
    private static let rejectedAt = Timestamp.start + .days(2)

    /// One row in each log, made at the start, and one made a day later.
    private func history(_ kind: StoreKind, _ retention: Retention) async throws -> StoreUnderTest {
        let store = try kind.make(retention: retention)
        for day in 0...1 {
            let now = Timestamp.start + .days(day)
            try await store.signIn("user\(day)", at: now)
            try await store.notify(.unknown, at: now)
            try await store.receive(at: now)
            let work = try await store.claimNotifications(at: now)[0]
            _ = try await store.settle(.notification(work, .rejected(day == 0 ? .malformed : .expired, detail: "")), at: now)
            try await store.run(
                """
                INSERT INTO revocation_log (client_id, user_id, requested_at, settled_at, outcome) VALUES ('app', 'user', ?, ?, 'no_token')
                """,
                [.at(now), .at(now)]
            )
        }
        return store
    }

    enum Log: String, CaseIterable {
        case notifications = "notification_log"
        case quarantine = "notification_quarantine"
        case changes = "credential_change"
        case grants = "grant_log"
        case revocations = "revocation_log"

        var tenDays: Retention {
            var retention = Retention()
            switch self {
            case .notifications: retention.notificationLog = .days(10)
            case .quarantine: retention.quarantine = .days(10)
            case .changes: retention.changes = .days(10)
            case .grants: retention.grantLog = .days(10)
            case .revocations: retention.revocationLog = .days(10)
            }
            return retention
        }
    }

    @Test(arguments: StoreKind.allCases, Log.allCases)
    func eachLogHasItsOwn(_ kind: StoreKind, _ log: Log) async throws {
        let store = try await history(kind, log.tenDays)
        try await store.ports.maintain(at: .start + .days(10))
        #expect(try await store.count(log.rawValue) == 2)
        try await store.ports.maintain(at: .start + .days(10) + .milliseconds(1))
        for other in Log.allCases { #expect(try await store.count(other.rawValue) == (other == log ? 1 : 2)) }
    }

    @Test func aLongHistoryGoesInPortions() async throws {
        let store = try StoreKind.memory.make()
        try await store.receive(1_700)
        let work = try await store.claimNotifications(upTo: 1_700)
        _ = try await store.settle(
            work.enumerated().map { .notification($1, .rejected($0.isMultiple(of: 2) ? .malformed : .expired, detail: "")) }
        )
        try await store.ports.maintain(at: .start + .days(366))
        #expect(try await store.count("notification_quarantine") == 0)
    }

    /// What retention takes no longer counts against the ring.
    @Test func makesRoomInTheRing() async throws {
        let store = try StoreKind.memory.make()
        for (count, now) in [(10_000, Timestamp.start), (10_000, .start + .days(366))] {
            try await store.ports.maintain(at: now)
            try await store.receive(count, at: now)
            let work = try await store.claimNotifications(upTo: count, at: now)
            let evicted = try await store.settle(work.map { .notification($0, .rejected(.malformed, detail: "")) }, at: now).evicted
            #expect(evicted == 0)
        }
    }

    @Test(arguments: StoreKind.allCases)
    func aRejectedTokenStaysSealedForAWhile(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(token: "r")
        try await store.refresh(.rejected, at: Self.rejectedAt)
        try await store.ports.maintain(at: Self.rejectedAt + .days(7))
        #expect(try await store.sealedTokens == 1)
        try await store.ports.maintain(at: Self.rejectedAt + .days(7) + .milliseconds(1))
        #expect(try await store.sealedTokens == 0)
        #expect(try await store.rows("SELECT state, reason FROM credential_state") == [["revoked", "token_rejected"]])
    }

    @Test(arguments: StoreKind.allCases)
    func aTokenThatIsGoodStays(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn("good", token: "r1")
        try await store.refresh(.valid, at: Self.rejectedAt)
        try await store.signIn("again", token: "r2")
        try await store.refresh(.rejected, at: Self.rejectedAt)
        try await store.signIn("again", token: "r3", at: Self.rejectedAt + .hours(1))
        try await store.ports.maintain(at: Self.rejectedAt + .days(30))
        #expect(try await store.sealedTokens == 2)
    }

    /// Asked again after a rejection, Apple said yes.
    @Test(arguments: StoreKind.allCases)
    func aTokenThatWasVerifiedAgainStays(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(token: "r")
        try await store.refresh(.valid, at: Self.rejectedAt)
        try await store.run("UPDATE credential SET rejected_at = verified_at - 1")
        try await store.ports.maintain(at: Self.rejectedAt + .days(30))
        #expect(try await store.sealedTokens == 1)
    }

    /// The state outlives its evidence.
    @Test(arguments: StoreKind.allCases)
    func noStateIsForgotten(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(token: "r")
        try await store.notify(.consentRevoked, at: .start + .hours(1))
        let before = try await store.rows("SELECT * FROM credential_state")
        try await store.ports.maintain(at: .start + .days(10_000))
        #expect(try await store.rows("SELECT * FROM credential_state") == before)
        #expect(try await store.count("credential_change") == 0)
        #expect(try await store.notify(.consentRevoked, at: .start + .hours(1)) == .notification(.stale))
    }
}
