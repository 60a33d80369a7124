// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

@Suite struct CrashTests {
    /// Killed between the making of the file and the end of the migration.
    @Test func whileTheFileIsMade() async throws {
        let file = try TemporaryFile()
        defer { file.remove() }
        try DatabaseFile(path: file.path).createIfMissing()
        #expect(try DatabaseFile(path: file.path).inspect() == .none)
        _ = try StoreUnderTest(file.copy())

        let pool = try DatabasePool(path: file.path)
        #expect(try DatabaseFile(path: file.path).inspect() == .none)
        _ = try StoreUnderTest(file.copy())

        // The whole schema is in the log, and nothing of it in the file.
        try DatabaseFile(path: file.path).migrate(pool)
        let migrated = try StoreUnderTest(file.copy())
        #expect(try await migrated.signIn(token: "r") == .grant(.applied, nil))
        try pool.close()
    }

    /// Killed at a write to the log. The next migration goes on after the last whole step.
    @Test func atAnyWriteOfTheFirstMigration() throws {
        let file = try TemporaryFile()
        defer { file.remove() }
        try DatabaseFile(path: file.path).createIfMissing()
        let pool = try DatabasePool(path: file.path)
        try DatabaseFile(path: file.path).migrate(pool)
        let migrated = try file.copy()
        defer { migrated.remove() }
        try pool.close()
        let name = "siwatch.sqlite-wal"
        let log = try #require(try migrated.contents()[name])
        // A frame has 4,120 bytes.
        for size in stride(from: 0, through: log.count, by: 4120 * 7 + 2060) {
            let copy = try migrated.copy()
            defer { copy.remove() }
            try log.prefix(size).write(to: copy.folder.appending(path: name))
            let store = try SQLiteStore.open(DatabaseFile(path: copy.path))
            #expect(try store.sealedSecret(named: "key") { [1] } == [1])
            try store.close()
            #expect(try DatabaseFile(path: copy.path).firstDamage() == nil, "\(size) bytes")
        }
    }

    /// Somebody removes the database of a killed process, and not its log, which would destroy the new one.
    @Test func besideTheLogOfADatabaseThatIsGone() async throws {
        let old = try StoreUnderTest()
        try await old.insert(100, into: "notification_queue (payload)", "hex(randomblob(1000))")
        let file = try old.file.copy()
        try FileManager.default.removeItem(at: file.url)
        let new = try StoreUnderTest(file)
        #expect(try await new.isIntact)
        #expect(try await new.count("notification_queue") == 0)
        let names = try FileManager.default.contentsOfDirectory(atPath: file.folder.path)
        #expect(names.contains { $0.hasPrefix("siwatch.sqlite-wal.displaced-") }, "\(names)")
    }

    /// Killed before the new file had its name. No empty file is left, which would look like a database that was lost.
    @Test func beforeTheFileHasItsName() throws {
        let file = try TemporaryFile()
        defer { file.remove() }
        try Data("half".utf8).write(to: URL(filePath: file.path + ".new"))
        #expect(try DatabaseFile(path: file.path).inspect() == .none)
        try DatabaseFile(path: file.path).createIfMissing()
        #expect(DatabaseFile(path: file.path).hasOurMark)
        #expect(try file.contents().keys.sorted() == ["siwatch.sqlite"])
    }

    /// Killed during a migration by a newer siwatch. The file's header is older than the log's content.
    @Test func whileAnotherVersionMigrated() throws {
        let file = try TemporaryFile.migrated()
        defer { file.remove() }
        let pool = try DatabasePool(path: file.path)
        try pool.write { db in try db.execute(sql: "PRAGMA user_version = 99") }
        let copy = try file.copy()
        defer { copy.remove() }
        #expect(throws: DatabaseFile.Unusable.newer(version: 99, known: FrozenDatabases.versions.upperBound)) {
            try SQLiteStore.open(DatabaseFile(path: copy.path))
        }
        try pool.close()
    }

    @Test(arguments: 1...3 as ClosedRange<UInt64>) func whileItWorks(_ seed: UInt64) async throws {
        let store = try StoreUnderTest()
        var traffic = RandomTraffic(store: store, seed: seed)
        for _ in 0..<8 {
            for _ in 0..<5 { try await traffic.step() }
            let next = try StoreUnderTest(store.file.copy())
            try next.sqlite.recover()
            #expect(try await next.isIntact)
            for table in ["notification_queue", "notification_log", "notification_quarantine", "grant_log", "credential_change"] {
                #expect(try await next.count(table) == store.count(table))
            }
            let states = "SELECT app, client_id, user_id, state, reason, changed_at, verified_at, next_check_at FROM credential_state"
            #expect(try await next.rows(states) == store.rows(states))
        }
    }
}
