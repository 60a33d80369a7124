// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// Operators' commands on the quarantine.
@Suite(.schemas, .timeLimit(.minutes(10))) struct QuarantineDeskTests {
    private func quarantine(_ reasons: [RejectionReason], in store: StoreUnderTest) async throws {
        for (index, reason) in reasons.enumerated() {
            try await store.receive("payload \(index)\0!", at: .start - .minutes(index))
            let work = try await store.claimNotifications()[0]
            _ = try await store.settle(.notification(work, .rejected(reason, detail: "detail \(index)")))
        }
    }

    @Test(arguments: StoreKind.allCases)
    func isListedByPages(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await quarantine([.expired, .malformed, .expired], in: store)
        let ports = store.ports
        #expect(try await ports.quarantined(reason: nil, before: nil, upTo: 2).map(\.id) == [3, 2])
        #expect(try await ports.quarantined(reason: nil, before: 2, upTo: 2).map(\.id) == [1])
        #expect(try await ports.quarantined(reason: .expired, before: nil, upTo: 9).map(\.id) == [3, 1])
        #expect(try await ports.quarantinedIDs(reason: .expired, before: 3, upTo: 9) == [1])
        #expect(try await ports.quarantineCounts() == ["expired": 2, "malformed": 1])
        #expect(
            try await ports.quarantined(2)
                == QuarantinedNotification(
                    id: 2,
                    receivedAt: .start - .minutes(1),
                    rejectedAt: .start,
                    reason: "malformed",
                    detail: "detail 1",
                    payload: Array("payload 1\0!".utf8)
                )
        )
        #expect(try await ports.quarantined(4) == nil)
    }

    /// siwatch judges the expiry by the time of receipt.
    @Test(arguments: StoreKind.allCases)
    func whatIsRetriedKeepsItsBytesAndItsTime(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await quarantine([.expired, .malformed, .expired], in: store)
        #expect(try await store.ask(.retryQuarantined([1, 7, 2], receivedAt: nil)) == .quarantine(moved: 2, missing: [7]))
        let claimed = try await store.claimNotifications()
        #expect(claimed.map(\.receivedAt) == [.start, .start - .minutes(1)])
        #expect(claimed[1].payload == Array("payload 1\0!".utf8))
        #expect(try await store.count("notification_quarantine") == 1)
        #expect(try await store.ports.queues()[0].depth == 2)
    }

    @Test(arguments: StoreKind.allCases)
    func anotherTimeMayBeGiven(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await quarantine([.expired], in: store)
        let time = Timestamp.start - .days(3)
        #expect(try await store.ask(.retryQuarantined([1], receivedAt: time)) == .quarantine(moved: 1, missing: []))
        #expect(try await store.claimNotifications().map(\.receivedAt) == [time])
    }

    /// A request is carried out in full or not at all: the queue refuses such a time.
    @Test(arguments: StoreKind.allCases)
    func aTimeThatNoTableTakesIsRefused(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await quarantine([.expired, .malformed], in: store)
        let answer = try await store.ask(.retryQuarantined([2, 1], receivedAt: Timestamp(milliseconds: 1)))
        guard case .refused? = answer else {
            Issue.record("\(String(describing: answer))")
            return
        }
        #expect(try await store.count("notification_quarantine") == 2)
        #expect(try await store.count("notification_queue") == 0)
    }

    /// An id on an operator's screen must never come to name another row.
    @Test(arguments: StoreKind.allCases)
    func anIdIsNeverUsedAgain(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await quarantine([.malformed], in: store)
        #expect(try await store.ask(.dropQuarantined([1])) == .quarantine(moved: 1, missing: []))
        #expect(try await store.ask(.dropQuarantined([1])) == .quarantine(moved: 0, missing: [1]))
        try await quarantine([.malformed], in: store)
        #expect(try await store.ports.quarantined(reason: nil, before: nil, upTo: 9).map(\.id) == [2])
    }

    /// The store knows the size of the ring of rubbish without counting.
    @Test(arguments: StoreKind.allCases)
    func theRingCountsWhatLeaves(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await quarantine([.malformed, .expired, .badSignature, .malformed], in: store)
        _ = try await store.ask(.retryQuarantined([1], receivedAt: nil))
        _ = try await store.ask(.dropQuarantined([2, 3]))
        #expect(try await store.column("SELECT value FROM counter WHERE name = 'quarantine_unsigned_rows'") == [1])
        #expect(try await store.column("SELECT value FROM counter WHERE name = 'quarantine_unsigned_bytes'") == [11])
    }
}
