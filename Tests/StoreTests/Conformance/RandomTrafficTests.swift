// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import DaemonHarness
import Testing

/// With any rows in any order and any crash in between, the store loses nothing, and the counters match the rows.
@Suite(.schemas, .timeLimit(.minutes(10))) struct RandomTrafficTests {
    @Test(arguments: StoreKind.allCases, 1...Length.of(2, full: 20) as ClosedRange<UInt64>)
    func everyRowIsSomewhere(_ kind: StoreKind, _ seed: UInt64) async throws {
        let store = try kind.make()
        var traffic = RandomTraffic(store: store, seed: seed)
        for _ in 0..<40 {
            try await traffic.step()
            try await expectEverythingToAddUp(store, traffic)
        }
        try await traffic.drain()
        try await expectEverythingToAddUp(store, traffic)
        #expect(try await store.count("notification_queue") == 0)
        #expect(try await store.count("grant_queue") == 0)
    }

    private func expectEverythingToAddUp(_ store: StoreUnderTest, _ traffic: RandomTraffic) async throws {
        let pending = (try await store.count("notification_queue"), try await store.count("grant_queue"))
        let logged = (try await store.count("notification_log"), try await store.count("grant_log"))
        let quarantined = try await store.count("notification_quarantine")
        #expect(traffic.received == pending.0! + logged.0! + quarantined! + traffic.evicted)
        #expect(traffic.granted == pending.1! + logged.1!)

        #expect(try await store.ports.queues().map { Int64($0.depth) } == [pending.0, pending.1, 0])
        let counted = try await store.rows("SELECT app, state, COUNT(*) FROM credential_state GROUP BY app, state ORDER BY app, state")
        let counts = try await store.ports.credentialCounts().filter { $0.count != 0 }
        #expect(counts.map { [.text($0.app), .text($0.state), .integer(Int64($0.count))] } == counted)
    }
}
