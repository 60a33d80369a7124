// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import AsyncHTTPClient
import DaemonHarness
import Foundation
import GRDB
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import SQLiteStore
import Testing

/// The HTTP door where something goes wrong, and where it stands elsewhere than on a loopback port.
@Suite(.timeLimit(.minutes(10))) struct HTTPDoorTroubleTests {
    private static let client = SimulatedApple.clientIDs[0]

    /// Where backends come over HTTP only, none opens the file, and nobody has to set a PRAGMA.
    @Test(.door(runs: false)) func noPragmaIsAskedOfBackendsThatComeOverHTTP() async throws {
        let advice = "PRAGMA wal_autocheckpoint=0"
        try await site.folder.expect("status", 2, not: advice)
        try await Site.with { site in
            let page = try await site.folder.siwatch("status").output.joined()
            #expect(page.contains(advice) == SQLiteLibrary.hasWALResetBug, "\(page)")
        }
    }

    @Test(.door(onEach: SiteDatabase.allCases, runs: false)) func aKillTellsNothingTwice() async throws {
        for round in 1...4 {
            let daemon = try await site.folder.startDaemon()
            let door = try await Door(of: daemon, in: site.folder)
            let request: [String: any Sendable] = ["client_id": Self.client, "user_id": "user.\(round)"]
            let key = ["idempotency-key": "\(round)"] as HTTPHeaders
            async let answer = try? door.post("/v1/sign-ins", request, key)
            if round % 2 == 0 { try await eventually { try await site.backend.int("SELECT COUNT(*) FROM request_key") >= round } }
            await daemon.end(by: SIGKILL)
            _ = await answer
            try await site.daemon { daemon in
                let door = try await Door(of: daemon, in: site.folder)
                var again = try await door.post("/v1/sign-ins", request.merging(["wait": 1]) { $1 }, key)
                while again["outcome"] == "waiting" {
                    // On a server, the claim of the dead process ends with its lease, a minute later.
                    try await site.backend.execute("UPDATE grant_queue SET due_at = 0")
                    again = try await door.get("/v1/sign-ins/\(again["id"] ?? "")?wait=10")
                }
                #expect(again.status == 200 && again["user.user_id"] == "user.\(round)", "\(again.text)")
            }
            #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log") == round)
        }
    }

    @Test(.door(listen: "127.0.0.1:0")) func aLockedDatabaseIsSaidAndNothingIsKept() async throws {
        let body = Data((try await site.apple.notify(RevokeConsent(), users: try await site.apple.signIn(1).map(\.userID)))[0].body.utf8)
        var configuration = GRDB.Configuration()
        configuration.allowsUnsafeTransactions = true
        let blocker = try DatabaseQueue(path: site.folder.databasePath, configuration: configuration)
        try await blocker.writeWithoutTransaction { db in try db.execute(sql: "BEGIN IMMEDIATE") }
        let refused = try await door.post("/apple/notifications", bytes: body)
        #expect(refused.status == 503 && refused.headers.first(name: "retry-after") == "1", "\(refused.text)")
        #expect(try await door.post("/v1/sign-ins", ["client_id": Self.client, "user_id": "ann"]).status == 503)
        // Reading goes on.
        #expect(try await door.get("/v1/users/ann").status == 404)
        while !daemon.output.contains(where: { $0.contains("\"event\":\"door_failed\"") }) {
            try Task.checkCancellation()
            #expect(try await door.post("/v1/sign-ins", ["client_id": Self.client, "user_id": "ann"]).status == 503)
        }
        let page = try await pages.get("readyz")
        #expect(page.contains("the HTTP door finds no database for writing: the database is locked"), "\(page)")
        #expect(page.components(separatedBy: "the database is locked").count == 2, "a cause stands once: \(page)")
        try await blocker.writeWithoutTransaction { db in try db.execute(sql: "ROLLBACK") }
        #expect(try await door.post("/apple/notifications", bytes: body).status == 200)
        #expect(await daemon.line(containing: "\"event\":\"door_recovered\"") != nil)
        try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 1)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }

    /// A backend that swallows its answers tells nobody.
    @Test(.door(listen: "127.0.0.1:0")) func whatTheDoorRefusesIsAFinding() async throws {
        // Seconds in place of milliseconds.
        for _ in 1...10 { #expect(try await door.get("/v1/users/secret/ends-session?signed_in_at=1795714408").status == 400) }
        let down = try await pages.get("")
        let words = "refused 10 of 10 requests of backend (endsSession) within ten minutes, and has served none since its start"
        #expect(down.contains("health: down") && down.contains(words), "\(down)")
        #expect(down.contains("bad-request: signed_in_at has to be"), "\(down)")
        #expect(down.contains("#siwatchdooruseless") && !down.contains("secret") && !down.contains("1795714408"))
        #expect(await daemon.line(containing: "\"event\":\"requests_refused\"")?.contains("\"client\":\"backend\"") == true)
        #expect(try await pages.get("metrics").contains("siwatch_http_refusals{client=\"backend\"} 2"))

        for id in 1...10 { #expect(try await door.get("/v1/users/\(id)").status == 404) }
        let late = Int64(Date().timeIntervalSince1970 * 1000) - 5 * 3_600_000
        for id in 1...10 {
            let signIn: [String: any Sendable] = ["client_id": Self.client, "user_id": "u\(id)", "signed_in_at": late]
            #expect(try await [200, 202].contains(door.post("/v1/sign-ins", signIn).status))
        }
        let doubted = try await pages.get("")
        let unknown = "10 of 10 requests of backend (getUser) within ten minutes that were hardly meant: siwatch knows none"
        #expect(doubted.contains(unknown), "\(doubted)")
        #expect(doubted.contains("(signIn) within ten minutes that were hardly meant: signed_in_at is more than"), "\(doubted)")

        #expect(try await door.get("/v1/changes").status == 200)
        var stranger = door
        stranger.token = "another"
        for _ in 1...5 { #expect(try await stranger.get("/v1/users/ann").status == 401) }
        let degraded = try await pages.get("")
        let others = "refused 5 of 5 requests without a token that siwatch knows (getUser) within ten minutes, the last"
        #expect(degraded.contains("health: degraded") && degraded.contains(others), "\(degraded)")
        #expect(degraded.contains("refused 10 of 10 requests of backend (endsSession)"))
        #expect(degraded.contains("#siwatchrequestsrefused"))

        #expect(try await door.post("/v1/sign-ins", ["client_id": Self.client, "user_id": "ann", "wait": 10]).status == 200)
        for _ in 1...100 {
            let now = Int64(Date().timeIntervalSince1970 * 1000)
            #expect(try await door.get("/v1/users/ann/ends-session?signed_in_at=\(now)").status == 200)
        }
        let always = try await pages.get("")
        #expect(always.contains("(endsSession) within ten minutes that were hardly meant: signed_in_at is the time"), "\(always)")
    }

    @Test(.server(hasDoor: true, runs: true)) func aServerThatIsAwayOrHangsIsSaidAndComesBack() async throws {
        // A follower waits on, and hears of the change that comes later.
        async let poll = door.get("/v1/changes?after=0-0&wait=25")
        for _ in 1...20 { _ = try await door.get("/v1/changes") }
        server.takeDown()
        for path in ["/v1/users/ann", "/v1/changes", "/v1/sign-ins/1-mh6ev6r4"] {
            #expect(try await door.get(path).status == 503, "\(path)")
        }
        #expect(try await signIn(at: door).status == 503)
        try server.bringUp()
        try await signsInOnce(at: door)
        let page = try await poll
        #expect(page.status == 200 && page["changes.0.user_id"] == "ann", "\(page.text)")
        // It takes connections and answers nothing. Who asks is told so, long before the connection is found dead.
        server.signal(SIGSTOP)
        async let (told, asked) = (signIn(at: door), door.get("/v1/users/ann"))
        async let follower = door.get("/v1/changes?after=0-0&wait=1")
        let statuses = try await [told.status, asked.status, follower.status]
        server.signal(SIGCONT)
        #expect(statuses == [503, 503, 503])
        try await signsInOnce(at: door)
    }

    /// A shell or a container may allow few files. The idlest connections close, and Apple, the database and the next backend have room.
    @Test(.door(listen: "127.0.0.1:0", runs: false)) func idleConnectionsLeaveRoomForEverythingElse() async throws {
        let limited = ["--nofile=256:256", try ChildProcess.program("siwatch").path, "run", "--config", site.folder.configurationPath]
        let daemon = try ChildProcess(URL(filePath: "/usr/bin/prlimit"), limited)
        defer { daemon.signal(SIGKILL) }
        let door = try await Door(of: daemon, in: site.folder)
        let pages = try await OperationsPages(of: daemon)
        let port = try #require(Int(door.url.split(separator: ":").last ?? ""))
        var idle: [any Channel] = []
        for _ in 1...400 {
            idle.append(try await ClientBootstrap(group: HTTPClient.defaultEventLoopGroup).connect(host: "127.0.0.1", port: port).get())
        }
        try await eventually { idle.first?.isActive == false }
        #expect(idle.last?.isActive == true)
        try await site.settle(try await site.apple.signIn(3))
        try await site.backend.until("SELECT CASE WHEN MAX(verified_at) IS NULL THEN 0 ELSE 1 END FROM credential", is: 1)
        #expect(try await signIn(at: door).status == 200)
        #expect(try await pages.get("readyz") == "ok\n")
        for channel in idle { try? await channel.close() }
        await daemon.end(by: SIGTERM)
    }

    private func signIn(at door: Door) async throws -> Door.Answer {
        try await door.post("/v1/sign-ins", ["client_id": Self.client, "user_id": "ann", "wait": 10], ["idempotency-key": "k"])
    }

    /// However often it was told meanwhile.
    private func signsInOnce(at door: Door) async throws {
        var answer = try await signIn(at: door)
        // 202 while the lanes have not found the server again.
        while [202, 503].contains(answer.status) { answer = try await signIn(at: door) }
        #expect(answer.status == 200, "\(answer.text)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log") == 1)
    }

    /// At a reload they have to show the token again, which may be gone. A stop does not wait for them.
    @Test(.door()) func aReloadAndAStopAnswerFollowersThatWait() async throws {
        for signal in [SIGHUP, SIGTERM] {
            let start = ContinuousClock.now
            async let poll = door.get("/v1/changes?after=0-0&wait=25")
            async let stream = door.get("/v1/changes?after=0-0", ["accept": "text/event-stream"])
            // Until both wait, a request of another client has been answered.
            for _ in 1...20 { _ = try await door.get("/v1/changes") }
            daemon.signal(signal)
            #expect(try await poll.status == 200)
            #expect(try await stream.status == 200)
            #expect(ContinuousClock.now - start < .seconds(20))
        }
        #expect(await daemon.exit() == 0)
    }

    @Test(.door(at: "./door.sock", "socket_mode = \"600\"", runs: false)) func aUnixSocketHasItsMode() async throws {
        let path = site.folder.path("door.sock")
        for _ in 1...2 {
            // A kill leaves the socket behind, and the next start takes its place.
            let daemon = try await site.folder.startDaemon()
            #expect(await daemon.line(containing: "Backends are served over HTTP") != nil)
            #expect(try site.folder.mode(of: "door.sock") == 0o600)
            let url = try #require(URL(httpURLWithSocketPath: path, uri: "/openapi.json"))
            #expect(try await HTTPClient.shared.execute(HTTPClientRequest(url: url.absoluteString), timeout: .seconds(30)).status == .ok)
            await daemon.end(by: SIGKILL)
        }
        try await site.daemon { _ in }
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test func otherHostsNeedACertificate() async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        let authority = try await CertificateAuthority(in: folder)
        _ = try await authority.issue()
        try #require(chmod(folder.path("receiver.key"), 0o600) == 0)
        let table = try Door.table(in: folder, "certificate_file = \"receiver.pem\"\ncertificate_key_file = \"receiver.key\"")
        _ = try await Site.with(folder, table) { site in
            let certificate = folder.url.appending(path: "receiver.pem")
            let pem = try Data(contentsOf: certificate)
            try Data("-----BEGIN CERTIFICATE-----\nsecret\n-----END CERTIFICATE-----\n".utf8).write(to: certificate)
            try await folder.expect("doctor --before-start", 78, not: "secret")
            try pem.write(to: certificate)
            try folder.edit("listen = \"127.0.0.1:0\"", "listen = \"0.0.0.0:0\"")
            try await folder.expect("doctor --before-start", 78, "http.listen")
            try folder.edit("listen = \"0.0.0.0:0\"", "listen = \"127.0.0.1:0\"")
            try await site.daemon { daemon in
                let door = try await Door(of: daemon, in: folder)
                var tls = TLSConfiguration.makeClientConfiguration()
                tls.trustRoots = .file(authority.certificatePath)
                let client = HTTPClient(configuration: HTTPClient.Configuration(tlsConfiguration: tls))
                var request = HTTPClientRequest(url: door.url.replacing("http://", with: "https://") + "/v1/changes")
                request.headers.add(name: "authorization", value: "Bearer \(door.token ?? "")")
                let answer = try? await client.execute(request, timeout: .seconds(30))
                try await client.shutdown()
                #expect(answer?.status == .ok)
                // The door speaks no plain HTTP any more.
                await #expect(throws: (any Error).self) { try await door.get("/v1/changes") }
            }
        }
    }
}
