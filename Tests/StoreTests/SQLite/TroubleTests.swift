// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB
import Testing

@testable import SQLiteStore

/// The writer's error when SQLite cannot write. The database then has nothing of the batch.
@Suite(.eachStore, .on(.file)) struct TroubleTests: ConformanceSuite {
    @Test func aFullDiskHealsWhenSpaceReturns() async throws {
        try await store.receive(50, bytes: 10_000)
        let work = try await store.claimNotifications()
        let settlements = work.map { Settlement.notification($0, .event(.consentRevoked, "user\($0.id)")) }
        try await store.setPragma("max_page_count = \(store.pragma("page_count") ?? 0)")
        #expect(await storeFailure { try await store.settle(settlements) } == "full")
        #expect(try await store.count("notification_queue") == 50)
        #expect(try await store.count("notification_log") == 0)
        #expect(try await store.count("credential_change") == 0)

        try await store.setPragma("max_page_count = 1000000")
        #expect(try await store.settle(settlements).results == Array(repeating: .notification(.applied), count: 50))
    }

    @Test func theHolderOfTheLockGoesFirst() async throws {
        try await store.receive()
        let work = try await store.claimNotifications()[0]
        let backend = try OpenTransaction(.immediate, at: store.file.path)
        try await store.setPragma("busy_timeout = 0")
        #expect(await storeFailure { try await store.settle(.notification(work, .event(.consentRevoked))) } == "busy")
        try backend.end()
        #expect(try await store.settle(.notification(work, .event(.consentRevoked))) == .notification(.applied))
    }

    @Test func whatBreaksARuleIsRefusedAsAWhole() async throws {
        try await store.run(
            "CREATE TRIGGER rule BEFORE INSERT ON credential_change WHEN NEW.user_id = 'bad' BEGIN SELECT RAISE(ABORT, 'a rule'); END"
        )
        try await store.grant("good")
        try await store.grant("bad")
        let work = try await store.claimGrants()
        let settlements = work.map { Settlement.grant($0, .acceptance(of: $0)) }
        #expect(await storeFailure { try await store.settle(settlements) } == "refused")
        #expect(try await store.count("credential_state") == 0)
        #expect(try await store.settle(settlements[0]) == .grant(.applied, nil))
        #expect(await storeFailure { try await store.settle(settlements[1]) } == "refused")
    }

    @Test func aBrokenTableLeavesTheOutcomeOpen() async throws {
        try await store.receive()
        let work = try await store.claimNotifications()[0]
        try await store.run("DROP TABLE notification_log")
        #expect(await storeFailure { try await store.settle(.notification(work, .event(.consentRevoked))) } == "outcomeUnknown")
        #expect(try await store.count("notification_queue") == 1)
    }

    @Test func whatMayOnlyBeReadIsNoPassingTrouble() async throws {
        let reader = try SQLiteStore.openForReading(DatabaseFile(path: store.file.path))
        #expect(await storeFailure { try await reader.append([.notification([1])], at: .start) } == "readOnly")
        try reader.close()
    }

    /// A cancelled task writes nothing, and its claim runs out.
    @Test func whoIsCancelledCannotWrite() async throws {
        try await store.receive()
        let work = try await store.claimNotifications()[0]
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await store.settle(.notification(work, .event(.consentRevoked)))
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try await store.count("notification_queue") == 1)
    }
}
