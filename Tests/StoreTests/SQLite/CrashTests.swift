// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

/// A kill at any moment leaves a database for the next process.
@Suite struct CrashTests {
    /// Killed between the making of the file and the end of the migration.
    @Test func whileTheFileIsMade() async throws {
        let file = try TemporaryFile()
        defer { file.remove() }
        try DatabaseFile(path: file.path).createIfMissing()
        #expect(try DatabaseFile(path: file.path).inspect() == .none)
        _ = try FileUnderTest(file.copy())

        let pool = try DatabasePool(path: file.path)
        #expect(try DatabaseFile(path: file.path).inspect() == .none)
        _ = try FileUnderTest(file.copy())

        // The whole schema is in the log, and nothing of it in the file.
        try DatabaseFile(path: file.path).migrate(pool)
        let migrated = try FileUnderTest(file.copy())
        #expect(try await migrated.store.signIn(token: "r") == .grant(.applied, nil))
        try pool.close()
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
        let file = try TemporaryFile()
        defer { file.remove() }
        try SQLiteStore.open(DatabaseFile(path: file.path)).close()
        let pool = try DatabasePool(path: file.path)
        try pool.write { db in try db.execute(sql: "PRAGMA user_version = 99") }
        let copy = try file.copy()
        defer { copy.remove() }
        #expect(throws: DatabaseFile.Unusable.newer(version: 99, known: FrozenDatabases.versions.upperBound)) {
            try SQLiteStore.open(DatabaseFile(path: copy.path))
        }
        try pool.close()
    }

    @Test(arguments: 1...3 as ClosedRange<UInt64>)
    func whileItWorks(_ seed: UInt64) async throws {
        let file = try FileUnderTest()
        var traffic = RandomTraffic(store: file.store, seed: seed)
        for _ in 0..<8 {
            for _ in 0..<5 { try await traffic.step() }
            let next = try FileUnderTest(file.file.copy())
            try next.sqlite.recover()
            #expect(try await next.isIntact)
            for table in ["notification_queue", "notification_log", "notification_quarantine", "grant_log", "credential_change"] {
                #expect(try await next.store.count(table) == file.store.count(table))
            }
            let states = "SELECT app, client_id, user_id, state, reason, changed_at, verified_at, next_check_at FROM credential_state"
            #expect(try await next.store.rows(states) == file.store.rows(states))
        }
    }
}
