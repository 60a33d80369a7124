// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// No flood of the open endpoint fills the disk, and the store never evicts a notification that Apple signed.
@Suite(.schemas, .timeLimit(.minutes(10))) struct QuarantineRingTests {
    private static let longest = 10_000
    private static let largest = 64 << 20

    /// Receives notifications and rejects them.
    private func reject(
        _ count: Int,
        _ reason: RejectionReason,
        bytes: Int = 3,
        in store: StoreUnderTest
    ) async throws -> SettlementChanges {
        try await store.receive(count, bytes: bytes)
        var work: [ClaimedNotification] = []
        // A claim takes long ones in portions.
        while work.count < count { work += try await store.claimNotifications(upTo: count - work.count) }
        return try await store.settle(work.map { .notification($0, .rejected(reason, detail: "")) })
    }

    @Test(arguments: StoreKind.allCases)
    func isShortByNumber(_ kind: StoreKind) async throws {
        let store = try kind.make()
        #expect(try await reject(2, .wrongAudience, in: store).evicted == 0)
        #expect(try await reject(Self.longest, .malformed, in: store).evicted == 0)
        let first = try await store.column("SELECT MIN(id) FROM notification_quarantine WHERE reason = 'malformed'")[0].integer
        #expect(try await reject(7, .badSignature, in: store).evicted == 7)
        #expect(try await reject(3, .expired, in: store).evicted == 0)

        #expect(try await store.count("notification_quarantine WHERE reason = 'malformed'") == Int64(Self.longest) - 7)
        #expect(try await store.count("notification_quarantine WHERE reason = 'bad_signature'") == 7)
        #expect(try await store.count("notification_quarantine WHERE reason = 'wrong_audience'") == 2)
        #expect(try await store.count("notification_quarantine WHERE reason = 'expired'") == 3)
        let oldest = try await store.column("SELECT MIN(id) FROM notification_quarantine WHERE reason = 'malformed'")[0].integer
        #expect(oldest == first.map { $0 + 7 })
    }

    /// Apple may have signed them, and the key may still come. A ring of their own bounds them, because anybody can invent keys.
    @Test(arguments: StoreKind.allCases)
    func aFloodOfForgeriesEvictsNoneThatWaitsForItsKey(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let waiting = "notification_quarantine WHERE reason = 'unknown_key'"
        #expect(try await reject(5, .unknownKey, in: store).evicted == 0)
        #expect(try await reject(Self.longest, .badSignature, in: store).evicted == 0)
        #expect(try await reject(9, .malformed, in: store).evicted == 9)
        #expect(try await store.count(waiting) == 5)

        #expect(try await reject(Self.longest, .unknownKey, in: store).evicted == 5)
        #expect(try await store.count(waiting) == Int64(Self.longest))
        #expect(try await store.count("notification_quarantine") == Int64(Self.longest) * 2)
    }

    @Test(arguments: StoreKind.allCases)
    func isShortBySize(_ kind: StoreKind) async throws {
        let store = try kind.make()
        #expect(try await reject(Self.largest / 65_536, .badSignature, bytes: 65_536, in: store).evicted == 0)
        #expect(try await reject(1, .badSignature, bytes: 1, in: store).evicted == 1)
        #expect(try await reject(1, .badSignature, bytes: 65_535, in: store).evicted == 0)
        #expect(try await reject(1, .badSignature, bytes: 1, in: store).evicted == 1)
    }
}
