// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

/// The differences when the database is on a PostgreSQL server.
@Suite(.timeLimit(.minutes(10))) struct ServerTests {
    private static let commands = ["doctor --before-start", "run", "migrate", "status"]

    /// Nor does siwatch start work on the tables that a schema has left.
    @Test(
        .site(on: .server),
        arguments: [
            ("UPDATE schema_version SET version = 99, compatible_from = 99", "made by a newer siwatch"),
            ("DROP TABLE schema_version", "holds tables of another program"), ("DROP TABLE grant_log CASCADE", " lacks grant_log, "),
        ]
    )
    func aSchemaOfAnotherProgramOrOfANewerSiwatchIsLeftAlone(change: String, words: String) async throws {
        try await site.backend.execute(change)
        for command in Self.commands { try await site.folder.expect(command, 78, words) }
    }

    /// Its texts would not be the bytes that Apple has sent.
    @Test(.server()) func aDatabaseOfAnotherEncodingIsRefused() async throws {
        try await site.backend.execute("CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0")
        try site.folder.edit(server.url(), server.url(database: "old"))
        for command in Self.commands { try await site.folder.expect(command, 78, "has the encoding LATIN1, and UTF8 is needed") }
    }

    @Test(.site(on: .server)) func aServerThatIsAwayIsUnavailable() async throws {
        try site.folder.edit("?host=/", "?host=/nowhere/")
        for command in Self.commands {
            try await site.folder.expect(command, command == "status" ? 2 : 69, "the database cannot be reached: ")
        }
    }

    @Test(.site(on: .server)) func whoMayNotWriteIsToldSo() async throws {
        try await site.backend.execute("CREATE ROLE stranger LOGIN")
        try site.folder.edit("siwatch@/", "stranger@/")
        try await site.folder.expect("doctor --before-start", 78, "may not use the schema")
        try await site.folder.expect("run", 78)
        // A user who cannot create the schema, either.
        try site.folder.edit("schema = \"", "schema = \"other_")
        try await site.folder.expect("doctor --before-start", 78, "GRANT CREATE ON DATABASE postgres TO stranger")
    }

    /// An installation with SQLite need not have it, and does not load it.
    @Test(.daemon(onEach: SiteDatabase.allCases)) func libpqIsLoadedWhereItIsNeeded() async throws {
        let maps = try #require(FileHandle(forReadingAtPath: "/proc/\(daemon.identifier)/maps")).readToEnd()
        let libraries = String(decoding: maps ?? Data(), as: UTF8.self)
        #expect(libraries.contains("/siwatch\n") && libraries.contains("/libpq.so") == (site.schema != nil))
    }

    @Test(.site(on: .server)) func aPasswordIsReadFromAFileThatNobodyElseMayRead() async throws {
        let file = site.folder.path("password")
        try site.folder.edit("schema = \"", "password_file = \"password\"\nschema = \"")
        try site.folder.write("what only siwatch knows\n", to: "password", mode: 0o644)
        try await site.folder.expect("doctor --before-start", 78, "database.password_file", "0644")
        try #require(chmod(file, 0o600) == 0)
        try await site.folder.expect("doctor --before-start", 0, not: "only siwatch knows")
        try await site.folder.expect("backup copy.dump", says: "\n  (umask 077; PGPASSWORD=\"$(cat \(file))\" pg_dump ")
    }

    /// Runs the printed commands in an operator's shell.
    @Test(.site(on: .server)) func whatWasBackedUpIsPutBack() async throws {
        let schema = try #require(site.schema?.name)
        func shell(_ command: String) async throws {
            let process = try ChildProcess.shell(command)
            #expect(await process.exit() == 0, "\(command): \(process.output)")
        }
        let copy = site.folder.path("it's a copy")
        let (status, output) = try await site.folder.siwatch("backup", copy)
        let commands = output.filter { $0.hasPrefix("  ") }
        try #require(status == 0 && commands.count == 2, "\(output)")
        #expect(commands[0].contains("; pg_dump ") && commands[0].contains("/it'\\''s a copy'"), "\(output)")
        #expect(commands[0].contains("postgresql://siwatch@/postgres?host="), "\(output)")
        #expect(commands[1].hasPrefix("  pg_restore ") && output.joined().contains("keep it apart"), "\(output)")
        let (before, after) = (try await site.apple.signIn(5), try await site.apple.signIn(2))
        try await site.daemon { _ in
            try await site.settle(before)
            try await shell(commands[0])
            // The backup knows nothing of these.
            try await site.settle(after)
        }
        #expect(try FileManager.default.attributesOfItem(atPath: copy)[.posixPermissions] as? Int == 0o600)
        try await site.backend.execute("DROP SCHEMA \(schema) CASCADE")
        try await site.folder.expect("status", 78)
        try await shell(commands[1])
        try await site.daemon { _ in
            #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'") == 5)
            try await site.backend.insert(after)
            try await site.backend.until("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'", is: 7)
        }
        let rights = "SELECT has_table_privilege('siwatch_reader', '\(schema).user_state', 'SELECT')::integer"
        #expect(try await site.backend.int(rights) == 1)
    }

    @Test(.server(listen: "127.0.0.1:0", runs: true)) func aServerThatGoesAndComesBackIsWaitedFor() async throws {
        let signIns = try await site.apple.signIn(40)
        try await site.settle(Array(signIns[..<20]))
        server.takeDown()
        #expect(await daemon.line(containing: "Claiming work failed") != nil)
        try await pages.expect("readyz", shows: "the database cannot be reached: ")
        try server.bringUp()
        try await pages.expect("readyz", is: "ok\n")
        try await site.settle(Array(signIns[20...]))
        #expect(try await site.audit().wrong == [])
    }

    /// siwatch stands still until there is no room for its settlements.
    @Test(.server(canFill: true, listen: "127.0.0.1:0", runs: true)) func aServerWhoseDiskIsFullIsWaitedFor() async throws {
        let signIns = try await site.apple.signIn(200)
        try await daemon.freeze()
        try await site.tell(signIns)
        server.isFull = true
        daemon.signal(SIGCONT)
        try await pages.expect("metrics", shows: "\nsiwatch_store_full 1\n")
        let reason = "the disk of the database server is full: 53100 "
        try await pages.expect("", shows: "never delete files under pg_wal", "#siwatchstorefull", reason)
        server.isFull = false
        try await site.backend.until("SELECT COUNT(*) FROM grant_log", is: 200)
        #expect(try await site.audit().wrong == [])
    }

    /// The sign-in and its grant are one commit.
    @Test(.site(on: .server)) func aTransactionThatRollsBackLeavesNothing() async throws {
        let signIns = try await site.apple.signIn(2)
        let insert = "INSERT INTO grant_queue (client_id, user_id, refresh_token) VALUES"
        func row(_ signIn: SignIn) -> String { "('\(signIn.clientID)', '\(signIn.userID)', '\(signIn.refreshToken ?? "")')" }
        try await site.daemon { _ in
            try await site.backend.execute("BEGIN; \(insert) \(row(signIns[0])); ROLLBACK")
            try await site.backend.execute("BEGIN; \(insert) \(row(signIns[1])); COMMIT")
            try await site.backend.until("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'", is: 1)
        }
        try await site.backend.expect(["user_state": 1, "grant_log": 1])
    }
}

