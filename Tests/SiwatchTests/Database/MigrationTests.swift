// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import GRDB
import Testing

/// `siwatch migrate` before it changes anything, and beside a siwatch at work.
@Suite(.timeLimit(.minutes(10))) struct MigrationTests {
    @Test(arguments: SiteDatabase.allCases) func aDryRunSaysThatNothingIsMissing(on database: SiteDatabase) async throws {
        try await Site.with(on: database) { site in
            let (status, output) = try await site.folder.siwatch("migrate", "--dry-run")
            #expect(status == 0 && output.count == 1 && output[0].hasSuffix(" is up to date, with schema version 1."), "\(output)")
        }
    }

    @Test func aDryRunPrintsTheTablesOfAFileAndMakesNone() async throws {
        try await Site.with { site in
            try FileManager.default.removeItem(at: site.folder.url.appending(path: "siwatch.key"))
            try site.folder.edit("siwatch.sqlite", "new.sqlite")
            let (status, output) = try await site.folder.siwatch("migrate", "--dry-run")
            #expect(status == 0 && output.first?.contains("new.sqlite is not there yet") == true, "\(output.prefix(2))")
            #expect(output.last?.hasSuffix("siwatch.key is not there yet. siwatch migrate creates it.") == true, "\(output.suffix(2))")
            #expect(!FileManager.default.fileExists(atPath: site.folder.url.appending(path: "new.sqlite").path))

            // It is SQL that SQLite takes.
            let database = try DatabaseQueue()
            try await database.write { db in try db.execute(sql: output.joined(separator: "\n")) }
            #expect(try await database.read { db in try db.tableExists("notification_queue") && db.viewExists("user_state") })
        }
    }

    /// siwatch's own user may run the script by hand.
    @Test func aDryRunPrintsTheScriptThatMakesASchema() async throws {
        try await Site.with(on: .server) { site in
            try site.folder.edit("schema = \"", "schema = \"new_")
            let (status, script) = try await site.folder.siwatch("migrate", "--dry-run")
            #expect(status == 0 && script.first?.contains(" is not there yet") == true, "\(script.prefix(2))")
            let output = try await site.folder.siwatch("doctor", "--before-start").output
            #expect(output.contains { $0.hasSuffix(": not there yet; siwatch migrate creates it") }, "\(output)")

            try await site.backend.execute("BEGIN; \(script.joined(separator: "\n")) COMMIT")
            #expect(try await site.folder.siwatch("doctor", "--before-start").output.contains { $0.hasSuffix(": usable") })
            let again = try await site.folder.siwatch("migrate", "--dry-run").output
            #expect(again.last?.hasSuffix(" is up to date, with schema version 1.") == true, "\(again)")
            #expect(try await site.folder.siwatch("migrate").status == 0)
        }
    }

    @Test(arguments: SiteDatabase.allCases) func aDryRunMissesAKeyAsAMigrationDoes(on database: SiteDatabase) async throws {
        try await Site.with(on: database) { site in
            try FileManager.default.removeItem(at: site.folder.url.appending(path: "siwatch.key"))
            for arguments in [["migrate", "--dry-run"], ["migrate"]] {
                let process = try await site.folder.siwatch(arguments)
                #expect(process.status == 78 && process.output.joined().contains("siwatch.key is missing"), "\(process.output)")
            }
        }
    }

    /// Killed after its tables and before its key. Nothing is sealed yet.
    @Test(arguments: SiteDatabase.allCases) func aFirstMigrationThatWasKilledIsRepeated(on database: SiteDatabase) async throws {
        try await Site.with(on: database) { site in
            try await site.backend.execute("DELETE FROM secret")
            let repeated = try await site.folder.siwatch("migrate")
            #expect(repeated.status == 0, "\(repeated.output)")
            #expect(try await site.backend.int("SELECT COUNT(*) FROM secret") == 1)

            // Or the first start was killed.
            try await site.backend.execute("DELETE FROM secret")
            try FileManager.default.removeItem(at: site.folder.url.appending(path: "siwatch.key"))
            try await site.daemon { _ in try await site.settle(try await site.apple.signIn(1)) }

            // A token is sealed.
            try await site.backend.execute("DELETE FROM secret")
            let (status, output) = try await site.folder.siwatch("migrate")
            #expect(status == 78 && output.joined().contains("token-fingerprint of the table secret is gone"), "\(output)")
        }
    }

    /// The next release's first replica migrates the schema. Those of this release go on.
    @Test func aDaemonGoesOnBesideTheMigrationOfTheNextRelease() async throws {
        try await Site.with(on: .server) { site in
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
            #expect(try await site.folder.siwatch("explain", "nobody").status == 1)
        }
    }
}
