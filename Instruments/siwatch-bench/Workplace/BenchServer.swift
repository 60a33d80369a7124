// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import GRDB
import Synchronization

/// The PostgreSQL server of the benchmarks. No setting makes it quick, as in tests: each commit is on disk before it counts.
enum BenchServer {
    private static let server = Result { try PostgresServer(isDurable: true, settings: settings) }
    /// Settings that an administrator would make first. All others are the server's defaults.
    private static let settings = ["autovacuum=on", "shared_buffers=1GB", "max_wal_size=4GB"]
    private static let databases = Atomic(0)

    /// Makes a database with a new schema, and drops it after `body`.
    ///
    /// - Parameter original: the database to copy. It has no connections meanwhile.
    static func withDatabase<Result>(
        copyOf original: ServerSchema? = nil,
        _ body: (ServerSchema) async throws -> Result
    ) async throws -> Result {
        let server = try server.get()
        let desk = try Backend(on: server, as: PostgresServer.user)
        defer { try? desk.close() }
        let name = "bench_\(databases.wrappingAdd(1, ordering: .relaxed).newValue)"
        try await desk.execute("CREATE DATABASE \(name) TEMPLATE \(original?.database ?? "template1")")
        let outcome: Swift.Result<Result, any Error>
        do {
            // Writing the copy to disk must not count.
            try await desk.execute("CHECKPOINT")
            outcome = .success(try await body(ServerSchema(on: server, database: name, name: "siwatch")))
        } catch {
            outcome = .failure(error)
        }
        try await desk.execute("DROP DATABASE \(name) WITH (FORCE)")
        return try outcome.get()
    }

    /// The server's version and settings, to print beside the figures.
    static func description() async throws -> String {
        let desk = try Backend(on: server.get(), as: PostgresServer.user)
        defer { try? desk.close() }
        let names = ["fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size", "autovacuum"]
        let columns = (["server_version"] + names).map { "current_setting('\($0)') AS \($0)" }.joined(separator: ", ")
        guard let row = try await desk.rows("SELECT \(columns)").first else { throw HarnessError("PostgreSQL says nothing of itself") }
        let version: String = row["server_version"]
        return "PostgreSQL \(version) over a socket: " + names.map { "\($0) \(row[$0] as String)" }.joined(separator: ", ")
    }
}

enum Store: String, Sendable {
    case sqlite = "SQLite"
    case postgres = "PostgreSQL"

    /// - Parameter body: gets the schema of a new database, or nil for a file.
    func withDatabase<Result>(_ body: (ServerSchema?) async throws -> Result) async throws -> Result {
        switch self {
        case .sqlite: try await body(nil)
        case .postgres: try await BenchServer.withDatabase(body)
        }
    }
}
