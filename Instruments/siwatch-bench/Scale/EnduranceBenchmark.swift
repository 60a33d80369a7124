// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialCore
import DaemonHarness
import Foundation
import GRDB

/// Whether siwatch's memory stays constant under full load, and how large the database's log gets, also while a reader reads all the time.
struct EnduranceBenchmark: Sendable {
    let length: Duration
    let notifications, refreshes: Int

    private static let longestRead = Duration.seconds(60)

    func run() async throws -> Section {
        say("Endurance")
        return try await Workplace.use { place in
            let users = try await place.makeCredentials(max(notifications, refreshes)).map(\.userID)
            // These end no sign-in. After the first round they are duplicates, which siwatch still verifies and logs.
            let bodies = try await place.notify(SwitchForwarding(on: false), Array(users.prefix(notifications)))
            try place.configure(refresh: "interval = \"24h\"\nmax_requests_per_second = 1000000\nmax_concurrent_requests = 64")
            let (samples, work) = try await place.withBackend { backend in
                try await place.withDaemon { daemon in try await load(daemon, backend, bodies, place) }
            }
            return section(samples, work)
        }
    }

    private struct Sample {
        var resident, log: Int
        var phase: Phase
    }

    /// Whether a reader holds an old snapshot.
    private enum Phase {
        case undisturbed, pinned, afterwards
    }

    private struct Work {
        var notifications = 0
        var rounds = 0
    }

    private func load(_ daemon: ChildProcess, _ backend: Backend, _ bodies: [String], _ place: Workplace) async throws -> ([Sample], Work) {
        say("  siwatch works for \(length)")
        let reader = try DatabaseQueue(path: place.folder.databasePath, configuration: .reading)
        defer { try? reader.close() }
        var (samples, work): ([Sample], Work) = ([], Work())
        var readsSince: ContinuousClock.Instant?
        var hasRead = false
        let start = ContinuousClock.now
        while ContinuousClock.now - start < length {
            if try await backend.int("SELECT COUNT(*) FROM (SELECT 1 FROM notification_queue LIMIT 5000)") < 5000 {
                try await backend.insert(notifications: bodies)
                work.notifications += bodies.count
            }
            if try await backend.int("SELECT EXISTS (SELECT 1 FROM credential WHERE due_at < 2)") == 0 {
                // Make them due, as after a long stop. No backend may write to this column.
                try await backend.execute("UPDATE credential SET due_at = 1 WHERE due_at IS NOT NULL AND claimed_by IS NULL")
                work.rounds += 1
            }
            // Read in the second half, so that an undisturbed half stands beside it.
            if !hasRead, ContinuousClock.now - start > length / 2 {
                hasRead = true
                readsSince = .now
                try await reader.writeWithoutTransaction { db in try db.execute(sql: "BEGIN; SELECT COUNT(*) FROM user_state") }
            }
            if let since = readsSince, ContinuousClock.now - since > min(Self.longestRead, length / 4) {
                readsSince = nil
                try await reader.writeWithoutTransaction { db in try db.execute(sql: "COMMIT") }
            }
            let log = try FileManager.default.attributesOfItem(atPath: place.folder.databasePath + "-wal")[.size] as? Int ?? 0
            let phase: Phase = readsSince != nil ? .pinned : hasRead ? .afterwards : .undisturbed
            samples.append(Sample(resident: try ProcessUsage(of: daemon).resident, log: log, phase: phase))
            try await Task.sleep(for: .milliseconds(500))
        }
        return (samples, work)
    }

    private func section(_ samples: [Sample], _ work: Work) -> Section {
        // The first fifth warms up.
        let (warm, tenth) = (samples.dropFirst(samples.count / 5), max(samples.count / 10, 1))
        let (early, late) = (warm.prefix(tenth).map(\.resident).median, warm.suffix(tenth).map(\.resident).median)
        func log(_ phase: Phase) -> String { megabytes(samples.filter { $0.phase == phase }.map(\.log).max() ?? 0) }
        return Section(
            "Endurance: \(length) of full load, \(work.notifications) notifications and \(work.rounds) rounds of \(max(notifications, refreshes)) checks",
            [
                .init("resident memory after a fifth of that time", megabytes(early)),
                .init("resident memory at the end", megabytes(late), ratio: (Double(late) / Double(early)).rounded(to: 3)),
                .init("resident memory at most", megabytes(samples.map(\.resident).max() ?? 0)),
                .init("the log of the database at most", log(.undisturbed)),
                .init("the same while a reader keeps one snapshot", log(.pinned)),
                .init("and at the end", megabytes(samples.last?.log ?? 0)),
            ],
            arguments: "--only endurance --minutes \(Int(length.inSeconds / 60))"
        )
    }
}

extension Configuration {
    /// Never writes, and keeps its transaction open between two statements.
    fileprivate static var reading: Configuration {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.allowsUnsafeTransactions = true
        return configuration
    }
}

/// How long `siwatch move` takes from a file to PostgreSQL, its proof included.
struct MoveBenchmark: Sendable {
    let size: Int

    func run() async throws -> Section {
        say("The move")
        return try await Workplace.use { file in
            try await file.migrate()
            let table = CredentialTable(size: size)
            say("  \(table.name) credentials")
            try await table.fill(file)
            return try await BenchServer.withDatabase { schema in
                say("  siwatch moves them")
                let start = ContinuousClock.now
                try await file.folder.complete("move", "--to", schema.url, "--schema", schema.name)
                let time = ContinuousClock.now - start
                let arrivals = Workplace(folder: file.folder, apple: file.apple, schema: schema)
                let moved = try await arrivals.withBackend { try await $0.int("SELECT COUNT(*) FROM credential_state") }
                guard moved == size else { throw HarnessError("\(moved) of \(size) credentials have arrived") }
                return Section(
                    "siwatch move, from SQLite to PostgreSQL, \(table.name) credentials",
                    [
                        .init("copied, proved on both sides and committed", "\(time.inSeconds.rounded(to: 1)) s"),
                        .init("credentials", (Double(size) / time.inSeconds).perSecond),
                    ],
                    arguments: "--only postgres-move --moved \(size)"
                )
            }
        }
    }
}
