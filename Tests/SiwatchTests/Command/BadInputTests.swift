// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

struct BadInputTests {
    @Test func everyMistakeOfAConfigurationIsNamedAndNothingIsTouched() async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        try """
        [[app]]
        name = "example"
        team_id = "short"
        client_ids = []
        [[app.key]]
        id = "ABC123DEFG"
        file = "missing.p8"
        [refresh]
        interval = "soon"
        colour = "red"
        [apple]
        token_endpoint = "http://example.com/"
        """.write(toFile: folder.configurationPath, atomically: true, encoding: .utf8)
        for command in ["doctor --before-start", "migrate", "run", "status"] {
            let (status, output) = try await folder.siwatch(line: command)
            #expect(status == 78, "\(command)")
            let text = output.joined(separator: "\n")
            for key in ["app[0].team_id", "app[0].client_ids", "refresh.interval", "refresh.colour", "apple.token_endpoint"] {
                #expect(text.contains(key), "\(command) does not name \(key): \(text)")
            }
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == ["siwatch.toml"])
    }

    /// `doctor` also finds mistakes in files in one go.
    @Test(.site) func mistakesInKeysAndDatabaseAreNamedTogether() async throws {
        try site.folder.edit("name = \"example\"", "name = \"renamed\"")
        try site.folder.edit(SimulatedApple.keyFile, "missing.p8")
        let (status, output) = try await site.folder.siwatch("doctor", "--before-start")
        #expect(status == 78)
        #expect(output.joined().contains("siwatch rename app example renamed"))
        #expect(output.joined().contains("missing.p8"))
    }

    @Test(.site) func aDatabaseThatIsNotOursIsRefusedInWords() async throws {
        let path = site.folder.databasePath
        for (sql, words) in [("PRAGMA user_version = 99", "made by a newer siwatch"), ("PRAGMA application_id = 1", "of another program")] {
            let queue = try DatabaseQueue(path: path)
            try await queue.writeWithoutTransaction { db in try db.execute(sql: "\(sql); PRAGMA wal_checkpoint(TRUNCATE)") }
            try queue.close()
            for command in ["doctor --before-start", "run"] {
                let (status, output) = try await site.folder.siwatch(line: command)
                #expect(status == 78)
                let text = output.joined()
                #expect(text.contains(words) && !text.contains("(\"") && !text.contains("version:"), "\(text)")
            }
        }
    }

    @Test(.site) func checkSaysThatADatabaseCannotBeMade() async throws {
        try site.folder.edit("path = \"siwatch.sqlite\"", "path = \"missing/siwatch.sqlite\"")
        let (status, output) = try await site.folder.siwatch("doctor", "--before-start")
        #expect(status == 78 && output.joined().contains("database.path"), "\(output)")
    }

    @Test(.site) func anAddressThatIsTakenIsNamed() async throws {
        let taken = site.apple.url.replacing("http://", with: "")
        try await site.withNeighbour(listen: taken) { folder in
            try await folder.succeed("migrate")
            let (status, output) = try await folder.run("run")
            #expect(status == 69)
            #expect(output.last == "siwatch: operations.listen: \(taken) cannot be listened on: Address already in use", "\(output)")
            #expect(!output.contains { $0.contains("CancellationError") || $0.contains("signing_keys_failed") }, "\(output)")
        }
    }

    @Test(.site) func aSealingKeyOfAnotherDatabaseIsFoundByCheck() async throws {
        let key = site.folder.url.appending(path: "siwatch.key")
        try FileManager.default.removeItem(at: key)
        try await site.withNeighbour { folder in
            try await folder.succeed("migrate")
            try FileManager.default.copyItem(at: folder.url.appending(path: "siwatch.key"), to: key)
        }
        for command in ["doctor --before-start", "run"] {
            let (status, output) = try await site.folder.siwatch(line: command)
            #expect(status == 78)
            #expect(output.joined().contains("does not open this database"), "\(command): \(output)")
        }
    }

    @Test(.site) func anotherProgramsDatabaseIsLeftAloneToTheByte() async throws {
        let path = site.folder.url.appending(path: "foreign.sqlite").path
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in
            try db.execute(sql: "CREATE TABLE customer (name TEXT); INSERT INTO customer VALUES ('Ann'); PRAGMA user_version = 1")
        }
        try queue.close()
        try await refuses(site, database: "foreign.sqlite", saying: "another program")
    }

    @Test(.site) func rubbishADamagedFileAndANewerSchemaAreRefused() async throws {
        try Data("not a database at all, but long enough to look like one\n".utf8 + Array(repeating: 7, count: 4096))
            .write(to: site.folder.url.appending(path: "rubbish.sqlite"))
        try await refuses(site, database: "rubbish.sqlite", saying: "not an SQLite database")

        var bytes = try Data(contentsOf: URL(filePath: site.folder.databasePath))
        for index in 100..<4096 { bytes[index] = 0xff }
        try bytes.write(to: site.folder.url.appending(path: "damaged.sqlite"))
        try await refuses(site, database: "damaged.sqlite", saying: "damaged")

        bytes = try Data(contentsOf: URL(filePath: site.folder.databasePath))
        bytes[63] = 99
        try bytes.write(to: site.folder.url.appending(path: "newer.sqlite"))
        try await refuses(site, database: "newer.sqlite", saying: "newer")
    }

    @Test(.site) func aSecondDaemonGivesWay() async throws {
        try await site.daemon { _ in
            for command in ["run", "migrate"] {
                let (status, output) = try await site.folder.siwatch(line: command)
                #expect(status == 69, "\(command): \(output)")
            }
            let (status, output) = try await site.folder.siwatch("status")
            #expect(status == 1)
            #expect(output[0].contains(" runs on ") && output[2].hasPrefix("siwatch runs and cannot be asked"))
        }
        let (status, output) = try await site.folder.siwatch("status")
        #expect(status == 2)
        #expect(output[0].contains("does not run"))
    }

    @Test(.site) func aDatabaseThatIsLockedAtTheStartIsUnavailableAndNotUnusable() async throws {
        var configuration = GRDB.Configuration()
        configuration.allowsUnsafeTransactions = true
        let queue = try DatabaseQueue(path: site.folder.databasePath, configuration: configuration)
        try await queue.writeWithoutTransaction { db in try db.execute(sql: "BEGIN IMMEDIATE") }
        #expect(try await site.folder.run("run").status == 69)
        try await queue.writeWithoutTransaction { db in try db.execute(sql: "ROLLBACK") }
        try queue.close()
    }

    @Test(.site) func aRowWithAbsurdAttemptsHoldsUpNobody() async throws {
        try await site.daemon { _ in
            let signIns = try await site.apple.signIn(2)
            try await site.backend.execute("INSERT INTO notification_queue (payload, attempts) VALUES ('{}', 9223372036854775807)")
            try await site.settle(signIns)
            try await site.tell(site.apple.notify(RevokeConsent(), users: signIns.map(\.userID)))
            try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 2)
            try await site.backend.until("SELECT COUNT(*) FROM notification_quarantine WHERE reason = 'malformed'", is: 1)
        }
    }

    @Test func wrongUsageIs64() async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        #expect(try await folder.run("run", "--no-such-option").status == 64)
        #expect(try await folder.siwatch("dance").status == 64)
    }

    @Test(.site) func aLostSealingKeyIsNeverReplacedByANewOne() async throws {
        let key = site.folder.url.appending(path: "siwatch.key")
        try FileManager.default.removeItem(at: key)
        for command in ["doctor --before-start", "migrate", "run"] {
            let (status, output) = try await site.folder.siwatch(line: command)
            #expect(status == 78, "\(command): \(output)")
        }
        #expect(!FileManager.default.fileExists(atPath: key.path))
    }

    @Test(.site) func aClientThatChangesItsAppIsRefused() async throws {
        try site.folder.edit("name = \"example\"", "name = \"renamed\"")
        let (status, output) = try await site.folder.run("run")
        #expect(status == 78)
        #expect(output.joined().contains("siwatch rename app example renamed"))
    }

    /// Points the configuration at a file, and expects each command to refuse it without changing it.
    private func refuses(_ site: Site, database name: String, saying words: String) async throws {
        let path = site.folder.url.appending(path: name)
        let text = try String(contentsOfFile: site.folder.configurationPath, encoding: .utf8)
        let other = site.folder.url.appending(path: "other.toml").path
        try text.replacing("siwatch.sqlite", with: name).write(toFile: other, atomically: true, encoding: .utf8)
        let before = try Data(contentsOf: path)
        for command in ["doctor --before-start", "migrate", "run"] {
            let process = try await CommandCall.siwatch(command.split(separator: " ").map(String.init) + ["--config", other])
            #expect(process.status == 78, "\(command) \(name): \(process.output)")
            #expect(process.output.joined().contains(words), "\(process.output)")
        }
        #expect(try Data(contentsOf: path) == before)
        let beside = try FileManager.default.contentsOfDirectory(atPath: site.folder.url.path).filter { $0.hasPrefix(name) }
        #expect(Set(beside).isSubset(of: [name, name + ".lock"]))
    }
}
