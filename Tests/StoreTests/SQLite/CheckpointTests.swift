// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

/// The log stays short without another process's checkpoint.
@Suite(.eachStore, .on(.file)) struct CheckpointTests: ConformanceSuite {
    private func logPages() throws -> Int {
        let size = try FileManager.default.attributesOfItem(atPath: store.file.path + "-wal")[.size] as? Int ?? 0
        return size / 4120
    }

    private func work(on store: StoreUnderTest? = nil, rounds: Int) async throws {
        let store = store ?? self.store
        for _ in 0..<rounds {
            try await store.receive(200, bytes: 1000)
            let work = try await store.claimNotifications(upTo: 200)
            _ = try await store.settle(work.map { .notification($0, .rejected(.malformed, detail: "")) })
        }
    }

    /// Shorter than 1,000 pages, where a backend that forgot the PRAGMA would start a checkpoint.
    @Test func theLogIsShortHoweverMuchIsWritten() async throws {
        try await work(rounds: 25)
        #expect(try logPages() < 1000)
        #expect(try await store.count("notification_quarantine") == 5000)
        #expect(try await store.isIntact)
    }

    /// A lasting reader holds the log back. Nothing fails, and siwatch can reuse the log after the reader has gone.
    @Test func aReaderInTheWayMeansLater() async throws {
        try await work(rounds: 1)
        let reader = try OpenTransaction(.deferred, at: store.file.path)
        try await work(rounds: 10)
        #expect(try logPages() > Checkpointer.threshold)
        #expect(try store.sqlite.checkpointer?.truncateLog(waiting: .zero) == false)

        try reader.end()
        #expect(try store.sqlite.checkpointer?.truncateLog(waiting: .zero) == true)
        #expect(try logPages() == 0)
        #expect(try await store.count("notification_quarantine") == 2200)
    }

    @Test func aCleanStopLeavesOneFile() async throws {
        let file = try TemporaryFile()
        defer { file.remove() }
        let store = try SQLiteStore.open(DatabaseFile(path: file.path))
        try store.register([AppClients(name: "example", clientIDs: ["app"])])
        try store.close()
        #expect(try file.contents().keys.sorted() == ["siwatch.sqlite"])
    }

    @Test func ourOwnCheckpointsAreNotForeign() async throws {
        try await work(rounds: 25)
        #expect(try store.sqlite.checkpointer?.truncateLog() == true)
        try await work(rounds: 5)
        #expect(store.sqlite.takeForeignCheckpoints() == 0)
    }

    /// The first writer to an emptied log may give it a random salt.
    @Test func anObedientBackendAfterAnEmptiedLogIsNotForeign() async throws {
        for _ in 1...5 {
            #expect(try store.sqlite.checkpointer?.truncateLog() == true)
            let door = try SQLiteDoor(asBackendOf: store.file.path)
            try await door.run("INSERT INTO notification_queue (payload) VALUES ('{}')", [])
            #expect(store.sqlite.takeForeignCheckpoints() == 0)
        }
    }

    /// A backend that forgot the PRAGMA writes the log back when it closes its connection, or after a thousand pages.
    @Test func whatOthersWriteBackIsCounted() async throws {
        let store = try StoreUnderTest(TemporaryFile())
        try await work(on: store, rounds: 1)
        _ = store.sqlite.takeForeignCheckpoints()
        for number in 1...3 {
            _ = try await store.rows("PRAGMA wal_checkpoint(RESTART)")
            try await store.receive()
            if number != 2 { #expect(store.sqlite.takeForeignCheckpoints() == (number == 1 ? 1 : 2)) }
        }
        #expect(store.sqlite.takeForeignCheckpoints() == 0)
    }
}
