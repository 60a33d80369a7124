// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import PostgresStore
import Testing

@testable import siwatch

/// `siwatch move` as operators use it.
@Suite(.timeLimit(.minutes(10))) struct MoveCommandTests {
    private static let password = "not-to-be-seen"

    /// With a password that the server does not need, and that no output may show.
    private func address(_ server: PostgresServer) -> String { server.url().replacing("@/", with: ":\(Self.password)@/") }

    private func move(_ arguments: String...) async throws -> (status: Int32, output: [String]) {
        return try await CommandCall.siwatch(["move"] + arguments)
    }

    /// Kills a move while the server holds back its rows of a table, and then calls `body`, with the command's arguments.
    private func killAMove(of site: Site, to server: PostgresServer, in table: String, _ body: (Backend, [String]) async throws -> Void)
        async throws
    {
        _ = try PostgresStore.open(PostgresAddress(server.address()))
        let administrator = try Backend(on: server, as: PostgresServer.user, schema: "siwatch")
        defer { try? administrator.close() }
        // The server waits there for as long as the rest takes, however slow the machine is.
        try await administrator.execute(
            """
            CREATE TABLE IF NOT EXISTS arrival (id TEXT PRIMARY KEY, origin TEXT NOT NULL, at BIGINT NOT NULL);
            CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
              PERFORM set_config(''lock_timeout'', ''0'', true);
              PERFORM pg_advisory_xact_lock(7);
              RETURN NEW;
            END'
            """
        )
        try await administrator.execute("CREATE TRIGGER hold BEFORE INSERT ON \(table) FOR EACH ROW EXECUTE FUNCTION hold()")
        try await administrator.execute("BEGIN; SELECT pg_advisory_xact_lock(7)")
        let command = ["move", "--from", site.folder.databasePath, "--to", address(server)]
        let dying = try ChildProcess("siwatch", command)
        try await administrator.until(Self.waiting, is: 1)
        dying.signal(SIGKILL)
        await dying.exit()
        try await body(administrator, command)
    }

    private static let waiting = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted"

    @Test func aSiteMovesAndComesBack() async throws {
        let server = try PostgresServer()
        try await Site.with { site in
            let (file, url) = (site.folder.databasePath, address(server))
            try await site.daemon { _ in
                try await site.settle(try await site.apple.signIn(5))
                #expect(try await move("--from", file, "--to", url).status == 69)
            }
            let there = try await move("--from", file, "--to", url)
            #expect(there.status == 0, "\(there.output)")
            #expect(there.output.contains { $0.contains("27 of 27 tables and views are equal") })
            #expect(there.output.contains { $0.contains("5 of 5 states were derived again") })

            for command in ["run", "doctor --before-start", "migrate", "status", "rejected example"] {
                let (status, output) = try await site.folder.siwatch(line: command)
                #expect(status == 78, "\(command): \(output)")
                #expect(output.joined().contains("siwatch.sqlite was moved to postgresql://siwatch@"), "\(command)")
                #expect(!output.joined().contains(Self.password))
            }
            #expect(try await site.folder.siwatch("enqueue", site.folder.configurationPath).status == 78)
            await #expect(throws: (any Error).self) { try await site.backend.insert(notifications: ["{}"]) }
            #expect(try await move("--from", file, "--to", url).status == 78)
            let onto = try await move("--from", url, "--to", file)
            #expect(onto.status == 78 && onto.output.joined().contains("Move the file away"), "\(onto.output)")

            let back = site.folder.url.appending(path: "back.sqlite").path
            let again = try await move("--from", url, "--to", back, "--json")
            #expect(again.status == 0 && again.output.contains { $0.contains("\"schema\" : 1") }, "\(again.output)")
            #expect(!again.output.joined().contains(Self.password))
            #expect(try await move("--from", url, "--to", back).status == 78)

            // The configuration names the end that the command leaves out.
            try site.folder.edit("path = \"siwatch.sqlite\"", "path = \"back.sqlite\"")
            #expect(try await site.folder.siwatch("move", "--to", url, "--schema", "once_more").status == 0)
            try FileManager.default.removeItem(atPath: back)
            #expect(try await site.folder.siwatch("move", "--from", url, "--schema", "once_more").status == 0)
            let daemon = try await site.daemon { _ in
                let backend = try Backend(databasePath: back)
                defer { try? backend.close() }
                #expect(try await backend.int("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'") == 5)
                try await backend.insert(try await site.apple.signIn(1))
                try await backend.until("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'", is: 6)
                // The tokens open here too.
                try await backend.execute("UPDATE credential SET due_at = 0 WHERE verified_at IS NULL")
                try await backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 6)
            }
            #expect(!daemon.output.contains { $0.contains("not as siwatch wrote them") })
        }
    }

    /// A process died after the destination had committed.
    @Test func aMoveThatWasCutShortIsFinished() async throws {
        let server = try PostgresServer()
        try await Site.with { site in
            let (file, url) = (site.folder.databasePath, address(server))
            #expect(try await move("--from", file, "--to", url).status == 0)
            try await site.backend.execute("UPDATE departure SET is_complete = 0")
            for command in ["run", "doctor --before-start", "status"] {
                let (status, output) = try await site.folder.siwatch(line: command)
                #expect(status == 78 && output.joined().contains("is on the way to postgresql://siwatch@"), "\(command): \(output)")
            }
            let elsewhere = try await move("--from", file, "--to", url, "--schema", "elsewhere")
            // The advice can be pasted into a shell.
            let advice = "repeat the command with --to '\(server.url())' --schema siwatch"
            #expect(elsewhere.status == 78 && elsewhere.output.joined().contains(advice), "\(elsewhere.output)")
            let again = try await move("--from", file, "--to", url)
            #expect(again.status == 0 && again.output.joined().contains("had moved to"), "\(again.output)")
            #expect(try await site.folder.siwatch("status").output.joined().contains("was moved to"))

            // Nothing has arrived in this schema, so the command moves the rows there after all.
            try await site.backend.execute(
                "UPDATE departure SET is_complete = 0, destination = replace(destination, 'schema siwatch', 'schema new')"
            )
            let anew = try await move("--from", file, "--to", url, "--schema", "new")
            #expect(anew.status == 0 && anew.output.joined().contains("has moved to"), "\(anew.output)")
        }
    }

    /// The worst moment to die: the source is closed, and the server has the COMMIT and is not done with it.
    @Test(.site) func aCommitThatOutlivesItsProcessIsFound() async throws {
        let server = try PostgresServer()
        try await killAMove(of: site, to: server, in: "arrival") { administrator, command in
            let status = try await site.folder.siwatch("status")
            #expect(status.status == 78 && status.output.joined().contains("is on the way to"), "\(status.output)")
            // The next command waits for the end of the other.
            let next = try ChildProcess("siwatch", command)
            try await administrator.until(Self.waiting, is: 2)
            try await administrator.execute("COMMIT")
            #expect(await next.exit() == 0)
            #expect(next.output.joined().contains("had moved to"), "\(next.output)")
        }
    }

    /// No row has left the file until the proof is complete.
    @Test(.site) func aMoveThatDiesAmongItsRowsLeavesTheFileAsItWas() async throws {
        let server = try PostgresServer()
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(5)) }
        try await killAMove(of: site, to: server, in: "credential_change") { administrator, command in
            try await administrator.execute("COMMIT")
            try await administrator.execute("DROP TRIGGER hold ON credential_change")
            try await site.daemon { _ in try await site.settle(try await site.apple.signIn(1)) }
            let (status, output) = try await CommandCall.siwatch(command)
            #expect(status == 0 && output.contains { $0.contains("6 of 6 states were derived again") }, "\(output)")
        }
    }

    @Test func aServerWithoutRoomTakesNothing() async throws {
        let server = try PostgresServer(canFill: true)
        defer { server.stop() }
        try await Site.with { site in
            let (file, url) = (site.folder.databasePath, address(server))
            try await site.daemon { _ in try await site.settle(try await site.apple.signIn(200)) }
            _ = try PostgresStore.open(PostgresAddress(server.address()))
            server.isFull = true
            let full = try await move("--from", file, "--to", url)
            #expect(full.status == 69 && full.output.joined().contains("the disk of the database server is full: 53100 "), "\(full)")
            server.isFull = false
            #expect(try await site.folder.siwatch("doctor", "--before-start").status == 0)
            #expect(try await move("--from", file, "--to", url).status == 0)
        }
    }

    /// `move` refuses a destination that a configuration could not name, and its message shows no possible password.
    @Test(
        arguments: [
            (["--schema", "Prod"], "--schema must be 1 to 63 characters"),
            (["--schema", String(repeating: "s", count: 64)], "--schema must be 1 to 63 characters"),
            (["--schema", #"a"b"#], "--schema must be 1 to 63 characters"),
        ]
    )
    func aSchemaThatNoConfigurationCanNameIsRefused(_ arguments: [String], _ sentence: String) async throws {
        let process = try await CommandCall.siwatch(["move", "--from", "/nowhere", "--to", "postgresql://siwatch@/app"] + arguments)
        #expect(process.status == 64)
        #expect(process.output.joined().contains(sentence), "\(process.output)")
    }

    @Test(arguments: ["postgresql://siwatch:not%zz@db/app", "host=db password=not to be"])
    func whatLibpqDoesNotUnderstandIsNotQuoted(_ address: String) async throws {
        let (status, output) = try await move("--from", "/nowhere", "--to", address)
        #expect(status == 64 && output.joined().contains("--to is no address that libpq understands"), "\(output)")
        #expect(!output.joined().contains("not%zz") && !output.joined().contains("\"not\""), "\(output)")
    }

    @Test func whatCannotBeMovedIsSaid() async throws {
        let server = try PostgresServer()
        let folder = try TemporaryFolder()
        let (file, url) = (folder.path("siwatch.sqlite"), address(server))
        #expect(try await move("--from", file, "--to", file).status == 64)
        #expect(try await move("--from", file, "--schema", "other").status == 64)
        #expect(try await move("--from", url, "--to", url).status == 64)
        for arguments in [["--from", file, "--to", url], ["--from", url, "--to", file]] {
            let process = try await CommandCall.siwatch(["move"] + arguments)
            #expect(process.status == 1)
            #expect(process.output.joined().contains("holds no tables of siwatch"), "\(process.output)")
        }
        server.stop()
        let (status, output) = try await move("--from", url, "--to", file)
        #expect(status == 69 && !output.joined().contains(Self.password), "\(output)")
    }

    @Test(
        arguments: [
            ("postgresql://db/app", "postgresql://db/app, schema s"), ("postgres://db/app", "postgresql://db/app, schema s"),
            ("host=/run/postgresql dbname=app", "postgresql:///app?host=/run/postgresql, schema s"),
            ("postgresql://u@db:5432/app", "postgresql://u@db/app, schema s"),
            ("postgresql://u@a,b:6432/app", "postgresql://u@a,b:6432/app, schema s"),
            ("/var/../siwatch.sqlite", "/siwatch.sqlite"), ("/host=x", "/host=x"),
        ]
    )
    func aFileIsToldFromAnAddress(_ text: String, _ name: String) {
        #expect(DatabaseLocation(text, schema: "s").name == name)
    }
}
