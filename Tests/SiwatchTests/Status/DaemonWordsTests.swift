// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import AsyncHTTPClient
import DaemonHarness
import Foundation
import NIOCore
import NIOHTTP1
import Testing

/// What a running siwatch says of itself, by its page, `/status.json` and `siwatch status`.
struct DaemonWordsTests {
    private static let socket = ["operations": "socket = \"siwatch.sock\""]

    @Test(.site(onEach: SiteDatabase.allCases, listen: "127.0.0.1:0", socket)) func statusIsTheDaemonsOwnWord() async throws {
        let folder = site.folder
        #expect(try await folder.expect("status --line", 2) == ["down: no siwatch runs on this database"])
        try await site.daemon { daemon in
            try await site.settle(try await site.apple.signIn(3))
            try await site.backend.until("SELECT CASE WHEN MAX(verified_at) IS NULL THEN 0 ELSE 1 END FROM credential", is: 1)
            let page = try await Self.status(folder) { $0.output.contains { $0.contains(" insert, tried ") } }
            #expect(page.output[1] == "health: healthy", "\(page)")
            #expect(page.output.contains { $0.contains("  \(daemon.identifier) on ") && $0.hasSuffix(", ready") }, "\(page)")
            let checks = /\ +checks +Apple last answered 200, .* ago/
            #expect(page.output.contains { $0.wholeMatch(of: checks) != nil }, "\(page)")
            #expect(try await folder.expect("status --line", 0) == ["healthy"])

            let document = try StatusDocument(try await folder.siwatch("status", "--json").output.joined(separator: "\n"))
            #expect(document.schema == 1 && document.health == "healthy")
            #expect(document.daemon?.answers.contains { $0.lane == "checks" && $0.kind == "200" } == true)
            // The same over TCP. The socket is for its user alone.
            let served = try await OperationsPages(of: daemon).get("status.json")
            #expect(try StatusDocument(served).daemon?.processId == daemon.identifier)
            #expect(try folder.mode(of: "siwatch.sock") == 0o600)

            // A file that the next start would refuse does not silence it.
            try folder.edit("team_id", "team_ids")
            // Without a configuration only the usual socket is known.
            try await folder.expect("status", 78)
            try folder.edit("team_ids", "team_id")
        }
        #expect(!FileManager.default.fileExists(atPath: folder.path("siwatch.sock")))
    }

    /// A line of the configuration may be lost. Then siwatch does not believe Apple's events for the app either.
    @Test(.site) func anAppThatLeftTheConfigurationIsSaid() async throws {
        let people = try await site.apple.signIn(2)
        try await site.daemon { _ in try await site.settle(people) }
        try site.folder.edit("name = \"example\"", "name = \"other\"")
        for client in SimulatedApple.clientIDs { try site.folder.edit(client, "org.\(client)") }
        try await site.daemon { _ in
            try await site.tell(try await site.apple.notify(RevokeConsent(), users: [people[0].userID]))
            try await site.backend.until("SELECT COUNT(*) FROM notification_quarantine", is: 1)
        }
        let left = "example is not in the configuration, so nobody asks Apple about its 2 users"
        try await site.folder.expect("status", says: left, "1 notification that Apple signed is in quarantine (wrong_audience 1)")
    }

    /// It may be a line that is lost.
    @Test(.site(onEach: SiteDatabase.allCases)) func aClientThatLeftIsSaid() async throws {
        let person = try #require(try await site.apple.signIn(1).first)
        try await site.daemon { _ in try await site.settle([person]) }
        try site.folder.edit(person.clientID, "org.\(person.clientID)")
        try await site.daemon { _ in
            let left = "the client \(person.clientID) of example is not in the configuration, so nobody asks Apple about its tokens"
            try await site.folder.expect("status", says: left)
            let client = "the client is not in the configuration, so nobody asks Apple about it"
            try await site.folder.expect("explain \(person.userID)", says: client, not: "the check at")
            let words = "\(person.clientID) is not in \(site.folder.configurationPath), so nobody asks Apple there"
            try await site.folder.expect("recheck \(person.userID)", 1, words)
            try await site.folder.expect("recheck --app example", 0, words)
        }
    }

    private static func hasFigures(_ scrape: String) -> Bool {
        scrape.contains("\nsiwatch_queue_depth{") && scrape.contains("\nsiwatch_tables_read_timestamp_seconds 1")
    }

