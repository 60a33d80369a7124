// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct QuarantineTests: ConformanceSuite {
    @Test func keepsTheReason() async throws {
        for reason in RejectionReason.allCases {
            try await store.receive("rubbish", at: .start - .minutes(1))
            #expect(try await store.settleNotifications(as: .rejected(reason, detail: "a few words")) == [.quarantined(reason)])
        }
        let rows = try await store.rows("SELECT payload, received_at, rejected_at, reason, detail FROM notification_quarantine ORDER BY id")
        let dates = [SQLValue.at(.start - .minutes(1)), .at(.start)]
        #expect(rows == RejectionReason.allCases.map { ["rubbish"] + dates + [.text($0.rawValue), "a few words"] })
        #expect(try await store.count("notification_queue") == 0)
    }

    @Test func keepsEveryByte() async throws {
        let payloads: [[UInt8]] = [
            Array("before\0after".utf8), [0], [0xff, 0xfe, 0x00, 0xc3], [0xed, 0xa0, 0x80], Array("\u{feff}e\u{301}".utf8),
        ]
        for payload in payloads {
            try await store.receive(payload)
            let work = try await store.claimNotifications()[0]
            #expect(work.payload == payload)
            _ = try await store.settle(.notification(work, .rejected(.malformed, detail: "")))
        }
        let kept = try await store.column("SELECT CAST(payload AS BLOB) FROM notification_quarantine ORDER BY id")
        #expect(kept == payloads.map(SQLValue.bytes))
    }

    @Test func theLogKeepsEveryByte() async throws {
        let payload = Array("jws\0and more".utf8)
        try await store.receive(payload)
        try await store.settleNotifications(as: .event(.consentRevoked))
        #expect(try await store.column("SELECT CAST(payload AS BLOB) FROM notification_log") == [.bytes(payload)])
    }
}

/// No flood of the open endpoint fills the disk, and the store never evicts a notification that Apple signed.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct QuarantineRingTests: ConformanceSuite {
    private static let longest = 10_000
    private static let largest = 64 << 20

    private func reject(_ count: Int, _ reason: RejectionReason, bytes: Int = 3) async throws -> SettlementChanges {
        try await store.receive(count, bytes: bytes)
        var work: [ClaimedNotification] = []
        // A claim takes long ones in portions.
        while work.count < count { work += try await store.claimNotifications(upTo: count - work.count) }
        return try await store.settle(work.map { .notification($0, .rejected(reason, detail: "")) })
    }

    @Test func isShortByNumber() async throws {
        #expect(try await reject(2, .wrongAudience).evicted == 0)
        #expect(try await reject(Self.longest, .malformed).evicted == 0)
        let first = try await store.column("SELECT MIN(id) FROM notification_quarantine WHERE reason = 'malformed'")[0].integer
        #expect(try await reject(7, .badSignature).evicted == 7)
        #expect(try await reject(3, .expired).evicted == 0)

        #expect(try await store.count("notification_quarantine WHERE reason = 'malformed'") == Int64(Self.longest) - 7)
        #expect(try await store.count("notification_quarantine WHERE reason = 'bad_signature'") == 7)
        #expect(try await store.count("notification_quarantine WHERE reason = 'wrong_audience'") == 2)
        #expect(try await store.count("notification_quarantine WHERE reason = 'expired'") == 3)
        let oldest = try await store.column("SELECT MIN(id) FROM notification_quarantine WHERE reason = 'malformed'")[0].integer
        #expect(oldest == first.map { $0 + 7 })
    }

    /// Apple may have signed them, and the key may still come. A ring of their own bounds them, because anybody can invent keys.
    @Test func aFloodOfForgeriesEvictsNoneThatWaitsForItsKey() async throws {
        let waiting = "notification_quarantine WHERE reason = 'unknown_key'"
        #expect(try await reject(5, .unknownKey).evicted == 0)
        #expect(try await reject(Self.longest, .badSignature).evicted == 0)
        #expect(try await reject(9, .malformed).evicted == 9)
        #expect(try await store.count(waiting) == 5)

        #expect(try await reject(Self.longest, .unknownKey).evicted == 5)
        #expect(try await store.count(waiting) == Int64(Self.longest))
        #expect(try await store.count("notification_quarantine") == Int64(Self.longest) * 2)
    }

    @Test func isShortBySize() async throws {
        #expect(try await reject(Self.largest / 65_536, .badSignature, bytes: 65_536).evicted == 0)
        #expect(try await reject(1, .badSignature, bytes: 1).evicted == 1)
        #expect(try await reject(1, .badSignature, bytes: 65_535).evicted == 0)
        #expect(try await reject(1, .badSignature, bytes: 1).evicted == 1)
    }
}

