// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables
import DaemonHarness
import Foundation
import Testing

@testable import PostgresStore
@testable import SQLiteStore
@testable import siwatch

/// The databases of released schemas, with rows in every table: a file, and a dump of a server's schema. They never change, because every
/// later release must be able to migrate them.
enum FrozenDatabases {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Frozen")
    /// The name of the schema in a dump.
    private static let schema = "frozen_schema"

    private static func file(_ version: Int) -> URL { folder.appending(path: "v\(version).sqlite") }
    private static func dump(_ version: Int) -> URL { folder.appending(path: "v\(version).postgres.sql") }

    /// A copy of the file.
    static func copy(of version: Int) throws -> TemporaryFile {
        let copy = try TemporaryFile()
        try FileManager.default.copyItem(at: file(version), to: copy.url)
        return copy
    }

    /// A schema of the shared server, restored from the dump.
    static func restore(_ version: Int) async throws -> PostgresAddress {
        let address = try PostgresUnderTest.address()
        let script = try String(contentsOf: dump(version), encoding: .utf8).replacing(schema, with: address.schema)
        let thread = ConnectionThread(address, label: "restore")
        try await thread.run { try $0.runScript(script) }
        await thread.close()
        return address
    }

    /// Every version of the schema.
    static let versions = 1...DatabaseFile(path: "").newestVersion

    /// Writes both databases of the newest schema, once.
    static func write() async throws {
        let version = versions.upperBound
        for url in [file(version), dump(version)] where FileManager.default.fileExists(atPath: url.path) {
            throw HarnessError("\(url.path) is frozen")
        }
        let full = try await FullFile()
        let address = try PostgresUnderTest.address()
        _ = try PostgresStore.open(address)
        _ = try await StoreMove(source: try full.contents(), destination: PostgresContents(address), progress: ProgressLine.silent)
            .run(id: "1", at: .start)
        let door = PostgresDoor(address)
        // Only a move makes it.
        try await door.run("DROP TABLE arrival", [])
        try await door.run("INSERT INTO replica VALUES ('first', 1, 2, '{}', '[]')", [])
        try await door.run("INSERT INTO lane VALUES ('example', 'first', 3, 4)", [])
        try await door.run("INSERT INTO settled_batch VALUES ('first', 5, 6)", [])
        try await writeDump(of: address, to: dump(version))

        let whole = try await FullFile()
        try whole.file.sqlite.close()
        try FileManager.default.copyItem(at: whole.file.file.url, to: file(version))
    }

    /// Leaves out the settings of the session, some of which an older server does not know.
    private static func writeDump(of address: PostgresAddress, to file: URL) async throws {
        let process = try ChildProcess(
            URL(filePath: "\(try #require(PostgresServer.programs))/pg_dump"),
            ["--schema=\(address.schema)", "--inserts", "--no-owner", "--dbname=\(try PostgresServer.shared.get().address())"]
        )
        guard try await process.end() == 0 else { throw HarnessError(process.output.joined(separator: "\n")) }
        let lines = process.output.filter { line in
            !line.isEmpty && !["--", "SET ", "SELECT pg_catalog.set_config", "\\"].contains { line.hasPrefix($0) }
        }
        let text = (lines + [""]).joined(separator: "\n").replacing(address.schema, with: schema)
        try text.write(to: file, atomically: true, encoding: .utf8)
    }
}
