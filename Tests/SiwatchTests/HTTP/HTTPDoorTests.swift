// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import NIOHTTP1
import Testing

/// Backends and Apple at the HTTP door of the real daemon, on both stores.
@Suite(.timeLimit(.minutes(10))) struct HTTPDoorTests {
    private static let client = SimulatedApple.clientIDs[0]

    @Test(.door()) func whatIsWrongIsNamedAndNeverQuoted() async throws {
        // Beyond queues.clock_skew. Such a session would outlive each revocation.
        let ahead = Int64(Date.now.timeIntervalSince1970 * 1000) + 600_000
        let cases: [(body: [String: any Sendable], words: String)] = [
            ([:], "client_id is missing; user_id is missing, and only a code does without"),
            (["client_id": Self.client, "user": "secret", "code": "c"], "unknown: user; known are client_id, code"),
            (["client_id": Self.client, "code": "a secret"], "code has to be 1 to 8192 printable characters"),
            (["client_id": Self.client, "code": "c", "refresh_token": "secret"], "refresh_token stands beside code"),
            (["client_id": Self.client, "user_id": "u", "nonce": "secret"], "nonce stands without code"),
            (["client_id": Self.client, "user_id": "u", "wait": 11], "wait has to be a whole number from 0 to 10"),
            (
                ["client_id": Self.client, "user_id": "u", "signed_in_at": 1_700_000_000],
                "signed_in_at has to be a whole number of milliseconds since 1970, from 15463"
            ),
            (["client_id": 5, "user_id": "u"], "client_id has to be 1 to 255"),
            (["client_id": Self.client, "user_id": "u", "signed_in_at": ahead], "signed_in_at is minutes ahead of siwatch's clock"),
            (["client_id": Self.client, "user_id": "u", "email": "e", "is_private_email": "secret"], "is_private_email has to be"),
        ]
        for (body, words) in cases {
            let answer = try await door.post("/v1/sign-ins", body)
            #expect(answer.status == 400 && answer.text.contains(words) && !answer.text.contains("secret"), "\(answer.text)")
        }
        let unknown = try await door.post("/v1/sign-ins", ["client_id": "com.example.typo", "user_id": "u"])
        #expect(unknown.status == 400 && unknown["type"] == "urn:siwatch:problem:unknown-client", "\(unknown.text)")
        #expect(unknown["detail"] == "client_id stands in the client_ids of no [[app]]")
        for (bytes, status) in [("", 400), ("[1]", 400), ("{", 400), (String(repeating: " ", count: 70_000), 413)] {
            let answer = try await door.post("/v1/sign-ins", bytes: Data(bytes.utf8), ["content-type": "application/json"])
            #expect(answer.status == status, "\(answer.text)")
        }
        #expect(try await door.post("/v1/sign-ins", bytes: Data("{}".utf8)).status == 415)
        for path in [
            "/v1/users/a?app=typo", "/v1/users/", "/v1/users/a%20b", "/v1/users/a/ends-session",
            "/v1/users/a/ends-session?signed_in_at=1", "/v1/users/a/ends-session?signed_in_at=\(ahead)",
            "/v1/users/a/ends-session?signed_in_at=1795714408384&signed_in_at=1795714408384",
            "/v1/changes?afer=1", "/v1/changes?after=1", "/v1/changes?after=01-a",
        ] { #expect(try await door.get(path).status == 400, "\(path)") }
        #expect(try await door.get("/v1/users/a/ends-session?signed_in_at=\(ahead - 540_000)")["ends_session"] == "0")
        for path in ["/", "/v1", "/v1/sign-ins/9", "/v1/sign-ins/01-a", "/v1/sign-ins/99-a", "/v1/deletions/99-a"] {
            #expect(try await door.get(path).status == 404, "\(path)")
        }
        let method = try await door.get("/v1/sign-ins")
        #expect(method.status == 405 && method.headers.first(name: "allow") == "POST")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }

    // MARK: Apple's notifications

    @Test(.door(onEach: SiteDatabase.allCases)) func whatAppleSignedIsTakenAndWhatItDidNotIsRefused() async throws {
        var apple = door
        apple.token = nil
        let people = try await site.apple.signIn(2)
        try await site.settle(people)
        let news = try await site.apple.notify(RevokeConsent(), users: people.map(\.userID))
        let payload = try #require(try JSONDecoder().decode([String: String].self, from: Data(news[1].body.utf8))["payload"])
        // Apple's own form, and the bare JWS; twice, because Apple tries again.
        for body in [news[0].body, payload, payload] {
            #expect(try await apple.post("/apple/notifications", bytes: Data(body.utf8)).status == 200)
        }
        try await site.backend.until("SELECT COUNT(*) FROM user_state WHERE reason = 'consent_revoked'", is: 2)

        let forged = payload.dropLast(8) + "AAAAAAAA"
        for _ in 1...20 {
            let answer = try await apple.post("/apple/notifications", bytes: Data("{\"payload\":\"\(forged)\"}".utf8))
            #expect(answer.status == 401 && answer["type"] == "urn:siwatch:problem:forged")
        }
        // A few of them are kept, so that an operator sees what comes.
        try await site.backend.until("SELECT COUNT(*) FROM notification_queue", is: 0)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM notification_quarantine WHERE reason = 'bad_signature'") == 5)
        for (body, status) in [
            ("", 400), ("{}", 400), ("{\"signedPayload\":\"a.b.c\"}", 400), (String(repeating: "x", count: 65_537), 413),
        ] { #expect(try await apple.post("/apple/notifications", bytes: Data(body.utf8)).status == status) }
        let wrongURL = try await apple.post("/apple/notifications", bytes: Data("{\"signedPayload\":\"a.b.c\"}".utf8))
        #expect(wrongURL["type"] == "urn:siwatch:problem:app-store-notification")
        #expect(try await door.post("/v1/notifications", bytes: Data(news[0].body.utf8)).status == 200)
        #expect(try await apple.post("/v1/notifications", bytes: Data(news[0].body.utf8)).status == 401)
    }

    /// Anybody may post there: forgeries, and what Apple has signed for an app of theirs.
    @Test(.door("max_requests_per_second = 1")) func aFloodNeitherKeepsAppleOutNorFillsTheDisk() async throws {
        var apple = door
        apple.token = nil
        let person = try await site.apple.signIn(1)[0]
        try await site.settle([person])
        let news = try await site.apple.notify(RevokeConsent(), users: [person.userID])
        func post(_ body: String) async throws -> Int { try await apple.post("/apple/notifications", bytes: Data(body.utf8)).status }
        func flood(_ body: String) async throws -> [Int] {
            var statuses: [Int] = []
            for _ in 1...500 where statuses.last != 429 { statuses.append(try await post(body)) }
            return statuses
        }
        #expect(try await flood("{\"payload\":\"a.b.c\"}").last == 429)
        #expect(try await post(news[0].body) == 200)

        let elsewhere = Emission { $0.audience = .exactly("com.example.another-team") }
        let foreign = try await site.apple.notify(RevokeConsent(), users: try await site.apple.signIn(1).map(\.userID), elsewhere)
        // A new minute may begin meanwhile.
        let statuses = try await flood(foreign[0].body)
        #expect(statuses.count > 60 && statuses.last == 429 && statuses.dropLast().allSatisfy { $0 == 200 }, "\(statuses)")
        // Nor does a key that nobody knows buy room: such rows wait for twelve minutes.
        let unknownKey = Emission { $0.signature = .unknownKey }
        let unknown = try await site.apple.notify(FalseEvent(.consentRevoked), users: [person.userID], unknownKey)
        for long in [foreign[0].body, unknown[0].body] {
            #expect(try await post("\(long.dropLast()),\"padding\":\"\(String(repeating: "x", count: 9000))\"}") == 413)
        }
        #expect(try await post(news[0].body) == 200)
    }

    /// A mistyped address shows in `doctor`, and a secret in the place of a token, too.
    @Test func checkNamesTheDoorAndEachDelivery() async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        let tables = try Door.table(in: folder).merging(Hook.table(in: folder, port: 9)) { $1 }
        try await Site.with(folder, tables) { _ in
            let door = "\nok       HTTP door 127.0.0.1:0: backend (delete, notify, read, sign_in)\n"
            try await folder.expect("doctor --before-start", 0, door, "\nok       delivery hook: http://127.0.0.1:9/hook\n")
            let token = folder.url.appending(path: Door.tokenFile)
            try FileManager.default.removeItem(at: token)
            try await folder.expect("doctor --before-start", says: "siwatch secret new token makes one")
            try FileManager.default.copyItem(at: folder.url.appending(path: "hook.whsec"), to: token)
            try await folder.expect("doctor --before-start", says: "is the secret of a [[delivery]], and no token")
        }
    }

    @Test(.door(at: "./none/http.sock", runs: false)) func aSocketWithoutItsFolderIsNamed() async throws {
        let words = ("the folder \(site.folder.url.path)/", "/none is not there")
        for (command, code) in [("doctor --before-start", Int32(0)), ("run", 69)] {
            try await site.folder.expect(command, code, words.0, words.1, not: "Server shutdown error")
        }
    }

    @Test(.door()) func theIntakeIsTestedAsAppleWouldAskIt() async throws {
        @Sendable func test(_ url: String) async throws -> (status: Int32, text: String) {
            let (status, output) = try await site.folder.siwatch("doctor", "--intake", url)
            return (status, output.joined(separator: "\n"))
        }
        // Loopback without TLS is all that is wrong with it.
        var (status, text) = try await test("\(door.url)/apple/notifications")
        #expect(status == 1 && text.contains("which Apple cannot reach") && text.contains("https: URLs only"), "\(text)")
        #expect(text.contains("ok       a forgery is refused with 401"), "\(text)")
        #expect(text.contains("ok       the siwatch on this database answers there"), "\(text)")
        // The forgery leaves a sample, and the question nothing.
        try await site.backend.until("SELECT COUNT(*) FROM notification_queue", is: 0)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM notification_quarantine") == 1)

        (status, text) = try await test("\(door.url)/notifications")
        #expect(status == 2 && text.contains("wrong    nothing takes a POST at this path: 404"), "\(text)")
        (status, text) = try await test("https://\(door.url.dropFirst(7))/apple/notifications")
        #expect(status == 2 && text.contains("wrong    no TLS 1.2 connection with a valid certificate"), "\(text)")
        for url in ["ftp://example.com", "https://127.0.0.1:65536/"] {
            (status, text) = try await test(url)
            #expect(status == 64, "\(text)")
        }

        let somebodyElse = HookReceiver()
        try await somebodyElse.serve { port in
            let url = "http://127.0.0.1:\(port)/apple/notifications"
            for (answer, words) in [
                (200, "a forgery is taken with 200"), (302, "it redirects with 302"), (502, "does not reach siwatch"),
                (401, "the answer 401 is none of the siwatch on this database"),
            ] {
                somebodyElse.answer { _ in answer }
                let (status, text) = try await test(url)
                #expect(status == 2 && text.contains(words), "\(text)")
            }
        }
    }

    /// The name of the URL is read, and siwatch asks there from its start on.
    @Test func theIntakeIsTestedByItself() async throws {
        let receiver = HookReceiver()
        receiver.answer { _ in 404 }
        try await receiver.serve { port in
            try await Site.with(["http": "listen = \"127.0.0.1:0\"\nnotifications_url = \"http://127.0.0.1:\(port)/apple\""]) { site in
                try await site.daemon { _ in
                    let asked = try await receiver.hooks(count: 1)
                    #expect(asked[0].path == "/apple" && asked[0].body.hasPrefix("{\"siwatch_test\":"), "\(asked)")
                }
            }
        }
    }

    // MARK: Who may

    @Test(.door(rights: ["read"], "max_requests_per_second = 20")) func onlyWhoHoldsATokenMayAndOnlyWhatItMay() async throws {
        var stranger = door
        for token in [nil, "", String(repeating: "x", count: 44), (door.token ?? "") + "x"] {
            stranger.token = token
            let answer = try await stranger.get("/v1/changes")
            #expect(answer.status == 401 && answer.headers.first(name: "www-authenticate") == "Bearer")
        }
        let forbidden = try await door.post("/v1/sign-ins", ["client_id": Self.client, "user_id": "u"])
        #expect(forbidden.status == 403 && forbidden.text.contains("lacks the right sign_in"))
        #expect(try await door.get("/openapi.json")["openapi"] == "3.1.0")

        // A second token comes while the first one still counts, and then the first one goes.
        let old = try #require(door.token)
        #expect(try await CommandCall.siwatch(["secret", "new", "token", site.folder.path("new.token")]).status == 0)
        try site.folder.edit("token_files = [\"backend.token\"]", "token_files = [\"backend.token\", \"new.token\"]")
        var new = door
        new.token = try String(contentsOf: site.folder.url.appending(path: "new.token"), encoding: .utf8).trimmingCharacters(in: .newlines)
        daemon.signal(SIGHUP)
        #expect(await daemon.line(containing: "\"event\":\"reloaded\"") != nil)
        #expect(try await door.get("/v1/changes").status == 200)
        #expect(try await new.get("/v1/changes").status == 200)

        let eager = new
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 1...100 { group.addTask { try await eager.get("/v1/changes").status } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(statuses) == [200, 429])
        #expect(!daemon.output.joined().contains(old))
    }
}