/// The log of a server whose administrator lets it quote every statement with every value.
@Suite(.timeLimit(.minutes(10))) struct ServerLogTests {
    @Test(
        .server(
            "log_min_messages=log",
            "log_statement=all",
            "log_parameter_max_length=-1",
            "log_line_prefix=%a|",
            tables: ["refresh": "interval = \"1s\""]
        )
    )
    func itHoldsTheTokensThatBackendsInsertAndNoneThatSiwatchKeeps() async throws {
        let people = try await site.apple.signIn(4)
        let codes = try await site.apple.signInByCode(2)
        try await site.daemon { _ in
            try await site.settle(people)
            try await site.tell(codesOf: codes)
            try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE verified_at IS NOT NULL", is: 6)
            try await site.tell(leaving: people[..<2].map(\.userID), at: SimulatedApple.clientIDs[0])
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log", is: 2)
        }
        let (own, backends) = Self.parts(of: server.log)
        #expect(backends.holdsSimulatedToken && own.contains(people[0].userID), "the server does not log values")
        #expect(!Data(own.utf8).holdsSimulatedToken)
        #expect(!(try FleetSecrets(of: site)).hasKey(own))
    }

    /// What the sessions of siwatch have caused, and what all others have.
    private static func parts(of log: String) -> (own: String, backends: Data) {
        var (own, backends, isOwn) = ("", "", false)
        for line in log.split(separator: "\n") {
            // A line of an entry that is not its first begins with a tab.
            if !line.hasPrefix("\t") { isOwn = line.hasPrefix("siwatch|") }
            if isOwn { own += line + "\n" } else { backends += line + "\n" }
        }
        return (own, Data(backends.utf8))
    }
}
