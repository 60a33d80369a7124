// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct UnknownKeyTests: ConformanceSuite {
    private static let found = Timestamp.start + .hours(2)

    private func key(_ id: String) -> SigningKeyRecord { SigningKeyRecord(keyID: id, jwk: "{}", lastSeenAt: Self.found) }

    private func quarantine(_ payload: String, _ reason: RejectionReason, _ detail: String) async throws {
        try await store.receive(payload, at: .start)
        try await store.settleNotifications(as: .rejected(reason, detail: detail))
    }

    @Test func leavesTheQuarantineForTheQueue() async throws {
        try await quarantine("1", .unknownKey, "new")
        try await quarantine("2", .unknownKey, "another")
        try await quarantine("3", .badSignature, "new")
        try await quarantine("4\0", .unknownKey, "new")
        try await store.ports.remember([key("new"), key("unused")], forgetting: [])

        let work = try await store.claimNotifications(at: Self.found)
        #expect(work.map(\.payload) == [Array("1".utf8), Array("4\0".utf8)])
        #expect(work.map(\.receivedAt) == [.start, .start])
        #expect(work.map(\.claim.attempts) == [1, 1])
        #expect(try await store.column("SELECT payload FROM notification_quarantine ORDER BY id") == ["2", "3"])
    }

    /// They no longer count against their ring.
    @Test func makesRoomInTheRing() async throws {
        func reject(_ count: Int, _ reason: RejectionReason) async throws -> Int {
            try await store.receive(count)
            let work = try await store.claimNotifications(upTo: count)
            return try await store.settle(work.map { .notification($0, .rejected(reason, detail: "new")) }).evicted
        }
        #expect(try await reject(100, .unknownKey) == 0)
        try await store.ports.remember([key("new")], forgetting: [])
        #expect(try await store.claimNotifications(upTo: 1_000).count == 100)
        #expect(try await reject(10_000, .unknownKey) == 0)
        #expect(try await reject(1, .unknownKey) == 1)
    }

    /// A key that was known before wakes nobody.
    @Test(arguments: [false, true]) func thoseThatStillWaitAreDueAtOnce(_ wasKnown: Bool) async throws {
        if wasKnown { try await store.ports.remember([key("new")], forgetting: []) }
        try await store.receive("waits")
        try await store.settleNotifications(as: .postponed(until: .start + .minutes(1)))
        #expect(try await store.claimNotifications().isEmpty)
        try await store.ports.remember([key("new")], forgetting: [])
        #expect(try await store.claimNotifications().map(\.text) == (wasKnown ? [] : ["waits"]))
    }

    /// The row of the key came before the fetch: another replica's, or one that somebody planted.
    @Test func whatWasPutAsideAfterTheRowOfTheKeyComesBack() async throws {
        try await store.ports.remember([key("new")], forgetting: [])
        try await quarantine("1", .unknownKey, "new")
        try await store.ports.remember([key("new")], forgetting: [])
        #expect(try await store.claimNotifications(at: Self.found).map(\.text) == ["1"])
        #expect(try await store.count("notification_quarantine") == 0)
    }

    @Test func whatSomebodyHoldsStaysTheirs() async throws {
        try await store.receive()
        let work = try await store.claimNotifications()[0]
        try await store.ports.remember([key("new")], forgetting: [])
        #expect(try await store.claimNotifications().isEmpty)
        #expect(try await store.settle(.notification(work, .event(.consentRevoked))) == .notification(.applied))
    }
}

/// Apple's keys survive restarts and outages, and the store forgets the ones that it is told to.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct SigningKeyTests: ConformanceSuite {
    @Test func areRemembered() async throws {
        let later = Timestamp.start + .days(1)
        func key(_ id: String, _ jwk: String, seen: Timestamp) -> SigningKeyRecord {
            SigningKeyRecord(keyID: id, jwk: jwk, lastSeenAt: seen, proof: Array("\(jwk)\0".utf8))
        }
        #expect(try await store.ports.signingKeys().isEmpty)
        try await store.ports.remember([key("b", "1", seen: .start), key("a", "2", seen: .start)], forgetting: [])
        try await store.ports.remember([key("b", "3", seen: later), key("c", "4", seen: later)], forgetting: [])
        let (a, b, c) = (key("a", "2", seen: .start), key("b", "3", seen: later), key("c", "4", seen: later))
        #expect(try await store.ports.signingKeys() == [a, b, c])

        // The store has another `b` by now.
        try await store.ports.remember([], forgetting: [key("b", "1", seen: .start), c])
        #expect(try await store.ports.signingKeys() == [a, b])
        try await store.ports.remember([key("b", "5", seen: later)], forgetting: [b, a])
        #expect(try await store.ports.signingKeys() == [key("b", "5", seen: later)])
    }
}
