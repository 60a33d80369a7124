// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import GRDB
import Testing

/// `siwatch migrate` before it changes anything, and beside a siwatch at work.
@Suite(.timeLimit(.minutes(10))) struct MigrationTests {
    @Test(.site(onEach: SiteDatabase.allCases)) func aDryRunSaysThatNothingIsMissing() async throws {
        let (status, output) = try await site.folder.siwatch("migrate", "--dry-run")
        #expect(status == 0 && output.count == 1 && output[0].hasSuffix(" is up to date, with schema version 1."), "\(output)")
    }

    @Test(.site) func aDryRunPrintsTheTablesOfAFileAndMakesNone() async throws {
        try FileManager.default.removeItem(at: site.folder.url.appending(path: "siwatch.key"))
        try site.folder.edit("siwatch.sqlite", "new.sqlite")
        let (status, output) = try await site.folder.siwatch("migrate", "--dry-run")
        #expect(status == 0 && output.first?.contains("new.sqlite is not there yet") == true, "\(output.prefix(2))")
        #expect(output.last?.hasSuffix("siwatch.key is not there yet. siwatch migrate creates it.") == true, "\(output.suffix(2))")
        #expect(!FileManager.default.fileExists(atPath: site.folder.path("new.sqlite")))

        // It is SQL that SQLite takes.
        let database = try DatabaseQueue()
        try await database.write { db in try db.execute(sql: output.joined(separator: "\n")) }
        #expect(try await database.read { db in try db.tableExists("notification_queue") && db.viewExists("user_state") })
    }

    /// siwatch's own user may run the script by hand.
    @Test(.site(on: .server)) func aDryRunPrintsTheScriptThatMakesASchema() async throws {
        let (absent, upToDate) = (": not there yet; siwatch migrate creates it\n", " is up to date, with schema version 1.\n")
        try await site.folder.expect("doctor --before-start", 0, "database postgresql://siwatch@/", ": usable\n")
        // siwatch writes no database file beside the server.
        #expect(!FileManager.default.fileExists(atPath: site.folder.databasePath))
        try site.folder.edit("schema = \"", "schema = \"new_")
        let script = try await site.folder.expect("migrate --dry-run", 0)
        #expect(script.first?.contains(" is not there yet") == true, "\(script.prefix(2))")
        try await site.folder.expect("doctor --before-start", 0, absent)
        try await site.folder.expect("status", 78)

        try await site.backend.execute("BEGIN; \(script.joined(separator: "\n")) COMMIT")
        try await site.folder.expect("doctor --before-start", 0, ": usable\n")
        try await site.folder.expect("migrate --dry-run", 0, upToDate)
        try await site.folder.expect("migrate", 0)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aLostSealingKeyIsMissedAndNeverReplacedByANewOne() async throws {
        let key = site.folder.url.appending(path: "siwatch.key")
        try FileManager.default.removeItem(at: key)
        for command in ["migrate --dry-run", "migrate", "doctor --before-start", "run"] {
            try await site.folder.expect(command, 78, "siwatch.key is missing")
        }
        #expect(!FileManager.default.fileExists(atPath: key.path))
    }

    /// Killed after its tables and before its key. Nothing is sealed yet.
    @Test(.site(onEach: SiteDatabase.allCases)) func aFirstMigrationThatWasKilledIsRepeated() async throws {
        try await site.backend.execute("DELETE FROM secret")
        try await site.folder.expect("migrate", 0)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM secret") == 1)

        // Or the first start was killed.
        try await site.backend.execute("DELETE FROM secret")
        try FileManager.default.removeItem(at: site.folder.url.appending(path: "siwatch.key"))
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(1)) }

        // A token is sealed.
        try await site.backend.execute("DELETE FROM secret")
        try await site.folder.expect("migrate", 78, "token-fingerprint of the table secret is gone")
    }

    /// The next release's first replica migrates the schema. Those of this release go on.
    @Test(.site(on: .server)) func aDaemonGoesOnBesideTheMigrationOfTheNextRelease() async throws {
        try await site.daemon { _ in
            try await site.settle(try await site.apple.signIn(3))
            let schema = try #require(site.schema)
            let migration = try ChildProcess("siwatch-next", ["--server", schema.address, "--schema", schema.name])
            // Sign-ins that are inserted meanwhile wait for the migration, or go before it.
            try await site.settle(try await site.apple.signIn(3))
            #expect(await migration.exit() == 0, "\(migration.output)")
            #expect(try await site.backend.int("SELECT version FROM schema_version") == 2)
            try await site.settle(try await site.apple.signIn(3))
            #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'") == 9)
        }
        // This release may start again, and so may its commands.
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(1)) }
        try await site.folder.expect("explain nobody", 1)
    }
}

/// `siwatch backup` that ends in the middle of its work.
@Suite(.timeLimit(.minutes(5))) struct BackupKillTests {
    @Test(.site) func aBackupThatIsCutShortCostsNoCopy() async throws {
        let folder = site.folder.url.appending(path: "copies")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        let names = ["siwatch-20200101T000000Z.sqlite", "siwatch-20210101T000000Z.sqlite"]
        for name in names { try await site.folder.succeed("backup", folder.appending(path: name).path) }
        // 64 MB, so that a copy takes longer than a look.
        try await site.backend.execute(
            """
            INSERT INTO notification_queue (payload)
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT hex(randomblob(32000)) FROM n
            """
        )
        for signal in [SIGKILL, SIGTERM, SIGINT] {
            // On a busy machine a copy may be whole before the signal comes. Then the next is tried.
            try await eventually {
                let process = try site.folder.start("backup", "--keep", "3", folder.path)
                try await eventually { try Self.files(in: folder).contains { !names.contains($0) } }
                process.signal(signal)
                let isWhole = await process.exit() == 0
                let left = try Self.files(in: folder).filter { !$0.contains(".partial") && !names.contains($0) }
                #expect(isWhole || left.isEmpty, "\(signal): \(left)")
                for name in left { try FileManager.default.removeItem(at: folder.appending(path: name)) }
                return !isWhole
            }
        }
        try await site.folder.expect("backup --keep 3 \(folder.path)", 0, not: "removed")
        let left = try Self.files(in: folder)
        try #require(left.count == 3, "\(left)")
        #expect(Array(left.prefix(2)) == names && left[2].hasSuffix("Z.sqlite"), "\(left)")
        let backend = try Backend(databasePath: folder.appending(path: left[2]).path)
        #expect(try await backend.int("SELECT COUNT(*) FROM notification_queue") == 1000)
        try backend.close()
    }

    private static func files(in folder: URL) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    }
}
