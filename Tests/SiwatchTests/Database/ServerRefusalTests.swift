// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import Testing

/// A server that refuses siwatch. A sentence gives the reason, and systemd retries.
@Suite(.timeLimit(.minutes(10))) struct ServerRefusalTests {
    /// - Parameter commands: those that open the database in different ways.
    private func expect(_ sentence: String, by commands: [String] = ["doctor --before-start", "run", "migrate", "status"]) async throws {
        for command in commands { try await site.folder.expect(command, command == "status" ? 2 : 69, sentence) }
    }

    /// Lets the role `clerk` in by its password alone, and the site be the clerk's.
    private func admitClerk(_ password: String) async throws {
        try await site.backend.execute("CREATE ROLE clerk LOGIN SUPERUSER PASSWORD '\(password)'")
        server.takeDown()
        try server.admit("local all clerk scram-sha-256\nlocal all all trust\n")
        try server.bringUp()
        try site.folder.edit("siwatch@/", "clerk@/")
    }

    private func tell(_ password: String) throws { try site.folder.write("\(password)\n", to: "password") }

    /// Lets people sign in before a trouble and after it. Nothing is lost.
    private func live(through trouble: (ChildProcess) async throws -> Void) async throws {
        let signIns = try await site.apple.signIn(20)
        try await site.daemon { daemon in
            try await site.settle(Array(signIns[..<10]))
            try await trouble(daemon)
            try await site.settle(Array(signIns[10...]))
            #expect(try await site.audit().wrong == [])
        }
    }

    /// An administrator changes a password first on the server and then in the file. Open connections go on.
    @Test(.server()) func aWrongPasswordIsNamedAndOneThatIsChangedIsReadAgain() async throws {
        try await admitClerk("what it knows")
        try await expect("fe_sendauth: no password supplied; database.password_file names the file that holds it")
        try site.folder.edit("schema = \"", "password_file = \"password\"\nschema = \"")
        try tell("what it knew")
        try await expect("password authentication failed for user \"clerk\"")
        try tell("what it knows")
        try await site.folder.succeed("doctor", "--before-start")
        try await live { daemon in
            try await site.backend.execute("ALTER ROLE clerk PASSWORD 'what it learns'")
            try await site.backend.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'clerk'")
            #expect(await daemon.line(containing: "password authentication failed") != nil)
            try tell("what it learns")
        }
    }

    /// A loopback address that no other test uses.
    private static let address = "127.\(Int.random(in: 1...254)).\(Int.random(in: 1...254)).\(Int.random(in: 2...254))"

    @Test(.server("listen_addresses=\(address)")) func aCertificateIsVerified() async throws {
        let root = site.folder.url.appending(path: "root.crt")
        for name in ["other", "server"] {
            try await site.backend.execute(
                """
                COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 '
                    '-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout \(name).key -out \(name).crt && chmod 600 \(name).key'
                """
            )
        }
        try await site.backend.execute("ALTER SYSTEM SET ssl = on")
        server.takeDown()
        try server.admit("local all all trust\nhostssl all all 127.0.0.0/8 trust\n")
        try server.bringUp()

        func take(_ name: String) throws {
            try? FileManager.default.removeItem(at: root)
            try FileManager.default.copyItem(at: server.folder.appending(path: "data/\(name).crt"), to: root)
        }
        func url(_ host: String) -> String {
            "postgresql://siwatch@\(host)/postgres?hostaddr=\(Self.address)&sslmode=verify-full&sslrootcert=\(root.path)"
        }
        try site.folder.edit(server.url(), url("localhost"))
        try await expect("root.crt\" does not exist")
        try take("other")
        try await expect("certificate verify failed")
        try take("server")
        try await site.folder.expect("doctor --before-start", 0, not: "database.url: sslmode")
        try site.folder.edit(url("localhost"), url("elsewhere"))
        try await expect("does not match host name \"elsewhere\"")
    }

    /// An administrator has made it a standby, or it is the wrong one of two after a failover.
    @Test(.server()) func aServerThatCannotBeWrittenIsWaitedFor() async throws {
        try await live { daemon in
            try server.demote()
            #expect(await daemon.line(containing: "session is read-only") != nil)
            try await expect("session is read-only", by: ["doctor --before-start", "run", "migrate"])
            // A standby is enough to read `status`. A daemon that cannot write its heartbeat soon counts as stopped.
            let (status, page) = try await site.folder.siwatch("status")
            #expect([0, 2].contains(status) && page.first?.hasPrefix("siwatch ") ?? false, "\(page)")
            try await site.backend.execute("SELECT pg_promote()")
        }
    }

    private static let room = 12

    /// A closed connection frees its place a little later than it seems.
    private func take(_ count: Int) async throws -> [Backend] {
        var taken: [Backend] = []
        try await eventually {
            while taken.count < count, let backend = try? site.anotherBackend() { taken.append(backend) }
            return taken.count == count
        }
        return taken
    }

    /// siwatch gets three of its five connections. Those of the lanes and of the listener for commits come last, in any order, and without
    /// the former nothing is settled.
    @Test(.server("max_connections=\(room)", "superuser_reserved_connections=0", listen: "127.0.0.1:0"))
    func aStartWithTooFewConnectionsSaysWhyAndAServerWithoutRoomIsWaitedFor() async throws {
        var others = try await take(Self.room - 1 - 3)
        let daemon = try site.folder.start("run")
        let page = try await OperationsPages(of: daemon).expect("readyz", shows: "too many clients already")
        #expect(page.hasPrefix("starting: "), "\(page)")
        // A command finds no connection, either.
        try await site.folder.expect("status --line", 2, "too many clients already")
        for backend in others { try backend.close() }
        #expect(await daemon.line(containing: "siwatch is ready") != nil)
        await daemon.end(by: SIGTERM)

        /// Other clients take all connections but the backend's.
        func fill() async throws -> [Backend] { try await take(Self.room - 1) }
        let activity = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name"
        others = try await fill()
        try await expect("too many clients already")
        for backend in others { try backend.close() }
        try await site.backend.until("SELECT COUNT(*) \(activity) = ''", is: 1)

        try await live { daemon in
            // siwatch loses its connections, and other clients take them first.
            try await daemon.freeze()
            try await site.backend.execute("SELECT pg_terminate_backend(pid) \(activity) = 'siwatch'")
            try await site.backend.until("SELECT COUNT(*) \(activity) = 'siwatch'", is: 0)
            others = try await fill()
            daemon.signal(SIGCONT)
            #expect(await daemon.line(containing: "too many clients already") != nil)
            for backend in others { try backend.close() }
        }
    }
}

