// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// How long the queues are, without counting them.
@Suite struct QueueStatusTests {
    private func depths(_ store: StoreUnderTest) async throws -> [String: Int] {
        Dictionary(uniqueKeysWithValues: try await store.ports.queues().map { ($0.queue, $0.depth) })
    }

    @Test(arguments: StoreKind.allCases)
    func followsWhatComesAndGoes(_ kind: StoreKind) async throws {
        let store = try kind.make()
        #expect(try await depths(store) == ["notification": 0, "grant": 0, "revocation": 0])
        try await store.receive(3)
        try await store.grant(token: "r")
        try await store.grant(code: "c")
        try await store.requestRevocation()
        #expect(try await depths(store) == ["notification": 3, "grant": 2, "revocation": 1])

        let work = try await store.claimNotifications()
        _ = try await store.settle([
            .notification(work[0], .event(.emailEnabled(nil))), .notification(work[1], .rejected(.malformed, detail: "")),
            .notification(work[2], .postponed(until: .start + .minutes(1))),
        ])
        try await store.settleGrants(at: .start)
        #expect(try await depths(store) == ["notification": 1, "grant": 1, "revocation": 1])
        #expect(try await store.ports.queues().map(\.settled) == [2, 1, 0])
    }

    @Test(arguments: StoreKind.allCases)
    func knowsTheOldestRow(_ kind: StoreKind) async throws {
        let store = try kind.make()
        #expect(try await store.ports.queues().map(\.oldest) == [nil, nil, nil])
        for minute in 1...3 {
            try await store.receive(at: .start + .minutes(minute))
            try await store.grant("user\(minute)", at: .start + .minutes(minute + 10))
        }
        #expect(
            try await store.ports.queues() == [
                QueueStatus(queue: "notification", depth: 3, oldest: (.start + .minutes(1)).milliseconds),
                QueueStatus(queue: "grant", depth: 3, oldest: (.start + .minutes(11)).milliseconds),
                QueueStatus(queue: "revocation", depth: 0, oldest: nil),
            ]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func aKeyThatFreesRowsLengthensTheQueue(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.receive(2)
        let work = try await store.claimNotifications()
        _ = try await store.settle(work.map { .notification($0, .rejected(.unknownKey, detail: "new")) })
        #expect(try await depths(store)["notification"] == 0)
        let key = SigningKeyRecord(keyID: "new", jwk: "{}", firstSeenAt: .start, lastSeenAt: .start)
        try await store.ports.remember([key], fetchedAt: .start)
        #expect(try await depths(store)["notification"] == 2)
    }
}
