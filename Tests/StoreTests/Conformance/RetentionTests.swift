// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// siwatch keeps evidence for the configured time, and no longer.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct RetentionTests: ConformanceSuite {
    private static let rejectedAt = Timestamp.start + .days(2)

    private func history() async throws {
        for day in 0...1 {
            let now = Timestamp.start + .days(day)
            try await store.signIn("user\(day)", at: now)
            try await store.notify(.unknown, at: now)
            try await store.receive(at: now)
            try await store.settleNotifications(at: now, as: .rejected(day == 0 ? .malformed : .expired, detail: ""))
            let receipt = "revocation_log (request, client_id, user_id, requested_at, settled_at, outcome)"
            try await store.run("INSERT INTO \(receipt) VALUES (1, 'app', 'user', ?, ?, 'no_token')", [.at(now), .at(now)])
        }
    }

    enum Log: String, CaseIterable {
        case notifications = "notification_log"
        case quarantine = "notification_quarantine"
        case changes = "credential_change"
        case grants = "grant_log"
        case revocations = "revocation_log"

        var retention: WritableKeyPath<Retention, Duration> {
            switch self {
            case .notifications: \.notificationLog
            case .quarantine: \.quarantine
            case .changes: \.changes
            case .grants: \.grantLog
            case .revocations: \.revocationLog
            }
        }
    }

    @Test(arguments: Log.allCases) func eachLogHasItsOwn(_ log: Log) async throws {
        try renew { $0[keyPath: log.retention] = .days(10) }
        try await history()
        try await store.ports.maintain(at: .start + .days(10))
        #expect(try await store.count(log.rawValue) == 2)
        try await store.ports.maintain(at: .start + .days(10) + .milliseconds(1))
        for other in Log.allCases { #expect(try await store.count(other.rawValue) == (other == log ? 1 : 2)) }
    }

    @Test func aLongHistoryGoesInPortions() async throws {
        try await store.receive(1_700)
        let work = try await store.claimNotifications(upTo: 1_700)
        _ = try await store.settle(
            work.enumerated().map { .notification($1, .rejected($0.isMultiple(of: 2) ? .malformed : .expired, detail: "")) }
        )
        try await store.ports.maintain(at: .start + .days(366))
        #expect(try await store.count("notification_quarantine") == 0)
    }

    /// - Parameter distance: between two rows, in milliseconds.
    private func append(_ count: Int, from time: Timestamp, every distance: Int64 = 60_000, to log: Log) async throws {
        let (columns, values) =
            switch log {
            case .notifications:
                (
                    "app, jti, client_id, user_id, type, event_time, payload, received_at, settled_at, outcome",
                    "'example', 'j', 'app', 'u', 't', 0, NULL, t, t, 'duplicate'"
                )
            case .quarantine: ("payload, received_at, rejected_at, reason, detail", "'x', t, t, 'malformed', ''")
            case .changes:
                (
                    "app, client_id, user_id, kind, to_state, reason, source, occurred_at, recorded_at",
                    "'example', 'app', 'u', 'state', 'revoked', 'granted', 'grant', t, t"
                )
            case .grants: ("grant_id, client_id, granted_at, settled_at, outcome", "i, 'app', t, t, 'applied'")
            case .revocations: ("request, client_id, user_id, requested_at, settled_at, outcome", "i, 'app', 'u', t, t, 'no_token'")
            }
        try await store.run(
            """
            WITH RECURSIVE n (i, t) AS (SELECT 1, ?1 UNION ALL SELECT i + 1, t + ?3 FROM n WHERE i < ?2)
            INSERT INTO \(log.rawValue) (\(columns)) SELECT \(values) FROM n
            """,
            [.at(time), .integer(Int64(count)), .integer(distance)]
        )
    }

    /// The clock was a year ahead when some rows were settled. They must not keep other rows.
    @Test(arguments: Log.allCases) func rowsFromTheFutureStopNothing(_ log: Log) async throws {
        try renew { $0[keyPath: log.retention] = .days(10) }
        try await append(1_100, from: .start + .days(365), to: log)
        try await append(700, from: .start, to: log)
        try await append(10, from: .start + .days(30), to: log)
        try await store.ports.maintain(at: .start + .days(30))
        #expect(try await store.count(log.rawValue) == 1_110)
        // The database may give ids again. Retention still finds rows with such ids.
        try await append(700, from: .start + .days(31), to: log)
        try await store.ports.maintain(at: .start + .days(60))
        #expect(try await store.count(log.rawValue) == (log == .changes ? 1_101 : 1_100))
        try await store.ports.maintain(at: .start + .days(700))
        #expect(try await store.count(log.rawValue) == (log == .changes ? 1 : 0))
    }

    /// For any number of rows: the next walk goes on where this one stopped.
    @Test func norDoManyOfThem() async throws {
        try renew { $0.grantLog = .days(10) }
        try await append(10_000, from: .start + .days(365), to: .grants)
        try await append(700, from: .start, to: .grants)
        for _ in 1...6 { try await store.ports.maintain(at: .start + .days(30)) }
        #expect(try await store.count("grant_log") == 10_000)
    }

    /// A follower must see that some changes are gone, and an empty table shows nothing.
    @Test(arguments: [1, 499, 500, 501, 1_200], [0, 60_000] as [Int64])
    func theNewestChangeStays(_ count: Int, _ distance: Int64) async throws {
        try await append(count, from: .start, every: distance, to: .changes)
        for days in [400, 401, 4_000] {
            try await store.ports.maintain(at: .start + .days(days))
            #expect(try await store.column("SELECT id FROM credential_change") == [.integer(Int64(count))])
        }
        try await append(1, from: .start + .days(4_000), to: .changes)
        try await store.ports.maintain(at: .start + .days(4_001))
        #expect(try await store.count("credential_change WHERE id > \(count)") == 1)
        #expect(try await store.count("credential_change") == 1)
    }

    @Test func makesRoomInTheRing() async throws {
        for (count, now) in [(10_000, Timestamp.start), (10_000, .start + .days(366))] {
            try await store.ports.maintain(at: now)
            try await store.receive(count, at: now)
            let work = try await store.claimNotifications(upTo: count, at: now)
            let evicted = try await store.settle(work.map { .notification($0, .rejected(.malformed, detail: "")) }, at: now).evicted
            #expect(evicted == 0)
        }
    }

    @Test func aRejectedTokenStaysSealedForAWhile() async throws {
        try await store.signIn(token: "r", isAccepted: true)
        try await store.refresh(.rejected, at: Self.rejectedAt)
        try await store.ports.maintain(at: Self.rejectedAt + .days(7))
        #expect(try await store.sealedTokens == 1)
        try await store.ports.maintain(at: Self.rejectedAt + .days(7) + .milliseconds(1))
        #expect(try await store.sealedTokens == 0)
        #expect(try await store.rows("SELECT state, reason FROM credential_state") == [["revoked", "token_rejected"]])
    }

    @Test func aTokenThatIsGoodStays() async throws {
        try await store.signIn("good", token: "r1")
        try await store.refresh(.valid, at: Self.rejectedAt)
        try await store.signIn("again", token: "r2")
        try await store.refresh(.rejected, at: Self.rejectedAt)
        try await store.signIn("again", token: "r3", at: Self.rejectedAt + .hours(1))
        try await store.ports.maintain(at: Self.rejectedAt + .days(30))
        #expect(try await store.sealedTokens == 2)
    }

    /// At the second question after a rejection, Apple accepted the token.
    @Test func aTokenThatWasVerifiedAgainStays() async throws {
        try await store.signIn(token: "r")
        try await store.refresh(.valid, at: Self.rejectedAt)
        try await store.run("UPDATE credential SET rejected_at = verified_at - 1")
        try await store.ports.maintain(at: Self.rejectedAt + .days(30))
        #expect(try await store.sealedTokens == 1)
    }

    @Test func aMessageGoesBeforeItsRow() async throws {
        try renew { $0.payload = .days(10) }
        for day in 0..<3 { try await store.notify(.consentRevoked, at: .start + .days(day)) }
        try await store.ports.maintain(at: .start + .days(11) + .milliseconds(1))
        #expect(try await store.ports.history(of: "user", upTo: 10).notifications.map(\.payload) == [nil, nil, "jws"])
        #expect(try await store.count("notification_log WHERE outcome = 'applied'") == 3)
        try await store.ports.maintain(at: .start + .days(13))
        #expect(try await store.ports.history(of: "user", upTo: 10).notifications.map(\.payload) == [nil, nil, nil])
    }

    @Test func noStateIsForgotten() async throws {
        try await store.signIn(token: "r")
        try await store.notify(.consentRevoked, at: .start + .hours(1))
        let before = try await store.rows("SELECT * FROM credential_state")
        try await store.ports.maintain(at: .start + .days(10_000))
        #expect(try await store.rows("SELECT * FROM credential_state") == before)
        #expect(try await store.count("credential_change") == 1)
        #expect(try await store.notify(.consentRevoked, at: .start + .hours(1)) == .notification(.stale))
    }
}