    /// Only the threads of its connections wait for the server.
    @Test(.server(listen: "127.0.0.1:0", runs: true)) func aServerThatHangsHoldsUpNoPage() async throws {
        _ = try await pages.get("status.json")
        _ = try await pages.get("metrics", within: .seconds(30)) { Self.hasFigures($0) }
        server.signal(SIGSTOP)
        defer { server.signal(SIGCONT) }
        // The last figures, with their time. Prometheus waits for ten seconds by default, and people for less.
        let start = ContinuousClock.now
        let scrape = try await pages.get("metrics")
        #expect(ContinuousClock.now - start < .seconds(3) && Self.hasFigures(scrape), "\(scrape)")
        for _ in 1...3 {
            // Each waits for 30 seconds at most.
            async let others = (pages.get("status.json"), pages.get("metrics"))
            _ = try await (pages.get(""), others)
        }
        let ready = try await pages.get("readyz", within: .seconds(30)) { $0 != "ok\n" }
        #expect(ready != "ok\n")
    }

    /// It is the cause of three findings, and of two reasons not to be ready.
    @Test(.server(listen: "127.0.0.1:0", tables: socket)) func aServerThatIsAwayIsNamedOnce() async throws {
        try await site.daemon { daemon in
            let pages = try await OperationsPages(of: daemon)
            try await pages.expect("readyz", is: "ok\n")
            server.takeDown()
            let reason = "the database cannot be reached"
            // The daemon may not know yet.
            let early = try await site.folder.siwatch("doctor").output
            #expect(early.contains { $0.hasPrefix("wrong ") && $0.contains(reason) }, "\(early)")
            #expect(!early.contains { $0.contains("siwatch works") }, "\(early)")
            let ready = try await pages.expect("readyz", shows: "insert: \(reason)", "no progress")
            #expect(ready.components(separatedBy: reason).count == 2, "\(ready)")
            let above = "the database does not answer, as above"
            let page = try await pages.expect("", shows: "siwatch is not ready, as above; no progress", above)
            #expect(page.components(separatedBy: reason).count == 2, "\(page)")
            // An old figure would pass for today's.
            try await pages.expect("metrics", shows: "siwatch_", not: "\nsiwatch_queue_depth{")
            let doctor = try await site.folder.siwatch("doctor").output.joined(separator: "\n")
            #expect(doctor.components(separatedBy: reason).count == 2 && !doctor.contains("directory Is"), "\(doctor)")
            try await site.folder.expect("status --line", 2, "\ndown: backends cannot insert: \(reason)")
            try server.bringUp()
        }
        server.takeDown()
        // It could not start.
        try await site.folder.expect("status", says: "no siwatch answers on this host", not: "systemctl start")
    }

    @Test(.daemon(socket)) func aFrozenDaemonIsNamed() async throws {
        _ = try await Self.status(site.folder) { $0.output.contains { $0.hasPrefix("  process ") } }
        try await daemon.freeze()
        defer { daemon.signal(SIGCONT) }
        let silence = "siwatch.sock does not answer: no answer within 5 s\n"
        try await site.folder.expect("status", says: silence, "none has answered: from the tables alone\n")
        try await site.folder.expect("status --line", 2, "\ndown: the siwatch at ")
    }

    /// In a folder that others may write, somebody else might answer. siwatch does not listen there, and is well without.
    @Test(.site(socket)) func aSocketThatOthersCouldReplaceIsNotUsed() async throws {
        let folder = site.folder
        try #require(chmod(folder.url.path, 0o770) == 0)
        try await site.daemon { daemon in
            #expect(await daemon.line(containing: "socket_unavailable")?.contains("other users may write its folder") == true)
            let words = "\ndegraded: siwatch runs and cannot be asked, so the tables alone speak; "
            try await folder.expect("status --line", 1, words, "siwatch.sock: other users may write its folder")
        }
    }

    /// A second unit with the same RuntimeDirectory= takes the folder's sockets away as it ends.
    @Test(.site(listen: "127.0.0.1:0", socket)) func aSocketThatIsRemovedIsMadeAgain() async throws {
        let folder = site.folder
        let socket = folder.path("siwatch.sock")
        try await site.daemon { daemon in
            _ = try await Self.status(folder) { $0.output.contains { $0.contains(" insert, tried ") } }
            for _ in 1...2 {
                try #require(unlink(socket) == 0)
                let silent = try await folder.siwatch("status", "--line")
                #expect(silent.output == ["healthy"] || silent.status == 1, "\(silent)")
                try await eventually { FileManager.default.fileExists(atPath: socket) }
                let again = try await Self.status(folder) { $0.status == 0 }
                #expect(again.output.contains { $0.contains("  \(daemon.identifier) on ") }, "\(again)")
                #expect(try folder.mode(of: "siwatch.sock") == 0o600)
            }

            // Without a socket, health asks where the pages are.
            let line = try #require(await daemon.line(containing: "Metrics and health are served"))
            let address = try #require(line.firstMatch(of: /127\.0\.0\.1:[0-9]+/)).output
            try folder.edit("siwatch.sock", "other.sock")
            try await folder.expect("status --line", 1, "other.sock: nobody listens there")
            try folder.edit("127.0.0.1:0", String(address))
            #expect(try await folder.siwatch("status", "--line").output == ["healthy"])
            try await folder.expect("status", says: "  \(daemon.identifier) on ")
        }
        #expect(try await folder.expect("status --line", 2) == ["down: no siwatch runs on this database"])
    }

