// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// A settlement counts only from the holder of the claim, and only once.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct SettlementMatchTests: ConformanceSuite {
    @Test func whoHasLostTheLeaseCannotWrite() async throws {
        try await store.receive()
        try await store.grant()
        let later = Timestamp.start + StoreUnderTest.lease
        let (early, late) = (try await store.claimNotifications()[0], try await store.claimNotifications(at: later)[0])
        let (earlyGrant, lateGrant) = (try await store.claimGrants()[0], try await store.claimGrants(at: later)[0])

        for settlement in [
            .notification(early, .event(.consentRevoked)), .notification(early, .rejected(.malformed, detail: "")),
            .notification(early, .postponed(until: later)), .grant(earlyGrant, .acceptance(of: earlyGrant)),
            .grant(earlyGrant, .inFuture(due: later, lookedAt: later)), .grant(earlyGrant, .unknownClient(lookedAt: later)),
            .grant(earlyGrant, .rejected(.malformed)),
        ] as [Settlement] {
            #expect(try await store.settle(settlement, at: later) == .superseded)
        }
        #expect(try await store.count("credential_change") == 0)
        #expect(try await store.count("notification_quarantine") == 0)

        #expect(try await store.settle(.grant(lateGrant, .acceptance(of: lateGrant)), at: later) == .grant(.applied, nil))
        #expect(try await store.settle(.notification(late, .event(.consentRevoked, at: later)), at: later) == .notification(.applied))
    }

    @Test func twiceIsOnce() async throws {
        try await store.grant(token: "r")
        try await store.receive()
        try await store.receive()
        let grant = try await store.claimGrants()[0]
        let notifications = try await store.claimNotifications()
        let settlements: [Settlement] = [
            .grant(grant, .acceptance(of: grant)),
            .notification(notifications[0], .event(.consentRevoked, at: .start + .hours(1))),
            .notification(notifications[1], .rejected(.malformed, detail: "")),
        ]
        // In one batch, and once more after it.
        let both = try await store.settle(settlements + settlements)
        let found = both.results
        #expect(found == [.grant(.applied, nil), .notification(.applied), .quarantined(.malformed), .superseded, .superseded, .superseded])
        let changes = try await store.rows("SELECT * FROM credential_change")
        #expect(try await store.settle(settlements).results == [.superseded, .superseded, .superseded])
        #expect(try await store.rows("SELECT * FROM credential_change") == changes)
        #expect(try await store.count("notification_log") == 1)
        #expect(try await store.count("notification_quarantine") == 1)
        #expect(try await store.count("grant_log") == 1)
    }

    @Test func aBatchIsSettledInItsOrder() async throws {
        for number in 1...4 { try await store.receive("\(number)") }
        let work = try await store.claimNotifications()
        let batch = try await store.settle([
            .notification(work[0], .event(.consentRevoked)),
            .notification(work[1], .postponed(until: .start + .minutes(1))),
            .notification(work[2], .rejected(.expired, detail: "")),
            .notification(work[3], .event(.consentRevoked)),
        ])
        #expect(batch.results == [.notification(.applied), .postponed, .quarantined(.expired), .notification(.duplicate)])
        let user = CredentialID(clientID: "app", userID: "user")
        let change = CredentialChange.state(from: nil, to: .revoked, reason: .consentRevoked, occurredAt: .start)
        let told = Announcement(app: "example", credential: user, change: change, source: .notification, tokenID: "jti")
        #expect(batch.announcements == [told])
    }

    @Test func anEmptyBatchIsNothing() async throws {
        let batch = try await store.settle([])
        #expect(batch.results.isEmpty && batch.announcements.isEmpty && batch.evicted == 0)
    }
}
