// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import PostgresStore
import Testing

@testable import siwatch

@Suite(.timeLimit(.minutes(10))) struct MoveCommandTests {
    private static let password = "not-to-be-seen"

    /// With a password that the server does not need, and that no output may show.
    private func address(_ server: PostgresServer) -> String { server.url().replacing("@/", with: ":\(Self.password)@/") }

    /// Expects what a move ends with and says, which is never the password.
    @discardableResult
    private func move(
        _ arguments: String...,
        ends status: Int32,
        _ texts: String...,
        at location: SourceLocation = #_sourceLocation
    ) async throws -> [String] {
        let said = try await CommandCall.siwatch(["move"] + arguments)
        examine(said, "move \(arguments)", status, texts, not: [Self.password], at: location)
        return said.output
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
        await dying.end(by: SIGKILL)
        try await body(administrator, command)
    }

    private static let waiting = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted"

    @Test(.site) func aSiteMovesAndComesBack() async throws {
        let server = try PostgresServer()
        let (file, url) = (site.folder.databasePath, address(server))
        try await site.daemon { _ in
            try await site.settle(try await site.apple.signIn(5))
            try await move("--from", file, "--to", url, ends: 69)
        }
        try await move("--from", file, "--to", url, ends: 0, "27 of 27 tables and views are equal", "5 of 5 states were derived again")

        let words = "siwatch.sqlite was moved to postgresql://siwatch@"
        for command in ["run", "doctor --before-start", "migrate", "status", "rejected example"] {
            try await site.folder.expect(command, 78, words, not: Self.password)
        }
        try await site.folder.expect("enqueue \(site.folder.configurationPath)", 78)
        await #expect(throws: (any Error).self) { try await site.backend.insert(notifications: ["{}"]) }
        try await move("--from", file, "--to", url, ends: 78)
        try await move("--from", url, "--to", file, ends: 78, "Move the file away")

        let back = site.folder.path("back.sqlite")
        try await move("--from", url, "--to", back, "--json", ends: 0, "\"schema\" : 1")
        try await move("--from", url, "--to", back, ends: 78)

        // The configuration names the end that the command leaves out.
        try site.folder.edit("path = \"siwatch.sqlite\"", "path = \"back.sqlite\"")
        try await site.folder.expect("move --to \(url) --schema once_more", 0)
        try FileManager.default.removeItem(atPath: back)
        try await site.folder.expect("move --from \(url) --schema once_more", 0)
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

    /// A process died after the destination had committed.
    @Test(.site) func aMoveThatWasCutShortIsFinished() async throws {
        let server = try PostgresServer()
        let (file, url) = (site.folder.databasePath, address(server))
        try await move("--from", file, "--to", url, ends: 0)
        try await site.backend.execute("UPDATE departure SET is_complete = 0")
        for command in ["run", "doctor --before-start", "status"] {
            try await site.folder.expect(command, 78, "is on the way to postgresql://siwatch@")
        }
        // The advice can be pasted into a shell.
        let advice = "repeat the command with --to '\(server.url())' --schema siwatch"
        try await move("--from", file, "--to", url, "--schema", "elsewhere", ends: 78, advice)
        try await move("--from", file, "--to", url, ends: 0, "had moved to")
        try await site.folder.expect("status", says: "was moved to")

        // Nothing has arrived in this schema, so the command moves the rows there after all.
        let elsewhere = "replace(destination, 'schema siwatch', 'schema new')"
        try await site.backend.execute("UPDATE departure SET is_complete = 0, destination = \(elsewhere)")
        try await move("--from", file, "--to", url, "--schema", "new", ends: 0, "has moved to")
    }

    /// The worst moment to die: the source is closed, and the server has the COMMIT and is not done with it.
    @Test(.site) func aCommitThatOutlivesItsProcessIsFound() async throws {
        let server = try PostgresServer()
        try await killAMove(of: site, to: server, in: "arrival") { administrator, command in
            try await site.folder.expect("status", 78, "is on the way to")
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

    @Test(.site) func aServerWithoutRoomTakesNothing() async throws {
        let server = try PostgresServer(canFill: true)
        defer { server.stop() }
        let (file, url) = (site.folder.databasePath, address(server))
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(200)) }
        _ = try PostgresStore.open(PostgresAddress(server.address()))
        server.isFull = true
        try await move("--from", file, "--to", url, ends: 69, "the disk of the database server is full: 53100 ")
        server.isFull = false
        try await site.folder.expect("doctor --before-start", 0)
        try await move("--from", file, "--to", url, ends: 0)
    }

    @Test(arguments: ["Prod", String(repeating: "s", count: 64), #"a"b"#])
    func aSchemaThatNoConfigurationCanNameIsRefused(_ schema: String) async throws {
        let words = "--schema must be 1 to 63 characters"
        try await move("--from", "/nowhere", "--to", "postgresql://siwatch@/app", "--schema", schema, ends: 64, words)
    }

    @Test(arguments: ["postgresql://siwatch:not%zz@db/app", "host=db password=not to be"])
    func whatLibpqDoesNotUnderstandIsNotQuoted(_ address: String) async throws {
        let output = try await move("--from", "/nowhere", "--to", address, ends: 64, "--to is no address that libpq understands")
        #expect(!output.joined().contains("not%zz") && !output.joined().contains("\"not\""), "\(output)")
    }

    @Test func whatCannotBeMovedIsSaid() async throws {
        let server = try PostgresServer()
        let folder = try TemporaryFolder()
        let (file, url) = (folder.path("siwatch.sqlite"), address(server))
        try await move("--from", file, "--to", file, ends: 64)
        try await move("--from", file, "--schema", "other", ends: 64)
        try await move("--from", url, "--to", url, ends: 64)
        for (from, to) in [(file, url), (url, file)] { try await move("--from", from, "--to", to, ends: 1, "holds no tables of siwatch") }
        server.stop()
        try await move("--from", url, "--to", file, ends: 69)
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
