// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import AsyncHTTPClient
import DaemonHarness
import Foundation
import NIOCore
import NIOHTTP1
import Testing

/// `siwatch doctor --online` against a simulated Apple, over HTTP.
@Suite(.timeLimit(.minutes(10))) struct OnlineCheckTests {
    @Test(.site) func aGoodConfigurationIsProvedAndNoUserIsTouched() async throws {
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

    @Test(.site) func withoutTheFlagAppleIsNotAsked() async throws {
        #expect(try await site.folder.siwatch("doctor", "--before-start").status == 0)
        let counters = try await site.apple.send(ReadCounters())
        #expect(counters.clientCredentials.isEmpty && counters.requests.isEmpty)
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

    @Test(.site) func aRevokedKeyExitsWith78() async throws {
        try await site.apple.send(RevokeKey(id: SimulatedApple.keyID))
        let (status, output) = try await site.folder.siwatch("doctor", "--before-start", "--online")
        #expect(status == 78 && output.contains("siwatch: Apple refuses 2 clients of this configuration"), "\(output)")
        // Beside what the daemon says, the exit code is that of the worst finding.
        let beside = try await site.folder.siwatch("doctor", "--online")
        #expect(beside.status == 2 && beside.output.contains("wrong    no siwatch runs on this database"), "\(beside)")
        #expect(beside.output.count { $0.hasPrefix("wrong    Apple refuses ") } == 2, "\(beside)")
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

    @Test(.site) func anAppleThatIsAwayExitsWith69() async throws {
        await site.apple.stop()
        let (status, output) = try await site.folder.siwatch("doctor", "--before-start", "--online")
        #expect(status == 69 && output.contains { $0.hasPrefix("warning  no answer came from 127.0.0.1: refused") }, "\(output)")
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
        let (status, output) = try await folder.siwatch("doctor", "--before-start", "--online")
        try body(status, output)
    }
}

/// `siwatch secret client`, for a service that wants a client secret pasted.
struct ClientSecretCommandTests {
    @Test(.site) func itIsSignedForTheClientAndAppleAcceptsIt() async throws {
        let (status, output) = try await site.folder.siwatch("secret", "client", "com.example.web", "--days", "30")
        #expect(status == 0 && output.count == 2, "\(output)")
        let secret = try #require(output.first { $0.hasPrefix("ey") })
        let parts = secret.split(separator: ".").compactMap { Data(base64URL: String($0)) }
        try #require(parts.count == 3)
        let header = try JSONDecoder().decode(Header.self, from: parts[0])
        #expect(header.alg == "ES256" && header.kid == SimulatedApple.keyID)
        let claims = try JSONDecoder().decode(Claims.self, from: parts[1])
        #expect(claims.iss == SimulatedApple.teamID && claims.sub == "com.example.web" && claims.aud == "https://appleid.apple.com")
        #expect(abs(claims.exp - Date().timeIntervalSince1970 - 30 * 86_400) < 600)
        let day = Date(timeIntervalSince1970: claims.exp).formatted(.iso8601.year().month().day())
        #expect(output.contains { $0.hasPrefix("ends on \(day), at ") }, "\(output)")
        #expect(try await answer(to: secret, of: "com.example.web", at: site.apple.url) == .ok)
        #expect(try await answer(to: secret, of: "com.example.app", at: site.apple.url) == .badRequest, "it is of one client")
    }

    /// 182 days are the longest that Apple accepts, in whole days.
    @Test(.site) func theLongestOneIsAccepted() async throws {
        let (_, output) = try await site.folder.siwatch("secret", "client", "com.example.app", "--days", "182")
        let secret = try #require(output.first { $0.hasPrefix("ey") })
        #expect(try await answer(to: secret, of: "com.example.app", at: site.apple.url) == .ok)
        #expect(try await site.folder.siwatch("secret", "client", "com.example.app", "--days", "183").status == 64)
        #expect(try await site.folder.siwatch("secret", "client", "com.example.app", "--days", "0").status == 64)
    }

    @Test(.site) func aClientThatNoAppHasIsRefusedWithThoseThatThereAre() async throws {
        let (status, output) = try await site.folder.siwatch("secret", "client", "com.example.other")
        #expect(status == 64)
        #expect(
            output == ["siwatch: no app of the configuration has the client com.example.other; there is com.example.app, com.example.web"]
        )
    }

    private func answer(to secret: String, of clientID: String, at url: String) async throws -> HTTPResponseStatus {
        var request = HTTPClientRequest(url: "\(url)/auth/token")
        request.method = .POST
        request.headers.add(name: "content-type", value: "application/x-www-form-urlencoded")
        let form = "grant_type=client_credentials&scope=user.migration&client_id=\(clientID)&client_secret=\(secret)"
        request.body = .bytes(ByteBuffer(string: form))
        return try await HTTPClient.shared.execute(request, timeout: .seconds(30)).status
    }

    private struct Header: Decodable {
        var alg: String
        var kid: String
    }

    private struct Claims: Decodable {
        var iss: String
        var sub: String
        var aud: String
        /// In seconds.
        var exp: Double
    }
}

extension Data {
    fileprivate init?(base64URL text: String) {
        let base64 = text.replacing("-", with: "+").replacing("_", with: "/")
        self.init(base64Encoded: base64.padding(toLength: (base64.count + 3) / 4 * 4, withPad: "=", startingAt: 0))
    }
}
