// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import Testing

@testable import PostgresStore

@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(10))) struct MigratorTests: ConformanceSuite {
    private static let widened = """
        ALTER TABLE credential ADD COLUMN another BIGINT NOT NULL DEFAULT 7;
        ALTER TABLE grant_queue ADD COLUMN another TEXT;
        """

    private func migrate(to compatibleFrom: Int) async throws {
        let address = store.postgres.address
        let thread = ConnectionThread(address, label: "newer")
        let newest = FrozenDatabases.versions.upperBound
        let step = SchemaStep(version: newest + 1, compatibleFrom: compatibleFrom, summary: "wider", sql: Self.widened)
        try await thread.run { connection in
            try Migrator(address: address, connection: connection, steps: Schema.steps + [step]).migrate()
        }
        await thread.close()
    }

    @Test func bothEnginesHaveTheSameSteps() {
        #expect(Schema.steps.map(\.version) == Array(FrozenDatabases.versions))
    }

    /// Old and new overlap. The old release settles its claims and goes on.
    @Test func aSchemaIsBroughtUpToDateBesideAnOlderRelease() async throws {
        #expect(try await store.signIn() == .grant(.applied, nil))
        try await store.grant("second")
        let claimed = try await store.claimGrants()
        try await migrate(to: FrozenDatabases.versions.upperBound)
        let newest = Int64(FrozenDatabases.versions.upperBound)
        #expect(try await store.rows("SELECT version, compatible_from FROM schema_version") == [[.integer(newest + 1), .integer(newest)]])

        #expect(try await store.settle(.grant(claimed[0], .acceptance(of: claimed[0]))) == .grant(.applied, nil))
        try await store.grant("third")
        let later = try await store.claimGrants()
        #expect(try await store.settle(.grant(later[0], .acceptance(of: later[0]))) == .grant(.applied, nil))
        _ = try PostgresStore.open(store.postgres.address)
        #expect(try await store.column("SELECT DISTINCT another::text FROM credential").compactMap(\.text) == ["7"])
    }

    @Test func anOlderReleaseDoesNotBeginOnWhatItDoesNotUnderstand() async throws {
        let next = FrozenDatabases.versions.upperBound + 1
        try await migrate(to: next)
        let words = "has version \(next), made by a newer siwatch"
        #expect { try PostgresStore.open(store.postgres.address) } throws: { "\($0)".contains(words) }
        // A step runs once.
        try await migrate(to: next)
    }

    /// The message does not call it another program's.
    @Test func anOlderSchemaIsNamedBeforeItIsMigrated() async throws {
        try await store.run("UPDATE schema_version SET version = 0")
        #expect { try PostgresStore.openForReading(store.postgres.address) } throws: {
            "\($0)".contains("has version 0; siwatch migrate brings it up to date")
        }
    }

    @Test func aServerThatIsTooOldIsNamed() async throws {
        let address = try PostgresUnderTest.address()
        let thread = ConnectionThread(address, label: "old")
        await #expect {
            try await thread.run { try Migrator(address: address, connection: $0, oldestServer: 990_000).migrate() }
        } throws: {
            ($0 as? StoreOpenError).map { "\($0)".contains("PostgreSQL 14 or newer is needed, and the server is 1") } ?? false
        }
        await thread.close()
    }

    /// PostgreSQL 11 and PgBouncer do not know siwatch's connection settings, so a second try would not help.
    @Test(arguments: [
        (#"unrecognized configuration parameter "tcp_user_timeout""#, "PostgreSQL 14 or newer is needed, and the server is older than 12"),
        ("unsupported startup parameter: options", Migrator.poolerIsInTheWay.description),
    ])
    func whoTurnsEverybodyAwayIsNamed(_ words: String, _ sentence: String) async throws {
        let server = try UnfriendlyServer(words)
        defer { server.stop() }
        let address = PostgresAddress("host=\(server.folder.path) user=siwatch")
        for open in [{ try PostgresStore.open($0) }, PostgresStore.openForReading, { try PostgresStore.openBeside($0) }] {
            #expect { try open(address) } throws: {
                ($0 as? StoreOpenError).map { "\($0)" } == sentence
            }
        }
    }
}

private final class UnfriendlyServer: Sendable {
    let folder: URL
    private let listener: Int32

    init(_ words: String) throws {
        folder = URL(filePath: "/tmp/siwatch-old-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        self.listener = listener
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let path = folder.appending(path: ".s.PGSQL.5432").path
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix(107)) }
        let isBound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
        guard isBound == 0, listen(listener, 8) == 0 else { throw StoreOpenError("no socket at \(path): \(errno)") }
        Thread.detachNewThread {
            while case let visitor = accept(listener, nil, nil), visitor >= 0 {
                var question = [UInt8](repeating: 0, count: 4096)
                _ = read(visitor, &question, question.count)
                let fields = ["SFATAL", "C42704", "M\(words)"]
                let body: [UInt8] = fields.flatMap { Array("\($0)\0".utf8) } + [0]
                let answer = [UInt8(ascii: "E"), 0, 0, 0, UInt8(body.count + 4)] + body
                _ = write(visitor, answer, answer.count)
                close(visitor)
            }
            // Close it here, after the last use of its number. Later the number may be the next listener's.
            close(listener)
        }
    }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        try? FileManager.default.removeItem(at: folder)
    }
}