/// Other sessions change or lock tables while a daemon works. The daemon waits, and nothing is lost.
@Suite(.timeLimit(.minutes(10))) struct ServerTroubleTests {
    /// Half of the people sign in before the trouble. `trouble` inserts the sign-ins of the others, and siwatch has to settle all.
    private func live(through trouble: (_ others: [SignIn]) async throws -> Void) async throws {
        let signIns = try await site.apple.signIn(40)
        try await site.settle(Array(signIns[..<20]))
        try await trouble(Array(signIns[20...]))
        try await site.backend.until("SELECT COUNT(*) FROM grant_log", is: 40)
        #expect(try await site.audit().wrong == [])
    }

    /// Another session, which locks a table until its transaction ends.
    private func lock(_ table: String, while body: () async throws -> Void) async throws {
        let hog = try site.anotherBackend()
        try await hog.execute("BEGIN; LOCK TABLE \(table) IN ACCESS EXCLUSIVE MODE")
        try await body()
        try await hog.execute("COMMIT")
        try hog.close()
    }

    /// The waiting sessions of this site alone, because all tests share the server.
    private static let waiters = """
        FROM pg_stat_activity WHERE application_name = 'siwatch' AND wait_event_type = 'Lock'
         AND pid IN (SELECT pid FROM pg_locks WHERE NOT granted AND relation IN ('credential'::regclass, 'grant_queue'::regclass))
        """

    @Test(.daemon(on: .server), arguments: ["credential", "grant_queue"])
    func aTableThatSomebodyLocksIsWaitedFor(_ table: String) async throws {
        try await live { others in
            try await lock(table) {
                // A settlement waits, or a claim.
                if table == "credential" { try await site.tell(others) }
                // A waiting session gives way after ten seconds, and comes back.
                #expect(await daemon.line(containing: "lock timeout") != nil)
            }
            if table == "grant_queue" { try await site.tell(others) }
        }
    }

    @Test(.daemon(on: .server)) func aStatementThatSomebodyCancelsIsRepeatedAndATableThatIsAwayIsWaitedFor() async throws {
        try await live { others in
            try await lock("credential") {
                try await site.tell(Array(others[..<10]))
                // A session that has just given way by itself does not get the cancellation. Cancel the next one then.
                while daemon.exitStatus == nil, !daemon.output.contains(where: { $0.contains("due to user request") }) {
                    try await site.backend.first(of: "SELECT COUNT(*) \(Self.waiters)", within: .seconds(5)) { $0 > 0 }
                    try await site.backend.execute("SELECT pg_cancel_backend(pid) \(Self.waiters)")
                    try Task.checkCancellation()
                }
                #expect(await daemon.line(containing: "due to user request") != nil)
            }
            try await site.backend.execute("ALTER TABLE grant_log RENAME TO elsewhere")
            try await site.tell(Array(others[10...]))
            #expect(await daemon.line(containing: "42P01") != nil)
            try await site.backend.execute("ALTER TABLE elsewhere RENAME TO grant_log")
        }
    }
}
