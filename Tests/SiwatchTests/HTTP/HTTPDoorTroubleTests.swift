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

    private func withSite(
        on database: SiteDatabase = .file,
        listen: String = "127.0.0.1:0",
        _ more: String = "",
        _ body: (Site) async throws -> Void
    ) async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        _ = try await Site.with(folder, on: database, listen: "127.0.0.1:0", try Door.table(in: folder, listen: listen, more), body)
    }

    /// Where backends come over HTTP only, none opens the file, and nobody has to set a PRAGMA.
    @Test func noPragmaIsAskedOfBackendsThatComeOverHTTP() async throws {
        let advice = "PRAGMA wal_autocheckpoint=0"
        try await withSite { site in
            let page = try await site.folder.siwatch("status").output.joined()
            #expect(!page.contains(advice), "\(page)")
        }
        try await Site.with { site in
            let page = try await site.folder.siwatch("status").output.joined()
            #expect(page.contains(advice) == SQLiteLibrary.hasWALResetBug, "\(page)")
        }
    }

    /// siwatch dies at any moment of a request. Told again with its key, it is one row.
    @Test(arguments: SiteDatabase.allCases) func aKillTellsNothingTwice(on database: SiteDatabase) async throws {
        try await withSite(on: database) { site in
            var rows = 0
            for round in 1...4 {
                let daemon = try await site.folder.startDaemon()
                let door = try await Door(of: daemon, in: site.folder)
                let request: [String: any Sendable] = ["client_id": Self.client, "user_id": "user.\(round)"]
                let key = ["idempotency-key": "\(round)"] as HTTPHeaders
                async let answer = try? door.post("/v1/sign-ins", request, key)
                if round % 2 == 0 {
                    try await eventually { try await site.backend.int("SELECT COUNT(*) FROM request_key") >= round }
                }
                daemon.signal(SIGKILL)
                await daemon.exit()
                _ = await answer
                rows += 1
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
                #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log") == rows)
            }
        }
    }

    /// A database that nobody can write is no 200, and keeps nothing.
    @Test func aLockedDatabaseIsSaidAndNothingIsKept() async throws {
        try await withSite { site in
            try await site.daemon { daemon in
                let door = try await Door(of: daemon, in: site.folder)
                let body = Data(
                    (try await site.apple.notify(RevokeConsent(), users: try await site.apple.signIn(1).map(\.userID)))[0].body.utf8
                )
                var configuration = GRDB.Configuration()
                configuration.allowsUnsafeTransactions = true
                let blocker = try DatabaseQueue(path: site.folder.databasePath, configuration: configuration)
                try await blocker.writeWithoutTransaction { db in try db.execute(sql: "BEGIN IMMEDIATE") }
                let refused = try await door.post("/apple/notifications", bytes: body)
                #expect(refused.status == 503 && refused.headers.first(name: "retry-after") == "1", "\(refused.text)")
                let signIn = try await door.post("/v1/sign-ins", ["client_id": Self.client, "user_id": "ann"])
                #expect(signIn.status == 503)
                // Reading goes on.
                #expect(try await door.get("/v1/users/ann").status == 404)
                while !daemon.output.contains(where: { $0.contains("\"event\":\"door_failed\"") }) {
                    try Task.checkCancellation()
                    #expect(try await door.post("/v1/sign-ins", ["client_id": Self.client, "user_id": "ann"]).status == 503)
                }
                let page = try await OperationsPages(of: daemon).get("readyz")
                #expect(page.contains("the HTTP door finds no database for writing: the database is locked"), "\(page)")
                #expect(page.components(separatedBy: "the database is locked").count == 2, "a cause stands once: \(page)")
                try await blocker.writeWithoutTransaction { db in try db.execute(sql: "ROLLBACK") }
                #expect(try await door.post("/apple/notifications", bytes: body).status == 200)
                #expect(await daemon.line(containing: "\"event\":\"door_recovered\"") != nil)
                try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 1)
                #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
            }
        }
    }

    /// A backend that swallows its answers tells nobody.
    @Test func whatTheDoorRefusesIsAFinding() async throws {
        try await withSite { site in
            try await site.daemon { daemon in
                var door = try await Door(of: daemon, in: site.folder)
                let pages = try await OperationsPages(of: daemon)
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
                door.token = "another"
                for _ in 1...5 { #expect(try await door.get("/v1/users/ann").status == 401) }
                let degraded = try await pages.get("")
                let others = "refused 5 of 5 requests without a token that siwatch knows (getUser) within ten minutes, the last"
                #expect(degraded.contains("health: degraded") && degraded.contains(others), "\(degraded)")
                #expect(degraded.contains("refused 10 of 10 requests of backend (endsSession)"))
                #expect(degraded.contains("#siwatchrequestsrefused"))

                door = try await Door(of: daemon, in: site.folder)
                #expect(try await door.post("/v1/sign-ins", ["client_id": Self.client, "user_id": "ann", "wait": 10]).status == 200)
                for _ in 1...100 {
                    let now = Int64(Date().timeIntervalSince1970 * 1000)
                    #expect(try await door.get("/v1/users/ann/ends-session?signed_in_at=\(now)").status == 200)
                }
                let always = try await pages.get("")
                #expect(always.contains("(endsSession) within ten minutes that were hardly meant: signed_in_at is the time"), "\(always)")
            }
        }
    }

    @Test func aServerThatIsAwayIsSaidAndComesBack() async throws {
        let server = try PostgresServer()
        defer { server.stop() }
        try await withSite(on: .server(server)) { site in
            try await site.daemon { daemon in
                let door = try await Door(of: daemon, in: site.folder)
                // A follower waits on, and hears of the change that comes later.
                async let poll = door.get("/v1/changes?after=0-0&wait=25")
                for _ in 1...20 { _ = try await door.get("/v1/changes") }
                server.takeDown()
                for path in ["/v1/users/ann", "/v1/changes", "/v1/sign-ins/1-mh6ev6r4"] {
                    #expect(try await door.get(path).status == 503, "\(path)")
                }
                #expect(try await signIn(at: door).status == 503)
                try server.bringUp()
                try await signsInOnce(at: door, in: site)
                let page = try await poll
                #expect(page.status == 200 && page["changes.0.user_id"] == "ann", "\(page.text)")
            }
        }
    }

    /// A shell or a container may allow few files. The idlest connections close, and Apple, the database and the next backend have room.
    @Test func idleConnectionsLeaveRoomForEverythingElse() async throws {
        try await withSite { site in
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
            daemon.signal(SIGTERM)
            #expect(await daemon.exit() == 0, "\(daemon.output.suffix(5))")
        }
    }

    private func signIn(at door: Door) async throws -> Door.Answer {
        try await door.post("/v1/sign-ins", ["client_id": Self.client, "user_id": "ann", "wait": 10], ["idempotency-key": "k"])
    }

    /// However often it was told meanwhile.
    private func signsInOnce(at door: Door, in site: Site) async throws {
        var answer = try await signIn(at: door)
        // 202 while the lanes have not found the server again.
        while [202, 503].contains(answer.status) { answer = try await signIn(at: door) }
        #expect(answer.status == 200, "\(answer.text)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log") == 1)
    }

    /// It takes connections and answers nothing. Who asks is told so, long before the connection is found dead.
    @Test func aServerThatHangsIsSaid() async throws {
        let server = try PostgresServer()
        defer { server.stop() }
        try await withSite(on: .server(server)) { site in
            try await site.daemon { daemon in
                let door = try await Door(of: daemon, in: site.folder)
                _ = try await door.get("/v1/users/ann")
                server.signal(SIGSTOP)
                async let (told, asked) = (signIn(at: door), door.get("/v1/users/ann"))
                async let follower = door.get("/v1/changes?after=0-0&wait=1")
                let statuses = try await [told.status, asked.status, follower.status]
                server.signal(SIGCONT)
                #expect(statuses == [503, 503, 503])
                try await signsInOnce(at: door, in: site)
            }
        }
    }

    /// A follower that waits does not hold up the stop.
    @Test func aStopAnswersWhoWaits() async throws {
        try await withSite { site in
            let daemon = try await site.folder.startDaemon()
            try await letsFollowersGo(daemon, Door(of: daemon, in: site.folder), at: SIGTERM)
            #expect(await daemon.exit() == 0)
        }
    }

    /// They have to show the token again, which may be gone.
    @Test func aReloadLetsFollowersGo() async throws {
        try await withSite { site in
            try await site.daemon { daemon in try await letsFollowersGo(daemon, Door(of: daemon, in: site.folder), at: SIGHUP) }
        }
    }

    private func letsFollowersGo(_ daemon: ChildProcess, _ door: Door, at signal: Int32) async throws {
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

    @Test func aUnixSocketHasItsMode() async throws {
        try await withSite(listen: "./door.sock", "socket_mode = \"600\"") { site in
            let path = site.folder.url.appending(path: "door.sock").path
            for _ in 1...2 {
                // A kill leaves the socket behind, and the next start takes its place.
                let daemon = try await site.folder.startDaemon()
                #expect(await daemon.line(containing: "Backends are served over HTTP") != nil)
                let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
                #expect(mode == 0o600)
                let url = try #require(URL(httpURLWithSocketPath: path, uri: "/openapi.json"))
                let response = try await HTTPClient.shared.execute(HTTPClientRequest(url: url.absoluteString), timeout: .seconds(30))
                #expect(response.status == .ok)
                daemon.signal(SIGKILL)
                await daemon.exit()
            }
            try await site.daemon { _ in }
            #expect(!FileManager.default.fileExists(atPath: path))
        }
    }

    @Test func otherHostsNeedACertificate() async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        try await Self.makeCertificate(in: folder)
        let table = try Door.table(in: folder, "certificate_file = \"tls.pem\"\ncertificate_key_file = \"tls.key\"")
        _ = try await Site.with(folder, table) { site in
            let certificate = folder.url.appending(path: "tls.pem")
            let pem = try Data(contentsOf: certificate)
            try Data("-----BEGIN CERTIFICATE-----\nsecret\n-----END CERTIFICATE-----\n".utf8).write(to: certificate)
            let unusable = try await folder.siwatch("doctor", "--before-start")
            #expect(unusable.status == 78 && !unusable.output.joined().contains("secret"), "\(unusable.output)")
            try pem.write(to: certificate)
            try folder.edit("listen = \"127.0.0.1:0\"", "listen = \"0.0.0.0:0\"")
            let refused = try await folder.siwatch("doctor", "--before-start")
            #expect(refused.status == 78 && refused.output.joined().contains("http.listen"), "\(refused.output)")
            try folder.edit("listen = \"0.0.0.0:0\"", "listen = \"127.0.0.1:0\"")
            try await site.daemon { daemon in
                let door = try await Door(of: daemon, in: folder)
                var tls = TLSConfiguration.makeClientConfiguration()
                tls.trustRoots = .file(certificate.path)
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

    private static func makeCertificate(in folder: WatchedFolder) async throws {
        let (key, certificate) = (folder.url.appending(path: "tls.key").path, folder.url.appending(path: "tls.pem").path)
        let openssl = try ChildProcess(
            URL(filePath: "/usr/bin/env"),
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
                + ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
        )
        let status = await openssl.exit()
        try #require(status == 0, "\(openssl.output)")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key)
    }
}
