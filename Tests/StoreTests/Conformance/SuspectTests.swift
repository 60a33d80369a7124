// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// A row whose claims end without a settlement may be the one that kills the process.
@Suite(.schemas, .timeLimit(.minutes(10))) struct SuspectTests {
    /// Claims all due rows and dies, this many times.
    ///
    /// - Returns: the end of the last lease.
    private func crash(_ store: StoreUnderTest, times: Int, from start: Timestamp = .start) async throws -> Timestamp {
        var now = start
        for _ in 0..<times {
            _ = try await store.claimNotifications(at: now)
            _ = try await store.claimGrants(at: now)
            now = now + StoreUnderTest.lease
        }
        return now
    }

    @Test(arguments: StoreKind.allCases)
    func isClaimedAloneAfterTwoAttempts(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.receive(3)
        try await store.grant("one")
        try await store.grant("two")
        let now = try await crash(store, times: 2)
        for _ in 1...3 { #expect(try await store.claimNotifications(at: now).map(\.claim.attempts) == [3]) }
        for _ in 1...2 { #expect(try await store.claimGrants(at: now).map(\.claim.attempts) == [3]) }
        #expect(try await store.claimNotifications(at: now).isEmpty)
    }

    @Test(arguments: StoreKind.allCases)
    func neverComesWithOthers(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.receive("suspect")
        let now = try await crash(store, times: 2)
        for number in 1...3 { try await store.receive("\(number)", at: now) }
        var rounds: [[String]] = []
        while case let claimed = try await store.claimNotifications(at: now), !claimed.isEmpty { rounds.append(claimed.map(\.text)) }
        #expect(rounds == [["1", "2", "3"], ["suspect"]])
    }

    @Test(arguments: StoreKind.allCases)
    func isPoisonAfterFiveAttempts(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.receive()
        try await store.grant()
        var now = try await crash(store, times: 4)
        #expect(try await store.claimNotifications(at: now).map(\.claim.isPoison) == [false])
        #expect(try await store.claimGrants(at: now).map(\.claim.isPoison) == [false])
        now = now + StoreUnderTest.lease
        let notification = try await store.claimNotifications(at: now)[0]
        let grant = try await store.claimGrants(at: now)[0]
        #expect(notification.claim.isPoison)
        #expect(grant.claim.isPoison)

        let settled = try await store.settle(
            [.notification(notification, .rejected(.poison, detail: "five times")), .grant(grant, .rejected(.poison))],
            at: now
        )
        #expect(settled.results == [.quarantined(.poison), .grant(.rejected, .poison)])
        #expect(
            try await store.rows("SELECT reason FROM notification_quarantine UNION ALL SELECT reason FROM grant_log") == [
                ["poison"], ["poison"],
            ]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func isASuspectNoLongerOnceItWasPutOff(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.receive()
        let now = try await crash(store, times: 4)
        let claimed = try await store.claimNotifications(at: now)[0]
        #expect(try await store.settle(.notification(claimed, .postponed(until: now)), at: now) == .postponed)
        #expect(try await store.claimNotifications(at: now).map(\.claim.attempts) == [1])
    }
}
