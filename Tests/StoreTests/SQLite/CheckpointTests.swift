// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

/// The log stays short without another process's checkpoint.
@Suite struct CheckpointTests {
    private func logPages(_ file: FileUnderTest) throws -> Int {
        let size = try FileManager.default.attributesOfItem(atPath: file.file.path + "-wal")[.size] as? Int ?? 0
        return size / 4120
    }

    private func work(_ file: FileUnderTest, rounds: Int) async throws {
        for _ in 0..<rounds {
            try await file.store.receive(200, bytes: 1000)
            let work = try await file.store.claimNotifications(upTo: 200)
            _ = try await file.store.settle(work.map { .notification($0, .rejected(.malformed, detail: "")) })
        }
    }

    /// Shorter than 1,000 pages, where a backend that forgot the PRAGMA would start a checkpoint.
    @Test func theLogIsShortHoweverMuchIsWritten() async throws {
        let file = try FileUnderTest()
        try await work(file, rounds: 25)
        #expect(try logPages(file) < 1000)
        #expect(try await file.store.count("notification_quarantine") == 5000)
        #expect(try await file.isIntact)
    }

    /// A lasting reader holds the log back. Nothing fails, and siwatch can reuse the log after the reader has gone.
    @Test func aReaderInTheWayMeansLater() async throws {
        let file = try FileUnderTest()
        try await work(file, rounds: 1)
        let reader = try OpenTransaction(.deferred, at: file.file.path)
        try await work(file, rounds: 10)
        #expect(try logPages(file) > Checkpointer.threshold)
        #expect(try file.sqlite.checkpointer?.truncateLog(waiting: .zero) == false)

        try reader.end()
        #expect(try file.sqlite.checkpointer?.truncateLog(waiting: .zero) == true)
        #expect(try logPages(file) == 0)
        #expect(try await file.store.count("notification_quarantine") == 2200)
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
        let file = try FileUnderTest()
        try await work(file, rounds: 25)
        #expect(try file.sqlite.checkpointer?.truncateLog() == true)
        try await work(file, rounds: 5)
        #expect(file.sqlite.takeForeignCheckpoints() == 0)
    }

    /// The first writer to an emptied log may give it a random salt.
    @Test func anObedientBackendAfterAnEmptiedLogIsNotForeign() async throws {
        let file = try FileUnderTest()
        for _ in 1...5 {
            #expect(try file.sqlite.checkpointer?.truncateLog() == true)
            let door = try SQLiteDoor(asBackendOf: file.file.path)
            try await door.run("INSERT INTO notification_queue (payload) VALUES ('{}')", [])
            #expect(file.sqlite.takeForeignCheckpoints() == 0)
        }
    }

    /// A backend that forgot the PRAGMA writes the log back when it closes its connection, or after a thousand pages.
    @Test func whatOthersWriteBackIsCounted() async throws {
        let file = try FileUnderTest(TemporaryFile())
        try await work(file, rounds: 1)
        _ = file.sqlite.takeForeignCheckpoints()
        for number in 1...3 {
            _ = try await file.store.rows("PRAGMA wal_checkpoint(RESTART)")
            try await file.store.receive()
            if number != 2 { #expect(file.sqlite.takeForeignCheckpoints() == (number == 1 ? 1 : 2)) }
        }
        #expect(file.sqlite.takeForeignCheckpoints() == 0)
    }
}
