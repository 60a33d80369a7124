// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import DaemonHarness
import Foundation
import Logging
import SQLiteStore
import Testing

@testable import siwatch

struct ConfigurationTests {
    static let app = """
        [[app]]
        name = "example"
        team_id = "A1B2C3D4E5"
        client_ids = ["com.example.app", "com.example.web"]

        [[app.key]]
        id = "ABC123DEFG"
        file = "AuthKey_ABC123DEFG.p8"

        """

    /// The shortest valid file, read from /etc.
    static var least: Configuration {
        var configuration = Configuration()
        configuration.source = "/etc/siwatch.toml"
        configuration.encryption.keyFile = "/etc/siwatch.key"
        configuration.apps = [
            Configuration.App(
                name: "example",
                teamID: "A1B2C3D4E5",
                clientIDs: ["com.example.app", "com.example.web"],
                keys: [Configuration.App.Key(id: "ABC123DEFG", file: "/etc/AuthKey_ABC123DEFG.p8")]
            )
        ]
        return configuration
    }

    /// What stands before the app in a file.
    static func reading(_ tables: String) throws(InvalidConfiguration) -> Configuration {
        try Configuration(parsing: "\(tables)\n\(app)", from: "siwatch.toml")
    }

    @Test func whatIsLeftOutHasItsDefault() throws {
        #expect(try Configuration(parsing: Self.app, from: "/etc/siwatch.toml") == Self.least)
    }

