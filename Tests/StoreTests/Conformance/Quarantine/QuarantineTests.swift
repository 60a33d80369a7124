// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// The store keeps rejected rows, byte by byte, with the reason.
@Suite(.schemas, .timeLimit(.minutes(10))) struct QuarantineTests {
    @Test(arguments: StoreKind.allCases, RejectionReason.allCases)
    func keepsTheReason(_ kind: StoreKind, _ reason: RejectionReason) async throws {
        let store = try kind.make()
        try await store.receive("rubbish", at: .start - .minutes(1))
        let work = try await store.claimNotifications()[0]
        #expect(try await store.settle(.notification(work, .rejected(reason, detail: "a few words"))) == .quarantined(reason))
        #expect(
            try await store.rows("SELECT payload, received_at, rejected_at, reason, detail FROM notification_quarantine")
                == [["rubbish", .at(.start - .minutes(1)), .at(.start), .text(reason.rawValue), "a few words"]]
        )
        #expect(try await store.count("notification_queue") == 0)
    }

    @Test(
        arguments: StoreKind.allCases,
        [Array("before\0after".utf8), [0], [0xff, 0xfe, 0x00, 0xc3], [0xed, 0xa0, 0x80], Array("\u{feff}e\u{301}".utf8)]
    )
    func keepsEveryByte(_ kind: StoreKind, _ payload: [UInt8]) async throws {
        let store = try kind.make()
        try await store.receive(payload)
        let work = try await store.claimNotifications()[0]
        #expect(work.payload == payload)
        _ = try await store.settle(.notification(work, .rejected(.malformed, detail: "")))
        #expect(try await store.column("SELECT CAST(payload AS BLOB) FROM notification_quarantine") == [.bytes(payload)])
    }

    /// An event keeps its bytes too.
    @Test(arguments: StoreKind.allCases)
    func theLogKeepsEveryByte(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let payload = Array("jws\0and more".utf8)
        try await store.receive(payload)
        let work = try await store.claimNotifications()[0]
        _ = try await store.settle(.notification(work, .event(.consentRevoked)))
        #expect(try await store.column("SELECT CAST(payload AS BLOB) FROM notification_log") == [.bytes(payload)])
    }
}
