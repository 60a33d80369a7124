// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import SiwatchClient
import Testing

/// The clients in Python, JavaScript and Swift, each at the door of the real daemon.
@Suite(.timeLimit(.minutes(10))) struct ClientTests {
    private static let hasNode = Self.has("node")

    private static func has(_ program: String) -> Bool {
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
            .contains { FileManager.default.isExecutableFile(atPath: "\($0)/\(program)") }
    }

    private static let examples: [(String, String, String)] =
        [("python3", "python/check.py", ""), ("python3", "python/check.py", "asyncio")]
        + (hasNode ? [("node", "javascript/check.mjs", "")] : [])

    @Test(.door(), arguments: examples)
    func aBackendDoesItAll(_ program: String, _ script: String, client: String) async throws {
        let code = try #require(try await site.apple.signInByCode(1, nonce: "n")[0].code)
        let words = [program, Checkout.root.appending(path: "Clients/\(script)").path, code, "c0.bad", "n"]
        let environment = [
            "SIWATCH_URL": door.url, "SIWATCH_TOKEN": door.token ?? "", "CLIENT_ID": SimulatedApple.clientIDs[0],
            "SIWATCH_CLIENT": client, "PYTHONDONTWRITEBYTECODE": "1",
        ]
        let process = try ChildProcess.found(words, environment: environment)
        #expect(await process.exit() == 0 && process.output.count > 10, "\(process.output.joined(separator: "\n"))")
    }

    private static let pytest = "python3 -m pytest -q -p no:cacheprovider"

    /// Of the verification of webhooks, of the client for asyncio, of an absent siwatch, of helpers that test a backend, and of pages that
    /// swallow no error.
    private static let tests: [(String, String)] =
        [
            ("python3", "python/test_webhook.py"), ("python3", "python/test_aio.py"), (pytest, "python/test_siwatch_pytest.py"),
            (pytest, "python/test_pages.py"),
        ] + (hasNode ? ["away", "webhook", "pages", "siwatch-testing"] : []).map { ("node --test", "javascript/\($0).test.mjs") }

    /// Tests in another language. They start siwatch and the simulator themselves, if they need them.
    @Test(arguments: tests)
    func theTestsOfAClientPass(_ command: String, file: String) async throws {
        let words = command.split(separator: " ").map(String.init) + [Checkout.root.appending(path: "Clients/\(file)").path]
        let (siwatch, apple) = (try ChildProcess.program("siwatch").path, try ChildProcess.program("siwatch-simulator").path)
        let environment = ["SIWATCH": siwatch, "SIWATCH_SIMULATOR": apple, "PYTHONDONTWRITEBYTECODE": "1"]
        let tests = try ChildProcess.found(words, environment: environment)
        #expect(await tests.exit() == 0, "\(tests.output.joined(separator: "\n"))")
    }

    @Test(.door()) func aBackendInSwiftDoesItAll() async throws {
        let siwatch = try SiwatchClient(url: door.url, token: door.token ?? "")
        let start = try await siwatch.position()
        let code = try #require(try await site.apple.signInByCode(1)[0].code)
        let signIn = try await siwatch.signIn(clientID: SimulatedApple.clientIDs[0], code: code, key: "one")
        let user = try #require(signIn.user)
        let signedInAt = try #require(signIn.signedInAt)
        #expect(try await siwatch.signIn(clientID: SimulatedApple.clientIDs[0], code: code, key: "one").id == signIn.id)
        await #expect(throws: SignInRejected.self) { try await siwatch.signIn(clientID: SimulatedApple.clientIDs[0], code: code) }
        #expect(try await siwatch.state(of: user.userID)?.state == .authorized)
        #expect(try await siwatch.state(of: "nobody") == nil)
        // A path that is not siwatch's knows of nobody, either.
        let elsewhere = try SiwatchClient(url: "\(door.url)/elsewhere", token: door.token ?? "")
        await #expect(throws: SiwatchError.self) { try await elsewhere.state(of: user.userID) }
        #expect(try await siwatch.endsSession(of: user.userID, signedInAt: signedInAt) == false)

        let deletion = try await siwatch.delete(clientID: SimulatedApple.clientIDs[0], userID: user.userID)
        for try await change in siwatch.changes(after: start) where change.toState == "revoked" {
            #expect(change.userID == user.userID && change.reason == "revoked_by_app")
            break
        }
        #expect(try await siwatch.endsSession(of: user.userID, signedInAt: signedInAt) == true)
        #expect(try await siwatch.deletion(deletion.id).tokens.first?.outcome == "proved")
        await #expect(throws: ChangesGone.self) { for try await _ in siwatch.changes(after: "99999-mh6ev6r4") {} }
    }

    @Test(.door()) func theClientInSwiftWaitsForAnAbsentSiwatchOnce() async throws {
        func client(at url: String, away: Duration) throws -> SiwatchClient {
            try SiwatchClient(url: url, token: door.token ?? "", patience: .milliseconds(500), away: away)
        }
        func ask(_ siwatch: SiwatchClient) async throws -> Duration {
            let start = ContinuousClock.now
            await withTaskGroup(of: Void.self) { tasks in
                for _ in 1...20 {
                    tasks.addTask {
                        for _ in 1...10 {
                            let error = await #expect(throws: SiwatchError.self) { try await siwatch.endsSession(of: "ann", signedInAt: 5) }
                            #expect(error?.isTemporary == true && error?.status == nil)
                        }
                    }
                }
            }
            return .now - start
        }
        let siwatch = try client(at: door.url, away: .milliseconds(100))
        #expect(try await siwatch.position() == "0-0")
        try await daemon.freeze()
        defer { daemon.signal(SIGCONT) }
        #expect(try await ask(client(at: door.url, away: .seconds(600))) < .seconds(5), "frozen")
        await #expect(throws: SiwatchError.self) { try await siwatch.position() }
        daemon.signal(SIGCONT)
        try await eventually { (try? await siwatch.position()) == "0-0" }
        // Nobody listens there.
        #expect(try await ask(client(at: "http://127.0.0.1:1", away: .seconds(600))) < .seconds(5), "stopped")
    }

    /// An error of the library quotes headers.
    @Test(.door()) func noErrorQuotesTheToken() async throws {
        let token = try #require(door.token)
        let siwatch = try SiwatchClient(url: door.url, token: "\(token)\n")
        #expect(try await siwatch.position() == "0-0")
        for (url, wrong) in [(door.url, "\(token)\n\(token)"), (door.url, ""), ("127.0.0.1:9465", token), ("http:/a.example", token)] {
            let error = #expect(throws: InvalidArgument.self) { try SiwatchClient(url: url, token: wrong) }
            #expect(error?.description.contains(token) == false)
        }
        let bad = ["ftp://a.example", "http://", "http://u:p@a.example", "http://a.example:99999", "http://a.example?x", "unix:", "unix:a"]
        for url in bad + ["http://a.example\n", ""] {
            #expect(throws: InvalidArgument.self, "\(url)") { try SiwatchClient(url: url, token: token) }
        }
        await #expect(throws: InvalidArgument.self) { try await siwatch.delete(clientID: "app", userID: "ann", key: "k\r\nx: y") }
    }
}