@Suite(.eachStore, .timeLimit(.minutes(10))) struct QuarantineDeskTests: ConformanceSuite {
    private func quarantine(_ reasons: [RejectionReason]) async throws {
        for (index, reason) in reasons.enumerated() {
            try await store.receive("payload \(index)\0!", at: .start - .minutes(index))
            try await store.settleNotifications(as: .rejected(reason, detail: "detail \(index)"))
        }
    }

    @Test func isListedByPages() async throws {
        try await quarantine([.expired, .malformed, .expired])
        let ports = store.ports
        #expect(try await ports.quarantined(reason: nil, before: nil, upTo: 2).map(\.id) == [3, 2])
        #expect(try await ports.quarantined(reason: nil, before: 2, upTo: 2).map(\.id) == [1])
        #expect(try await ports.quarantined(reason: .expired, before: nil, upTo: 9).map(\.id) == [3, 1])
        #expect(try await ports.quarantinedIDs(reason: .expired, before: 3, upTo: 9) == [1])
        #expect(try await ports.quarantineCounts() == ["expired": 2, "malformed": 1])
        let second = try #require(try await ports.quarantined(2))
        #expect(second.id == 2 && second.receivedAt == .start - .minutes(1) && second.rejectedAt == .start)
        #expect(second.reason == "malformed" && second.detail == "detail 1" && second.payload == Array("payload 1\0!".utf8))
        #expect(try await ports.quarantined(4) == nil)
    }

    /// siwatch judges the expiry by the time of receipt.
    @Test func whatIsRetriedKeepsItsBytesAndItsTime() async throws {
        try await quarantine([.expired, .malformed, .expired])
        #expect(try await store.ask(.retryQuarantined([1, 7, 2], receivedAt: nil)) == .quarantine(moved: 2, missing: [7]))
        let claimed = try await store.claimNotifications()
        #expect(claimed.map(\.receivedAt) == [.start, .start - .minutes(1)])
        #expect(claimed[1].payload == Array("payload 1\0!".utf8))
        #expect(try await store.count("notification_quarantine") == 1)
        #expect(try await store.ports.queues()[0].depth == 2)
    }

    @Test func anotherTimeMayBeGiven() async throws {
        try await quarantine([.expired])
        let time = Timestamp.start - .days(3)
        #expect(try await store.ask(.retryQuarantined([1], receivedAt: time)) == .quarantine(moved: 1, missing: []))
        #expect(try await store.claimNotifications().map(\.receivedAt) == [time])
    }

    /// A request is carried out in full or not at all: the queue refuses such a time.
    @Test func aTimeThatNoTableTakesIsRefused() async throws {
        try await quarantine([.expired, .malformed])
        let answer = try await store.ask(.retryQuarantined([2, 1], receivedAt: Timestamp(milliseconds: 1)))
        guard case .refused? = answer else {
            Issue.record("\(String(describing: answer))")
            return
        }
        #expect(try await store.count("notification_quarantine") == 2)
        #expect(try await store.count("notification_queue") == 0)
    }

    /// An id on an operator's screen must never come to name another row.
    @Test func anIdIsNeverUsedAgain() async throws {
        try await quarantine([.malformed])
        #expect(try await store.ask(.dropQuarantined([1])) == .quarantine(moved: 1, missing: []))
        #expect(try await store.ask(.dropQuarantined([1])) == .quarantine(moved: 0, missing: [1]))
        try await quarantine([.malformed])
        #expect(try await store.ports.quarantined(reason: nil, before: nil, upTo: 9).map(\.id) == [2])
    }

    /// The store knows the size of the ring of rubbish without counting.
    @Test func theRingCountsWhatLeaves() async throws {
        try await quarantine([.malformed, .expired, .badSignature, .malformed])
        _ = try await store.ask(.retryQuarantined([1], receivedAt: nil))
        _ = try await store.ask(.dropQuarantined([2, 3]))
        #expect(try await store.column("SELECT value FROM counter WHERE name = 'quarantine_unsigned_rows'") == [1])
        #expect(try await store.column("SELECT value FROM counter WHERE name = 'quarantine_unsigned_bytes'") == [11])
    }
}
