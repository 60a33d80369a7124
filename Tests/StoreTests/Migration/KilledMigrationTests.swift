// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables
import DaemonHarness
import Foundation
import GRDB
import Testing

@testable import PostgresStore
@testable import SQLiteStore

/// A migration that is killed in the middle of a step has changed nothing. The next one does it all.
@Suite(.timeLimit(.minutes(10))) struct KilledMigrationTests {
    private static let newest = FrozenDatabases.versions.upperBound

    @Test func aFileStaysAsItWas() async throws {
        let file = try FrozenDatabases.copy(of: Self.newest)
        defer { file.remove() }
        let before = try await contents(of: file)

        let migration = try ChildProcess("siwatch-next", ["--file", file.path])
        // The log grows beyond what the cache holds, so parts of the step are on disk.
        try await eventually { migration.exitStatus != nil || size(of: file.path + "-wal") >= 8 << 20 }
        migration.signal(SIGKILL)
        #expect(await migration.exit() == 128 + SIGKILL)

        #expect(try DatabaseFile(path: file.path).inspect() == .siwatch(version: Self.newest))
        #expect(try await contents(of: file) == before)
        // This release may go on.
        try SQLiteStore.open(DatabaseFile(path: file.path)).close()

        #expect(try await ChildProcess("siwatch-next", ["--file", file.path]).exit() == 0)
        let door = try SQLiteDoor(asBackendOf: file.path)
        #expect(try await door.rows("SELECT COUNT(*), MAX(number) FROM next_step", []) == [[1_000_000, 1_000_000]])
        #expect(try await door.rows("PRAGMA integrity_check", []) == [["ok"]])
        #expect(throws: DatabaseFile.Unusable.newer(version: Self.newest + 1, known: Self.newest)) {
            try DatabaseFile(path: file.path).inspect()
        }
    }

    private func size(of path: String) -> Int { (try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int) ?? 0 }

    private func contents(of file: TemporaryFile) async throws -> TableContents {
        let door = try SQLiteDoor(asBackendOf: file.path)
        defer { try? door.connection.close() }
        return try await TableContents(door, TableContents.columns(ofFile: door))
    }

    @Test func aSchemaStaysAsItWas() async throws {
        let address = try await FrozenDatabases.restore(Self.newest)
        let door = PostgresDoor(address)
        let before = try await TableContents(door, TableContents.columns(ofServer: door))

        let arguments = ["--server", try PostgresServer.shared.get().address(), "--schema", address.schema]
        let migration = try ChildProcess("siwatch-next", arguments)
        let question = """
            SELECT pid FROM pg_stat_activity
             WHERE state = 'active' AND query LIKE '%\(address.schema)%next_step%' AND pid <> pg_backend_pid()
            """
        var processes: [[SQLValue]] = []
        try await eventually {
            processes = try await door.rows(question, [])
            return migration.exitStatus != nil || !processes.isEmpty
        }
        migration.signal(SIGKILL)
        #expect(await migration.exit() == 128 + SIGKILL)
        // The server finishes the statement before it sees that nobody is there.
        try await eventually { try await door.rows(question, []).isEmpty }

        #expect(try await door.rows("SELECT version FROM schema_version", []) == [[.integer(Int64(Self.newest))]])
        #expect(try await TableContents(door, TableContents.columns(ofServer: door)) == before)
        _ = try PostgresStore.open(address)

        #expect(try await ChildProcess("siwatch-next", arguments).exit() == 0)
        #expect(try await door.rows("SELECT COUNT(*), MAX(number) FROM next_step", []) == [[1_000_000, 1_000_000]])
    }
}
