// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialCore
import DaemonHarness
import Foundation
import GRDB
import SQLiteStore

/// What a large table costs: picking what is due, starting, and a backend's look-ups while siwatch works as fast as it can.
struct ScaleBenchmark: Sendable {
    /// How many credentials, ascending. What is picked of each is compared with the first.
    let sizes: [Int]
    /// How many notifications siwatch settles while a backend looks credentials up in the largest table.
    let notifications: Int
    let logLevel: String

    private static let claims = 200
    private static let claimed = 64

    func run() async throws -> Section {
        say("Scale")
        var rows: [Section.Row] = []
        var smallest: Duration?
        for size in sizes {
            rows += try await Workplace.use(logLevel: logLevel) { place in
                let users = size == sizes.last ? try await place.makeCredentials(notifications).map(\.userID) : []
                if users.isEmpty { try await place.migrate() }
                let table = CredentialTable(size: size)
                say("  \(table.name) credentials")
                try table.fill(place.folder.databasePath)
                let ready = try await start(place)
                var rows = [Section.Row(label: "\(table.name) credentials: from start to ready", figure: ready.inMilliseconds)]
                if !users.isEmpty { rows += try await lookUp(table, users, place) }
                let claim = try await pick(place)
                let ratio = smallest.map { (claim / $0).rounded(to: 2) }
                smallest = smallest ?? claim
                let label = "\(table.name) credentials: to pick \(Self.claimed) that are due, p50"
                rows.insert(.init(label: label, figure: claim.inMilliseconds, ratio: ratio), at: 0)
                return rows
            }
        }
        return Section(
            "Large tables (× = as long as with \(CredentialTable(size: sizes[0]).name))",
            rows,
            arguments: "--only scale --sizes \(sizes.map(String.init).joined(separator: " --sizes ")) --notifications \(notifications)"
        )
    }

    private func start(_ place: Workplace) async throws -> Duration {
        let start = ContinuousClock.now
        return try await place.withDaemon { _ in ContinuousClock.now - start }
    }

    /// By the very code that the daemon runs. The commit that makes the claim durable is a part of it.
    private func pick(_ place: Workplace) async throws -> Duration {
        let store = try SQLiteStore.open(DatabaseFile(path: place.folder.databasePath))
        defer { try? store.close() }
        try store.register([AppClients(name: "example", clientIDs: SimulatedApple.clientIDs)])
        let later = Timestamp(milliseconds: Int64(Date.now.timeIntervalSince1970 * 1000)).advanced(by: CredentialTable.allDue)
        var times: [Duration] = []
        while times.count < Self.claims {
            let start = ContinuousClock.now
            let due = try await store.claimDueCredentials(
                of: "example",
                upTo: Self.claimed,
                at: later,
                policy: RefreshPolicy(),
                preferring: []
            )
            times.append(ContinuousClock.now - start)
            // The smallest table is soon at its end.
            if due.count < Self.claimed { break }
        }
        return times.percentile(0.5)
    }

    private func lookUp(_ table: CredentialTable, _ users: [String], _ place: Workplace) async throws -> [Section.Row] {
        let bodies = try await place.revokeConsent(of: users)
        return try await place.withBackend { backend in
            let idle = try await lookUps(table, backend) { index in index < 5_000 }
            try await backend.insert(notifications: bodies)
            return try await place.withDaemon { daemon in
                let loaded = try await lookUps(table, backend) { index in
                    guard index % 100 == 0 else { return true }
                    return try await backend.int("SELECT EXISTS (SELECT 1 FROM notification_queue)") == 1
                }
                let usage = try ProcessUsage(of: daemon)
                let load = "while siwatch settles \(users.count) notifications"
                return [
                    .init(label: "  a backend's look-up, siwatch stopped, p50 / p99", figure: figure(idle)),
                    .init(label: "  a backend's look-up \(load), p50 / p99", figure: figure(loaded)),
                    .init(label: "  the longest of \(loaded.count)", figure: loaded.percentile(1).inMilliseconds),
                    .init(label: "  siwatch's resident memory afterwards", figure: usage.memory),
                ]
            }
        }
    }

    private func figure(_ times: [Duration]) -> String {
        "\((times.percentile(0.5).inSeconds * 1000).rounded(to: 2)) / \((times.percentile(0.99).inSeconds * 1000).rounded(to: 2)) ms"
    }

    private func lookUps(
        _ table: CredentialTable,
        _ backend: Backend,
        while isWanted: (Int) async throws -> Bool
    ) async throws -> [Duration] {
        let state = "SELECT state = 'authorized' FROM credential_state WHERE app = 'example' AND client_id = ? AND user_id = ?"
        var times: [Duration] = []
        while try await isWanted(times.count) {
            let user = table.user(Int.random(in: 0..<table.size))
            let start = ContinuousClock.now
            guard try await backend.int(state, [Workplace.clientID, user]) == 1 else { throw HarnessError("nobody knows \(user)") }
            times.append(ContinuousClock.now - start)
        }
        return times
    }
}

/// Credentials that nobody granted, written into the private table at once: ten million sign-ins would take hours.
private struct CredentialTable: Sendable {
    let size: Int

    /// After this all are due, and none before an hour.
    static let allDue = Duration.seconds(86_400)
    private static let rowsPerCommit = 250_000

    var name: String { Double(size).rounded(to: 0) }

    func user(_ number: Int) -> String {
        let mixed = UInt32(truncatingIfNeeded: UInt64(number) &* 2_654_435_761)
        return String(format: "%06d.%08x%08x%08x%08x.%04d", number * 2000 / size, mixed, number, mixed, number, number % 10_000)
    }

    /// In the order of the users, whose checks come in none.
    func fill(_ path: String) throws {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        let index = try queue.read { db in
            try String.fetchOne(db, sql: "SELECT sql FROM sqlite_schema WHERE name = 'credential_due'") ?? ""
        }
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA synchronous = OFF; PRAGMA cache_size = -262144; DROP INDEX credential_due")
            for first in stride(from: 0, to: size, by: Self.rowsPerCommit) {
                try db.execute(
                    sql: """
                        INSERT INTO credential (user_id, client, app, state, reason, changed_at, granted_at, token_granted_at,
                                                token_fingerprint, sealed_token, due_at)
                          WITH RECURSIVE number(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM number WHERE i + 1 < :end),
                               mixed(i, m) AS (SELECT i, (i * 2654435761) & 4294967295 FROM number)
                        SELECT printf('%06d.%08x%08x%08x%08x.%04d', i * 2000 / :size, m, i, m, i, i % 10000), client.id, client.app,
                               'authorized', 'granted', :now, :now, :now, randomblob(32), randomblob(96),
                               :now + 3600000 + (m % 79200) * 1000
                          FROM mixed, client WHERE client.client_id = '\(Workplace.clientID)'
                        """,
                    arguments: [
                        "first": first, "end": min(first + Self.rowsPerCommit, size), "size": size,
                        "now": Int64(Date.now.timeIntervalSince1970 * 1000),
                    ]
                )
                try db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)")
            }
            try db.execute(sql: index)
            try db.execute(sql: "UPDATE credential_count SET count = (SELECT COUNT(*) FROM credential) WHERE state = 'authorized'")
            try db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)")
        }
    }
}
