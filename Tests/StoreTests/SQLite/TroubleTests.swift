// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB
import Testing

@testable import SQLiteStore

/// The writer's error when SQLite cannot write. The database then has nothing of the batch.
@Suite struct TroubleTests {
    @Test func aFullDiskHealsWhenSpaceReturns() async throws {
        let file = try FileUnderTest()
        try await file.store.receive(50, bytes: 10_000)
        let work = try await file.store.claimNotifications()
        let settlements = work.map { Settlement.notification($0, .event(.consentRevoked, "user\($0.id)")) }
        try await file.setPragma("max_page_count = \(file.pragma("page_count") ?? 0)")
        #expect(await failure { try await file.store.settle(settlements) } == "full")
        #expect(try await file.store.count("notification_queue") == 50)
        #expect(try await file.store.count("notification_log") == 0)
        #expect(try await file.store.count("credential_change") == 0)

        try await file.setPragma("max_page_count = 1000000")
        #expect(try await file.store.settle(settlements).results == Array(repeating: .notification(.applied), count: 50))
    }

    @Test func theHolderOfTheLockGoesFirst() async throws {
        let file = try FileUnderTest()
        try await file.store.receive()
        let work = try await file.store.claimNotifications()[0]
        let backend = try OpenTransaction(.immediate, at: file.file.path)
        try await file.setPragma("busy_timeout = 0")
        #expect(await failure { try await file.store.settle(.notification(work, .event(.consentRevoked))) } == "busy")
        try backend.end()
        #expect(try await file.store.settle(.notification(work, .event(.consentRevoked))) == .notification(.applied))
    }

    @Test func whatBreaksARuleIsRefusedAsAWhole() async throws {
        let file = try FileUnderTest()
        try await file.store.run(
            "CREATE TRIGGER rule BEFORE INSERT ON credential_change WHEN NEW.user_id = 'bad' BEGIN SELECT RAISE(ABORT, 'a rule'); END"
        )
        try await file.store.grant("good")
        try await file.store.grant("bad")
        let work = try await file.store.claimGrants()
        let settlements = work.map { Settlement.grant($0, .acceptance(of: $0)) }
        #expect(await failure { try await file.store.settle(settlements) } == "refused")
        #expect(try await file.store.count("credential_state") == 0)
        #expect(try await file.store.settle(settlements[0]) == .grant(.applied, nil))
        #expect(await failure { try await file.store.settle(settlements[1]) } == "refused")
    }

    @Test func aBrokenTableLeavesTheOutcomeOpen() async throws {
        let file = try FileUnderTest()
        try await file.store.receive()
        let work = try await file.store.claimNotifications()[0]
        try await file.store.run("DROP TABLE notification_log")
        #expect(await failure { try await file.store.settle(.notification(work, .event(.consentRevoked))) } == "outcomeUnknown")
        #expect(try await file.store.count("notification_queue") == 1)
    }

    @Test func whatMayOnlyBeReadIsNoPassingTrouble() async throws {
        let file = try FileUnderTest()
        let reader = try SQLiteStore.openForReading(DatabaseFile(path: file.file.path))
        #expect(await failure { try await reader.enqueue(notification: [1]) } == "readOnly")
        try reader.close()
    }

    /// A cancelled task writes nothing, and its claim runs out.
    @Test func whoIsCancelledCannotWrite() async throws {
        let file = try FileUnderTest()
        try await file.store.receive()
        let work = try await file.store.claimNotifications()[0]
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await file.store.settle(.notification(work, .event(.consentRevoked)))
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try await file.store.count("notification_queue") == 1)
    }

    private func failure(_ body: () async throws -> some Sendable) async -> String? {
        switch await #expect(throws: StoreError.self, performing: { _ = try await body() }) {
        case .busy: "busy"
        case .retry: "retry"
        case .unavailable: "unavailable"
        case .full: "full"
        case .refused: "refused"
        case .damaged: "damaged"
        case .readOnly: "readOnly"
        case .outcomeUnknown: "outcomeUnknown"
        case nil: nil
        }
    }
}