    /// The page must name every key and show every default, so that it cannot go stale. The sample has some of its lines.
    @Test(arguments: ["docs/configuration.toml", "etc/siwatch.toml"])
    func thePageShowsEveryKeyWithItsDefault(_ name: String) throws {
        let example = Checkout.root.appending(path: name)
        var configuration = try Configuration(contentsOf: example.path, credentials: nil)
        #expect(configuration.source == example.path)
        let folder = example.deletingLastPathComponent().path
        #expect(configuration.encryption.keyFile == "\(folder)/siwatch.key")
        configuration.source = Self.least.source
        configuration.encryption = Self.least.encryption
        configuration.apps[0].keys[0].file = Self.least.apps[0].keys[0].file
        #expect(configuration == Self.least)

        // Those of tables that need not be there are comments.
        configuration.http.clients = [Configuration.HTTP.Client()]
        configuration.deliveries = [Configuration.Delivery()]
        let text = try String(contentsOf: example, encoding: .utf8)
        let page = try String(contentsOf: Checkout.root.appending(path: "docs/configuration.toml"), encoding: .utf8)
        let lines = Set(page.split(separator: "\n"))
        #expect(text.split(separator: "\n").allSatisfy { lines.contains($0) || $0.hasPrefix("# siwatch: ") })
        guard name.hasPrefix("docs") else { return }
        let shown = Set(text.matches(of: #/(?m)^(?:# )?([a-z_]+) = /#).map { String($0.1) })
        let known = Set(configuration.values.keys.map { String($0.split(separator: ".").last ?? "") })
        #expect(shown == known, "\(shown.symmetricDifference(known).sorted())")
    }

    @Test func everyKeyIsRead() throws {
        let text = """
            [database]
            path = "/srv/db.sqlite"
            [encryption]
            key_file = "/srv/key"
            [refresh]
            interval = "48h"
            max_requests_per_second = 5
            max_concurrent_requests = 6
            timeout = "7s"
            [breaker]
            window = 7
            max_rejections = 6
            max_rejected_percent = 99
            settle = "8s"
            [revocations]
            max_per_hour = 9
            max_percent_per_hour = 100
            [queues]
            poll_interval = "20ms"
            clock_skew = "1m30s"
            [retention]
            notification_log = "1d"
            quarantine = "2d"
            changes = "3d"
            grant_log = "4d"
            revocation_log = "5d"
            ended_user = "7d"
            address = "8d"
            payload = "9d"
            rejected_token = "6d"
            [operations]
            listen = "[::]:80"
            allow_remote = true
            [log]
            level = "trace"
            format = "json"
            [apple]
            token_endpoint = "http://127.0.0.1:8080/auth/token"
            revocation_endpoint = "http://localhost:8080/auth/revoke"
            keys_endpoint = "http://[::1]:8080/auth/keys"
            issuers = ["a", "b"]

            """
        let app = Self.app.replacing("name =", with: "revocations = false\nname =")
        let configuration = try Configuration(parsing: text + app, from: "/etc/siwatch.toml")
        var expected = Self.least
        expected.apps[0].revocations = false
        expected.database.path = "/srv/db.sqlite"
        expected.encryption.keyFile = "/srv/key"
        expected.refresh.interval = .hours(48)
        (expected.refresh.maxRequestsPerSecond, expected.refresh.maxConcurrentRequests) = (5, 6)
        expected.refresh.timeout = .seconds(7)
        expected.breaker = Configuration.Breaker(window: 7, maxRejections: 6, maxRejectedPercent: 99, settle: .seconds(8))
        expected.revocations = RevocationLimitRules(maxPerHour: 9, maxPercentPerHour: 100)
        expected.queues = Configuration.Queues(pollInterval: .milliseconds(20), clockSkew: .seconds(90))
        (expected.retention.notificationLog, expected.retention.quarantine) = (.days(1), .days(2))
        (expected.retention.changes, expected.retention.grantLog, expected.retention.revocationLog) = (.days(3), .days(4), .days(5))
        (expected.retention.endedUser, expected.retention.address) = (.days(7), .days(8))
        (expected.retention.payload, expected.retention.rejectedToken) = (.days(9), .days(6))
        expected.operations.listen = ListenAddress(host: "::", port: 80)
        expected.operations.allowRemote = true
        expected.log = Configuration.Log(level: .trace, format: .json)
        expected.apple.tokenEndpoint = try #require(URL(string: "http://127.0.0.1:8080/auth/token"))
        expected.apple.revocationEndpoint = try #require(URL(string: "http://localhost:8080/auth/revoke"))
        expected.apple.keysEndpoint = try #require(URL(string: "http://[::1]:8080/auth/keys"))
        expected.apple.issuers = ["a", "b"]
        #expect(configuration == expected)
    }

    @Test func severalAppsHaveSeveralKeys() throws {
        let text =
            Self.app + """
                [[app.key]]
                id = "KEY0000002"
                file = "two.p8"
                [[app]]
                name = "other"
                team_id = "Z1B2C3D4E5"
                client_ids = ["com.example.other"]
                [[app.key]]
                id = "ABC123DEFG"
                file = "/keys/three.p8"
                """
        let apps = try Configuration(parsing: text, from: "etc/siwatch.toml").apps
        #expect(apps.map(\.name) == ["example", "other"])
        #expect(apps[0].keys.map(\.file) == ["etc/AuthKey_ABC123DEFG.p8", "etc/two.p8"])
        #expect(apps[1].keys.map(\.file) == ["/keys/three.p8"], "two apps may share a key")
    }

    @Test func aBareNameIsACredentialWhereThereIsOne() throws {
        let folder = try TemporaryFolder()
        try folder.write("…", to: "siwatch.key")
        let configuration = try Configuration(parsing: Self.app, from: "/etc/siwatch.toml", credentials: folder.path)
        #expect(configuration.encryption.keyFile == folder.path("siwatch.key"))
        #expect(configuration.apps[0].keys[0].file == "/etc/AuthKey_ABC123DEFG.p8")
    }

    @Test func askingAppleTooOftenIsWarnedOf() throws {
        var configuration = Self.least
        #expect(configuration.warnings.isEmpty)
        configuration.refresh.interval = .seconds(86_399)
        #expect(configuration.warnings.map(\.place) == [.key("refresh.interval")])
        configuration.apple.tokenEndpoint = try #require(URL(string: "http://127.0.0.1:1/auth/token"))
        #expect(configuration.warnings.map(\.place) == [.key("apple.token_endpoint")], "it is not Apple who is asked")
    }

    /// As the file names them, where a reload needs a restart.
    @Test func keysThatDifferAreNamedByTheReader() throws {
        var other = Self.least
        #expect(Self.least.differences(from: other).isEmpty)
        other.refresh.maxRequestsPerSecond = 5
        other.apps[0].clientIDs.append("com.example.other")
        other.apps[0].keys[0].id = "KEY0000002"
        other.http.notificationsURL = URL(string: "https://example.com/")
        let keys = ["app[0].client_ids", "app[0].key[0].id", "http.notifications_url", "refresh.max_requests_per_second"]
        #expect(Self.least.differences(from: other) == keys)
        other = Self.least
        other.apps.append(other.apps[0])
        other.deliveries = [Configuration.Delivery()]
        #expect(Self.least.differences(from: other) == ["app", "delivery"])
    }
}

/// `siwatch-simulator --print-config` prints a valid siwatch.toml.
struct SimulatorConfigurationTests {
    /// The file is in another folder than the simulator's key, whose path was relative to the simulator.
    @Test func theConfigurationIsAcceptedAsItIs() async throws {
        let folder = try WatchedFolder(named: "a \"folder\"")
        defer { folder.remove() }
        let elsewhere = folder.url.appending(path: "elsewhere")
        try FileManager.default.createDirectory(at: elsewhere, withIntermediateDirectories: false)
        let script = #"cd "$1" && exec "$0" --print-config --port 0 --key-file key.p8 --log-level critical"#
        let apple = try ChildProcess.shell(script, ChildProcess.program("siwatch-simulator").path, elsewhere.path)
        defer { apple.signal(SIGKILL) }
        #expect(await apple.line(containing: "keys_endpoint") != nil, "\(apple.output)")
        let text = apple.output.map { "\($0)\n" }.joined()
        try text.write(toFile: folder.configurationPath, atomically: true, encoding: .utf8)

        let checked = try await folder.siwatch("doctor", "--before-start")
        #expect(checked.status == 0, "\(checked.output) of \(text)")
        #expect(try await folder.siwatch("migrate").status == 0)
        #expect(try await folder.siwatch("doctor", "--before-start").output.contains { $0.contains("siwatch.sqlite: usable") })
        #expect(FileManager.default.fileExists(atPath: elsewhere.appending(path: "siwatch.sqlite").path))
    }
}