    /// An upgrade without a restart.
    @Test(.site(listen: "127.0.0.1:0")) func aProgramThatIsReplacedIsSaid() async throws {
        let program = site.folder.url.appending(path: "siwatch")
        try FileManager.default.copyItem(at: try ChildProcess.program("siwatch"), to: program)
        let daemon = try ChildProcess(program, ["run", "--config", site.folder.configurationPath])
        defer { daemon.signal(SIGKILL) }
        let pages = try await OperationsPages(of: daemon)
        let words = "the program's file was replaced or removed"
        #expect(try await !pages.get("").contains(words))
        try FileManager.default.removeItem(at: program)
        try await pages.expect("", shows: words)
        // No remedy before it was tried: the new program refuses the configuration, then its successor takes it.
        func put(_ script: String) throws { try site.folder.write("#!/bin/sh\n\(script)\n", to: "siwatch", mode: 0o755) }
        try put("echo 'siwatch: app[0].nmae: is not a key' >&2; exit 78")
        let (obstacle, restart) = ("would not start: app[0].nmae: is not a key\n", "sudo systemctl restart siwatch")
        try await pages.expect("", shows: obstacle, "health: degraded", not: restart)
        try put("echo 'siwatch: the file has schema version 1; siwatch migrate brings it up to date' >&2; exit 78")
        try await pages.expect("", shows: restart, not: "would not start")
    }

    /// The daemon goes on with the key of its start, and nobody would notice before the next start.
    @Test(.daemon(listen: "127.0.0.1:0")) func aKeyFileThatIsGoneOrAnotherIsSaid() async throws {
        let key = site.folder.url.appending(path: "siwatch.key")
        let good = try String(contentsOf: key, encoding: .utf8)
        #expect(try await !pages.get("").contains("would not start again"))
        try FileManager.default.removeItem(at: key)
        try await pages.expect("", shows: "would not start again: ", "\(key.path) is not there")
        try await pages.expect("metrics", shows: "\nsiwatch_findings{severity=\"down\"} 0\n")
        let other = "siwatch-sealing-key-1:\(Data(repeating: 7, count: 32).base64EncodedString())\n"
        try site.folder.write(other, to: "siwatch.key")
        try await pages.expect("", shows: "no longer holds the key")
        try site.folder.write(other + good, to: "siwatch.key")
        try await pages.expect("", shows: "health", not: "no longer holds the key")
    }

    /// A browser gets the page under a policy that forbids everything else; `curl` gets text. Neither names a user.
    @Test(.site(listen: "127.0.0.1:0")) func thePageIsServed() async throws {
        let users = try await site.apple.signIn(3)
        try site.folder.edit("client_ids", "canaries = [\"\(users[0].userID)\", \"<script>nobody</script>\"]\nclient_ids")
        try await site.daemon { daemon in
            try await site.settle(users)
            let line = try #require(await daemon.line(containing: "Metrics and health are served"))
            let address = try #require(line.firstMatch(of: /127\.0\.0\.1:[0-9]+/)).output
            var request = HTTPClientRequest(url: "http://\(address)/")
            request.headers.add(name: "accept", value: "text/html,*/*;q=0.8")
            let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
            let page = String(buffer: try await response.body.collect(upTo: 1 << 20))
            #expect(response.headers.first(name: "content-type") == "text/html; charset=utf-8")
            let policy = response.headers.first(name: "content-security-policy") ?? ""
            #expect(policy.contains("default-src 'none'") && policy.contains("script-src 'sha256-"))
            #expect(page.contains("<h1 id=\"verdict\">") && page.hasSuffix("</html>\n"))
            for text in users.map(\.userID) + ["nobody"] { #expect(!page.contains(text), "\(text)") }
            let text = try await OperationsPages(of: daemon).get("")
            #expect(text.hasPrefix("siwatch ") && !text.contains("<") && !text.contains(users[0].userID), "\(text)")
        }
    }

    private static func status(
        _ folder: WatchedFolder,
        until isMet: ((status: Int32, output: [String])) -> Bool
    ) async throws -> (status: Int32, output: [String]) {
        let end = ContinuousClock.now + .seconds(60)
        var said: (status: Int32, output: [String]) = (0, [])
        try await eventually {
            said = try await folder.siwatch("status")
            return isMet(said) || .now > end
        }
        return said
    }
}
