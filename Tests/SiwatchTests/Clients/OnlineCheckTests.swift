// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import Testing

/// `siwatch doctor --online` against a simulated Apple, over HTTP.
@Suite(.timeLimit(.minutes(10))) struct OnlineCheckTests {
    @Test func aGoodConfigurationIsProvedAndNoUserIsTouched() async throws {
        try await Site.with { site in
            let (status, output) = try await site.folder.siwatch("doctor", "--before-start", "--online")
            #expect(status == 0, "\(output)")
            for clientID in SimulatedApple.clientIDs {
                #expect(output.contains("ok       Apple accepts \(clientID) with the key ABC123DEFG of the team A1B2C3D4E5"), "\(output)")
            }
            #expect(output.contains("ok       127.0.0.1 is 127.0.0.1"))
            #expect(output.contains("ok       Apple publishes 3 signing keys"))
            #expect(output.contains { $0.hasPrefix("ok       the clock that siwatch goes by is ") })
            #expect(output.contains("Only a sign-in proves that"))
            let counters = try await site.apple.send(ReadCounters())
            #expect(counters.clientCredentials == ["200": 2])
            #expect(counters.requests.keys.map(\.rawValue) == ["keys"], "\(counters.requests)")
        }
    }

    @Test func withoutTheFlagAppleIsNotAsked() async throws {
        try await Site.with { site in
            #expect(try await site.folder.siwatch("doctor", "--before-start").status == 0)
            let counters = try await site.apple.send(ReadCounters())
            #expect(counters.clientCredentials.isEmpty && counters.requests.isEmpty)
        }
    }

    @Test(arguments: [
        ("A1B2C3D4E5", "ZZZZZZZZZZ", "no other client of the app shows which of the three is wrong"),
        ("A1B2C3D4E5", "ABC123DEFG", "team_id has the id of the key"),
        ("id = \"ABC123DEFG\"", "id = \"ZZZ123DEFG\"", "the file is named for the key ABC123DEFG"),
        ("com.example.web", "com.example.wrong", "and accepts com.example.app with the same key: the client id is wrong"),
    ])
    func aMistakeIsNamedAndExitsWith78(right: String, wrong: String, words: String) async throws {
        try await Site.with { site in
            try site.folder.edit(right, wrong)
            let (status, output) = try await site.folder.siwatch("doctor", "--before-start", "--online")
            #expect(status == 78, "\(output)")
            #expect(
                output.contains { $0.hasPrefix("wrong    Apple refuses ") && $0.contains("(invalid_client)") && $0.contains(words) },
                "\(output)"
            )
        }
    }

    @Test func aRevokedKeyExitsWith78() async throws {
        try await Site.with { site in
            try await site.apple.send(RevokeKey(id: SimulatedApple.keyID))
            let (status, output) = try await site.folder.siwatch("doctor", "--before-start", "--online")
            #expect(status == 78 && output.contains("siwatch: Apple refuses 2 clients of this configuration"), "\(output)")
            // Beside what the daemon says, the exit code is that of the worst finding.
            let beside = try await site.folder.siwatch("doctor", "--online")
            #expect(beside.status == 2 && beside.output.contains("wrong    no siwatch runs on this database"), "\(beside)")
            #expect(beside.output.count { $0.hasPrefix("wrong    Apple refuses ") } == 2, "\(beside)")
        }
    }

    /// Nothing is proved wrong, whatever Apple says instead. `unauthorized_client` may be about the grant and not about the key.
    @Test(
        arguments: [.answer(503), .answer(429), .reset(), .error("unauthorized_client"), .error("invalid_scope"), .answer(200)] as [Fault]
    )
    func anAppleWithoutAUsableAnswerExitsWith69(_ fault: Fault) async throws {
        try await Site.with { site in
            try await site.apple.script(fault.ofClientCredentials)
            let (status, output) = try await site.folder.siwatch("doctor", "--before-start", "--online")
            #expect(status == 69, "\(output)")
            #expect(output.contains { $0.hasPrefix("warning  Apple gave no usable answer about com.example.app: ") }, "\(output)")
        }
    }

    @Test func anAppleThatIsAwayExitsWith69() async throws {
        try await Site.with { site in
            await site.apple.stop()
            let (status, output) = try await site.folder.siwatch("doctor", "--before-start", "--online")
            #expect(status == 69 && output.contains { $0.hasPrefix("warning  no answer came from 127.0.0.1: refused") }, "\(output)")
        }
    }

    // MARK: Two teams

    @Test func keysThatAreSwappedAreGivenToTheirTeams() async throws {
        try await withTwoTeams(keys: ["TWOKEY1234", "ONEKEY1234"]) { status, output in
            #expect(status == 78, "\(output)")
            let words = "this key belongs to the team Z1B2C3D4E5 of the app two, because Apple accepts com.other.app with it"
            #expect(output.contains { $0.contains("refuses com.example.app with the key TWOKEY1234") && $0.contains(words) }, "\(output)")
            #expect(output.contains { $0.contains("this key belongs to the team A1B2C3D4E5 of the app one") }, "\(output)")
        }
    }

    @Test func aClientOfTheOtherTeamIsGivenToItsApp() async throws {
        try await withTwoTeams(clientsOfOne: ["com.example.app", "com.other.web"], keys: ["ONEKEY1234", "TWOKEY1234"]) { status, output in
            #expect(status == 78, "\(output)")
            #expect(output.contains { $0.hasSuffix("and accepts it with the key TWOKEY1234 of the team Z1B2C3D4E5") }, "\(output)")
            #expect(output.contains { $0.hasSuffix("move it to the client_ids of the app two") }, "\(output)")
        }
    }

    /// Runs `doctor --online` over two apps of two teams.
    ///
    /// - Parameter keys: the key ids that the configuration gives to the apps.
    private func withTwoTeams(
        clientsOfOne: [String] = ["com.example.app"],
        keys: [String],
        _ body: (Int32, [String]) throws -> Void
    ) async throws {
        let (one, two) = (ClientKey.generate(id: "ONEKEY1234"), ClientKey.generate(id: "TWOKEY1234"))
        var apple = SimulatorConfiguration(groups: [
            AppGroup(teamID: "A1B2C3D4E5", clientIDs: ["com.example.app"], keys: [one.registered]),
            AppGroup(teamID: "Z1B2C3D4E5", clientIDs: ["com.other.app", "com.other.web"], keys: [two.registered]),
        ])
        apple.signingKeyCount = 1
        let folder = try WatchedFolder()
        defer { folder.remove() }
        for key in [one, two] {
            let file = folder.url.appending(path: "\(key.id).p8").path
            try key.pem.write(toFile: file, atomically: true, encoding: .utf8)
            try #require(chmod(file, 0o600) == 0)
        }
        try await withAppleSimulator(apple) { _, url in
            func app(_ name: String, _ teamID: String, _ clientIDs: [String], _ keyID: String) -> String {
                """
                [[app]]
                name = "\(name)"
                team_id = "\(teamID)"
                client_ids = [\(clientIDs.map { "\"\($0)\"" }.joined(separator: ", "))]
                [[app.key]]
                id = "\(keyID)"
                file = "\(keyID).p8"

                """
            }
            let text =
                app("one", "A1B2C3D4E5", clientsOfOne, keys[0]) + app("two", "Z1B2C3D4E5", ["com.other.app"], keys[1])
                    + """
                    [database]
                    path = "siwatch.sqlite"
                    [operations]
                    listen = ""
                    socket = ""
                    [apple]
                    token_endpoint = "\(url)/auth/token"
                    revocation_endpoint = "\(url)/auth/revoke"
                    keys_endpoint = "\(url)/auth/keys"

                    """
            try text.write(toFile: folder.configurationPath, atomically: true, encoding: .utf8)
            let (status, output) = try await folder.siwatch("doctor", "--before-start", "--online")
            try body(status, output)
        }
    }
}
