// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import AsyncHTTPClient
import DaemonHarness
import Foundation
import NIOCore
import NIOHTTP1
import Testing

@Suite(.timeLimit(.minutes(10))) struct OnlineCheckTests {
    @Test(.site) func aGoodConfigurationIsProvedWithTheFlagAndNoUserIsTouched() async throws {
        try await site.folder.expect("doctor --before-start", 0)
        let before = try await site.apple.send(ReadCounters())
        #expect(before.clientCredentials.isEmpty && before.requests.isEmpty)
        let output = try await site.folder.expect("doctor --before-start --online", 0)
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

    @Test(
        .site,
        arguments: [
            ("A1B2C3D4E5", "ZZZZZZZZZZ", "no other client of the app shows which of the three is wrong"),
            ("A1B2C3D4E5", "ABC123DEFG", "team_id has the id of the key"),
            ("id = \"ABC123DEFG\"", "id = \"ZZZ123DEFG\"", "the file is named for the key ABC123DEFG"),
            ("com.example.web", "com.example.wrong", "and accepts com.example.app with the same key: the client id is wrong"),
        ]
    )
    func aMistakeIsNamedAndExitsWith78(right: String, wrong: String, words: String) async throws {
        try site.folder.edit(right, wrong)
        let output = try await site.folder.expect("doctor --before-start --online", 78)
        let found = output.filter { $0.hasPrefix("wrong    Apple refuses ") && $0.contains("(invalid_client)") && $0.contains(words) }
        #expect(!found.isEmpty, "\(output)")
    }

    @Test(.site) func aRevokedKeyExitsWith78() async throws {
        try await site.apple.send(RevokeKey(id: SimulatedApple.keyID))
        try await site.folder.expect("doctor --before-start --online", 78, "\nsiwatch: Apple refuses 2 clients of this configuration\n")
        // Beside what the daemon says, the exit code is that of the worst finding.
        let beside = try await site.folder.expect("doctor --online", 2, "\nwrong    no siwatch runs on this database\n")
        #expect(beside.count { $0.hasPrefix("wrong    Apple refuses ") } == 2, "\(beside)")
    }

    /// Nothing is proved wrong, whatever Apple says instead. `unauthorized_client` may be about the grant and not about the key.
    @Test(.site) func anAppleWithoutAUsableAnswerExitsWith69() async throws {
        let faults: [Fault] = [.answer(503), .answer(429), .reset(), .error("unauthorized_client"), .error("invalid_scope"), .answer(200)]
        for fault in faults {
            try await site.apple.script(fault.ofClientCredentials)
            let words = "\nwarning  Apple gave no usable answer about com.example.app: "
            try await site.folder.expect("doctor --before-start --online", 69, words)
            try await site.apple.send(ClearFaults())
        }
        await site.apple.stop()
        try await site.folder.expect("doctor --before-start --online", 69, "\nwarning  no answer came from 127.0.0.1: refused")
    }

    // MARK: Two teams

    @Test func keysThatAreSwappedAreGivenToTheirTeams() async throws {
        let output = try await twoTeams(keys: ["TWOKEY1234", "ONEKEY1234"])
        let words = "this key belongs to the team Z1B2C3D4E5 of the app two, because Apple accepts com.other.app with it"
        #expect(output.contains { $0.contains("refuses com.example.app with the key TWOKEY1234") && $0.contains(words) }, "\(output)")
        #expect(output.contains { $0.contains("this key belongs to the team A1B2C3D4E5 of the app one") }, "\(output)")
    }

    @Test func aClientOfTheOtherTeamIsGivenToItsApp() async throws {
        let output = try await twoTeams(clientsOfOne: ["com.example.app", "com.other.web"], keys: ["ONEKEY1234", "TWOKEY1234"])
        #expect(output.contains { $0.hasSuffix("and accepts it with the key TWOKEY1234 of the team Z1B2C3D4E5") }, "\(output)")
        #expect(output.contains { $0.hasSuffix("move it to the client_ids of the app two") }, "\(output)")
    }

    /// What `doctor --online` says of two apps of two teams, to which the configuration gives these key ids.
    private func twoTeams(clientsOfOne: [String] = ["com.example.app"], keys: [String]) async throws -> [String] {
        let (one, two) = (ClientKey.generate(id: "ONEKEY1234"), ClientKey.generate(id: "TWOKEY1234"))
        var apple = SimulatorConfiguration(groups: [
            AppGroup(teamID: "A1B2C3D4E5", clientIDs: ["com.example.app"], keys: [one.registered]),
            AppGroup(teamID: "Z1B2C3D4E5", clientIDs: ["com.other.app", "com.other.web"], keys: [two.registered]),
        ])
        apple.signingKeyCount = 1
        let folder = try WatchedFolder()
        defer { folder.remove() }
        for key in [one, two] { try folder.write(key.pem, to: "\(key.id).p8") }
        let (_, url, _) = try await AppleSimulator.start(apple)
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
        return try await folder.expect("doctor --before-start --online", 78)
    }
}

/// `siwatch secret client`, for a service that wants a client secret pasted.
struct ClientSecretCommandTests {
    @Test(.site) func itIsSignedForTheClientAndAppleAcceptsIt() async throws {
        let output = try await site.folder.expect("secret client com.example.web --days 30", 0)
        #expect(output.count == 2, "\(output)")
        let secret = try #require(output.first { $0.hasPrefix("ey") })
        let parts = secret.split(separator: ".").compactMap { Data(base64URL: String($0)) }
        try #require(parts.count == 3)
        let header = try #require(try JSONSerialization.jsonObject(with: parts[0]) as? [String: String])
        #expect(header["alg"] == "ES256" && header["kid"] == SimulatedApple.keyID)
        let claims = try #require(try JSONSerialization.jsonObject(with: parts[1]) as? [String: Any])
        let names = ["iss", "sub", "aud"].map { claims[$0] as? String }
        #expect(names == [SimulatedApple.teamID, "com.example.web", "https://appleid.apple.com"])
        let end = Date(timeIntervalSince1970: try #require(claims["exp"] as? Double))
        #expect(abs(end.timeIntervalSinceNow - 30 * 86_400) < 600)
        let day = end.formatted(.iso8601.year().month().day())
        #expect(output.contains { $0.hasPrefix("ends on \(day), at ") }, "\(output)")
        #expect(try await answer(to: secret, of: "com.example.web", at: site.apple.url) == .ok)
        #expect(try await answer(to: secret, of: "com.example.app", at: site.apple.url) == .badRequest, "it is of one client")
    }

    /// 182 days are the longest that Apple accepts, in whole days.
    @Test(.site) func theLongestOneIsAccepted() async throws {
        let (_, output) = try await site.folder.siwatch("secret", "client", "com.example.app", "--days", "182")
        let secret = try #require(output.first { $0.hasPrefix("ey") })
        #expect(try await answer(to: secret, of: "com.example.app", at: site.apple.url) == .ok)
        for days in [183, 0] { try await site.folder.expect("secret client com.example.app --days \(days)", 64) }
    }

    @Test(.site) func aClientThatNoAppHasIsRefusedWithThoseThatThereAre() async throws {
        let words = "siwatch: no app of the configuration has the client com.example.other; there is com.example.app, com.example.web"
        #expect(try await site.folder.expect("secret client com.example.other", 64) == [words])
    }

    private func answer(to secret: String, of clientID: String, at url: String) async throws -> HTTPResponseStatus {
        var request = HTTPClientRequest(url: "\(url)/auth/token")
        request.method = .POST
        request.headers.add(name: "content-type", value: "application/x-www-form-urlencoded")
        let form = "grant_type=client_credentials&scope=user.migration&client_id=\(clientID)&client_secret=\(secret)"
        request.body = .bytes(ByteBuffer(string: form))
        return try await HTTPClient.shared.execute(request, timeout: .seconds(30)).status
    }
}

extension Data {
    fileprivate init?(base64URL text: String) {
        let base64 = text.replacing("-", with: "+").replacing("_", with: "/")
        self.init(base64Encoded: base64.padding(toLength: (base64.count + 3) / 4 * 4, withPad: "=", startingAt: 0))
    }
}
