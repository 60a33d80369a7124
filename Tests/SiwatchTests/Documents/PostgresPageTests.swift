// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import Testing

/// docs/postgresql.md, block by block, as a new user follows it.
struct PostgresPageTests {
    /// The blocks of a language, without the indentation of a list.
    private static func blocks(_ language: String) throws -> [String] {
        let page = try String(contentsOf: Checkout.root.appending(path: "docs/postgresql.md"), encoding: .utf8)
        return page.matches(of: /(?ms)^( *)```(\w+)\n(.*?)^ *```$/).filter { $0.2 == language }.map { match in
            match.3.split(separator: "\n", omittingEmptySubsequences: false).map { line in
                line.hasPrefix(match.1) ? line.dropFirst(match.1.count) : line
            }.joined(separator: "\n")
        }
    }

    @Test func everyBlockWorksAsPrinted() async throws {
        let server = try PostgresServer(superuser: "postgres")
        defer { server.stop() }
        let administrator = try Backend(on: server, as: "postgres")
        defer { try? administrator.close() }
        let sql = try Self.blocks("sql")
        #expect(sql.count == 5)
        try await administrator.execute("CREATE ROLE backend LOGIN")
        try await administrator.execute(sql[0])

        let folder = try WatchedFolder()
        defer { folder.remove() }
        let apple = try await SimulatedApple(in: folder.url)
        defer { apple.process.signal(SIGKILL) }
        try folder.configure(apple: apple)
        // Where it is, and how it is reached, is this test's own.
        let table = try #require(try Self.blocks("toml").first).replacing(
            "@db.example.com/app",
            with: "@/postgres?host=\(server.folder.path)"
        )
        try folder.edit("[database]\npath = \"siwatch.sqlite\"\n", table)
        let password = folder.url.appending(path: "database.password").path
        try "change me\n".write(toFile: password, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: password)
        let commands = try Self.blocks("sh").joined(separator: "\n").matches(of: /(?m)^sudo -u siwatch siwatch (\w+)$/).map { String($0.1) }
        #expect(commands == ["check", "migrate"])
        for command in commands {
            let (status, output) = try await folder.run(command)
            #expect(status == 0, "\(command): \(output)")
        }
        try await administrator.execute(sql[1])

        let backend = try Backend(on: server, as: "backend")
        defer { try? backend.close() }
        try await folder.withDaemon { _ in
            for block in sql[2...] { try await backend.execute(block) }
            try await backend.until("SELECT COUNT(*) FROM siwatch.user_state WHERE state = 'authorized'", is: 1)
        }
        for forbidden in [
            "SELECT refresh_token FROM siwatch.grant_queue", "SELECT * FROM siwatch.credential", "DELETE FROM siwatch.grant_queue",
            "UPDATE siwatch.notification_queue SET due_at = 1",
            "INSERT INTO siwatch.grant_queue (client_id, user_id, due_at) VALUES ('a', 'b', 1)",
        ] {
            await #expect(throws: HarnessError.self, "\(forbidden)") { try await backend.execute(forbidden) }
        }
    }
}
