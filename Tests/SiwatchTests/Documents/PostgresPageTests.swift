// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import Testing

/// Follows docs/postgresql.md block by block, as a new user does.
@Suite(.timeLimit(.minutes(10))) struct PostgresPageTests {
    /// The page's code blocks in a language, without a list's indentation.
    private static func blocks(_ language: String) throws -> [String] {
        let page = try String(contentsOf: Checkout.root.appending(path: "docs/postgresql.md"), encoding: .utf8)
        return page.matches(of: /(?ms)^( *)```(\w+)\n(.*?)^ *```$/).filter { $0.2 == language }.map { match in
            match.3.split(separator: "\n", omittingEmptySubsequences: false).map { line in
                line.hasPrefix(match.1) ? line.dropFirst(match.1.count) : line
            }.joined(separator: "\n")
        }
    }

    /// A server whose administrator has done the first step. It admits siwatch by its password alone.
    private static func withServer(_ body: (PostgresServer, Backend) async throws -> Void) async throws {
        let server = try PostgresServer(superuser: "postgres")
        defer { server.stop() }
        server.takeDown()
        try server.admit("local all postgres,backend trust\nlocal all all scram-sha-256\n")
        try server.bringUp()
        let administrator = try Backend(on: server, as: "postgres")
        defer { try? administrator.close() }
        try await administrator.execute(try blocks("sql")[0])
        try await body(server, administrator)
    }

    /// Replaces a file's table by the page's block. The test sets the address and the way to the server itself.
    private static func name(_ server: PostgresServer, in folder: WatchedFolder) throws {
        let table = try #require(try blocks("toml").first)
        #expect(table.contains("postgresql://siwatch@db.example.com/app?"))
        try folder.edit(
            "[database]\npath = \"siwatch.sqlite\"\n",
            table.replacing(/@db\.example\.com\/app\?[^"]*/, with: "@/postgres?host=\(server.folder.path)")
        )
    }

    /// Runs a block in a shell. The test provides its surroundings: the users, siwatch's folder, and the program.
    @discardableResult
    private static func run(_ block: String, in folder: WatchedFolder) async throws -> [String] {
        let around = """
            sudo() { [ "$1" != -u ] || shift 2; "$@"; }
            mapped() {
              program=$1
              shift
              for word do
                shift
                [ -z "$skip" ] || { skip=; continue; }
                case $word in
                  -o | -g) skip=yes; continue ;;
                  /etc/siwatch/*) word=$FOLDER/${word#/etc/siwatch/} ;;
                  /var/lib/siwatch/*) word=$FOLDER/${word#/var/lib/siwatch/} ;;
                esac
                set -- "$@" "$word"
              done
              "$program" "$@"
            }
            install() { mapped /usr/bin/install "$@"; }
            siwatch() { mapped "$SIWATCH" "$@" --config "$FOLDER/siwatch.toml"; }

            """
        let environment = ["FOLDER": folder.url.path, "SIWATCH": try ChildProcess.program("siwatch").path]
        let shell = try ChildProcess.shell("set -e\n\(around)\(block)", environment: environment)
        #expect(await shell.exit() == 0, "\(block): \(shell.output)")
        return shell.output
    }

    @Test func everyBlockOfTheSetUpWorksAsPrinted() async throws {
        try await Self.withServer { server, administrator in
            try await administrator.execute("CREATE ROLE backend LOGIN; CREATE ROLE endpoint; CREATE ROLE accounts; CREATE ROLE deletions")
            let (sql, shell) = (try Self.blocks("sql"), try Self.blocks("sh"))
            #expect(sql.count == 6 && shell.count == 4)

            let folder = try WatchedFolder()
            defer { folder.remove() }
            try await SimulatedApple.with(in: folder.url) { apple in
                try folder.configure(apple: apple)
                try await Self.run(shell[1], in: folder)
                try Self.name(server, in: folder)
                let output = try await Self.run(shell[2], in: folder)
                #expect(output.contains { $0.hasSuffix(": not there yet; siwatch migrate creates it") }, "\(output)")
                #expect(output.last?.hasSuffix(" is ready.") ?? false, "\(output)")
                for block in sql[1...2] { try await administrator.execute(block) }

                let backend = try Backend(on: server, as: "backend")
                defer { try? backend.close() }
                try await folder.withDaemon { _ in
                    for block in sql[3...] { try await backend.execute(block) }
                    try await backend.until("SELECT COUNT(*) FROM siwatch.user_state WHERE state = 'authorized'", is: 1)
                }
                for forbidden in [
                    "SELECT refresh_token FROM siwatch.grant_queue", "SELECT * FROM siwatch.credential", "DELETE FROM siwatch.grant_queue",
                    "UPDATE siwatch.notification_queue SET due_at = 1",
                    "INSERT INTO siwatch.grant_queue (client_id, user_id, due_at) VALUES ('a', 'b', 1)",
                ] { await #expect(throws: HarnessError.self, "\(forbidden)") { try await backend.execute(forbidden) } }
            }
        }
    }

    @Test func initHasTheOptionsOfThePage() async throws {
        let block = try #require(try Self.blocks("sh").first)
        let options = block.matches(of: /--[a-z-]+/).map { String($0.0) }
        let help = try await CommandCall.siwatch(["init", "--help"])
        #expect(help.status == 0 && block.contains("sudo siwatch init ") && options.count == 2)
        for option in options { #expect(help.output.contains { $0.contains("\(option) <") }, "\(option)") }
    }

    @Test func theMoveWorksAsPrinted() async throws {
        try await Self.withServer { server, administrator in
            let shell = try Self.blocks("sh")
            try await Site.with { site in
                try await site.daemon { _ in try await site.settle(try await site.apple.signIn(3)) }
                try await Self.run(shell[1], in: site.folder)
                try Self.name(server, in: site.folder)
                let output = try await Self.run(shell[3], in: site.folder)
                #expect(output.contains { $0.contains("3 of 3 states were derived again") }, "\(output)")
                try await site.daemon { _ in
                    try await administrator.until("SELECT COUNT(*) FROM siwatch.user_state WHERE state = 'authorized'", is: 3)
                }
            }
        }
    }
}
