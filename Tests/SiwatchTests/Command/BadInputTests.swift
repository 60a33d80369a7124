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
            let output = try await folder.expect(command, 78).joined()
            for key in ["app[0].team_id", "app[0].client_ids", "refresh.interval", "refresh.colour", "apple.token_endpoint"] {
                #expect(output.contains(key), "\(command) does not name \(key): \(output)")
            }
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == ["siwatch.toml"])
    }

    @Test(.site) func mistakesInKeysAndDatabaseAreNamedTogether() async throws {
        let words = "siwatch rename app example renamed"
        try site.folder.edit("name = \"example\"", "name = \"renamed\"")
        try await site.folder.expect("run", 78, words)
        try site.folder.edit(SimulatedApple.keyFile, "missing.p8")
        try await site.folder.expect("doctor --before-start", 78, words, "missing.p8")
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
        for command in ["doctor --before-start", "run"] { try await site.folder.expect(command, 78, "does not open this database") }
    }

    @Test(.site) func filesThatAreNoDatabaseOfOursAreRefusedAndLeftAloneToTheByte() async throws {
        let path = site.folder.path("foreign.sqlite")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in
            try db.execute(sql: "CREATE TABLE customer (name TEXT); INSERT INTO customer VALUES ('Ann'); PRAGMA user_version = 1")
        }
        try queue.close()
        try await refuses("foreign.sqlite", saying: "another program")

        let rubbish = Array("not a database at all, but long enough to look like one\n".utf8) + Array(repeating: 7, count: 4096)
        try await refuses("rubbish.sqlite", saying: "not an SQLite database", Data(rubbish))

        // The header of a file holds the number of its schema and the id of its program.
        for (name, words, places) in [
            ("damaged", "damaged", 100..<4096), ("newer", "made by a newer siwatch", 63..<64), ("other", "of another program", 68..<72),
        ] {
            var bytes = try Data(contentsOf: URL(filePath: site.folder.databasePath))
            for index in places { bytes[index] = 0xff }
            try await refuses("\(name).sqlite", saying: words, bytes)
        }
    }

    @Test(.site) func aSecondDaemonGivesWay() async throws {
        try await site.daemon { _ in
            for command in ["run", "migrate"] { try await site.folder.expect(command, 69) }
            let output = try await site.folder.expect("status", 1)
            #expect(output[0].contains(" runs on ") && output[2].hasPrefix("siwatch runs and cannot be asked"))
        }
        #expect(try await site.folder.expect("status", 2)[0].contains("does not run"))
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

    @Test(.daemon) func aRowWithAbsurdAttemptsHoldsUpNobody() async throws {
        let signIns = try await site.apple.signIn(2)
        try await site.backend.execute("INSERT INTO notification_queue (payload, attempts) VALUES ('{}', 9223372036854775807)")
        try await site.settle(signIns)
        try await site.tell(site.apple.notify(RevokeConsent(), users: signIns.map(\.userID)))
        try await site.backend.until(["notification_log": 2, "notification_quarantine WHERE reason = 'malformed'": 1])
    }

    /// Points the configuration at a file, and expects each command to refuse it without changing it.
    private func refuses(_ name: String, saying words: String, _ bytes: Data? = nil) async throws {
        let path = site.folder.url.appending(path: name)
        try bytes?.write(to: path)
        try #require(chmod(path.path, 0o600) == 0)
        let other = try site.folder.configuration(of: name)
        let before = try Data(contentsOf: path)
        for command in ["doctor --before-start", "migrate", "run"] {
            let said = try await CommandCall.siwatch(command.split(separator: " ").map(String.init) + ["--config", other])
            examine(said, "\(command) \(name)", 78, [words], not: ["(\"", "version:"], at: #_sourceLocation)
        }
        #expect(try Data(contentsOf: path) == before)
        let beside = try FileManager.default.contentsOfDirectory(atPath: site.folder.url.path).filter { $0.hasPrefix(name) }
        #expect(Set(beside).isSubset(of: [name, name + ".lock"]))
    }
}
