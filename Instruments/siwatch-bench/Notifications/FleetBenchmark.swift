// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation

/// How many notifications a second one, two and four siwatch settle on PostgreSQL. One siwatch on SQLite, the bare library, and a job queue
/// whose jobs do nothing stand beside them. All run by turns, several times.
struct FleetBenchmark: Sendable {
    let count, rounds: Int

    private static let fleets = [1, 2, 4]

    func run() async throws -> Section {
        say("Notifications on PostgreSQL")
        return try await Workplace.use { file in
            try await file.withNeighbour(on: .postgres) { server in
                let signIns = try await file.signIn(count)
                let users = signIns.map(\.userID)
                for place in [file, server] { try await place.takeIn(signIns) }
                say("  Apple signs \(count) notifications")
                let bodies = try await file.notify(RevokeConsent(), users)
                for place in [file, server] { try place.hold(bodies) }
                var measured = Measured()
                for round in 1...rounds {
                    say("  round \(round) of \(rounds)")
                    measured.files.append(try await file.withCopy { try await $0.settleHeld(count).perSecond })
                    for replicas in Self.fleets {
                        let run = try await server.withCopy { try await $0.settleHeld(count, by: replicas) }
                        measured.fleets[replicas, default: []].append(run)
                    }
                    measured.bare.append(try await server.withCopy { try await bare(users, $0) })
                    measured.jobs.append(try await Procrastinate.noOpJobsPerSecond())
                }
                return section(measured)
            }
        }
    }

    private func bare(_ users: [String], _ place: Workplace) async throws -> Double {
        try await place.queueHeld()
        guard let schema = place.schema else { return 0 }
        return try BareServerSettlement(schema: schema, users: users).settlementsPerSecond()
    }

    private struct Measured {
        var files: [Double] = []
        var fleets: [Int: [HeldRun]] = [:]
        var bare: [Double] = []
        var jobs: [Limit.Reading] = []
    }

    private func section(_ measured: Measured) -> Section {
        let runs = measured.fleets[1] ?? []
        let one = runs.map(\.perSecond).median
        return Section(
            "Notifications on PostgreSQL, from row to commit: medians of \(rounds) rounds (× = one siwatch on PostgreSQL ÷ this)",
            [
                .ours("siwatch on PostgreSQL, \(count) consent-revoked at once", one),
                .limit(.median("siwatch on SQLite", measured.files), of: one),
            ]
                + Self.fleets.dropFirst().map { replicas in
                    .limit(.median("\(replicas) siwatch on PostgreSQL", (measured.fleets[replicas] ?? []).map(\.perSecond)), of: one)
                }
                + [
                    .limit(.median("bare libpq, claim + upsert + delete, \(BareServerSettlement.batch) a commit", measured.bare), of: one),
                    .limit(Procrastinate.limit(measured.jobs), of: one),
                    .init("siwatch's processor time for each", runs.map(\.processorTime).percentile(0.5).perPiece(count)),
                    .init("the log (WAL) of each insert", "\(runs.map(\.logOfInserts).median / count) bytes"),
                    .init("the log (WAL) of each settlement", "\(runs.map(\.logOfSettlements).median / count) bytes"),
                ],
            arguments: "--only postgres-notifications --queued \(count) --rounds \(rounds)"
        )
    }
}

/// A job queue on PostgreSQL, from the Python Package Index. Its jobs do nothing here. siwatch could otherwise build on it.
enum Procrastinate {
    private static let jobs = 2_000
    private static let script = "scripts/bench_procrastinate.py"

    static func noOpJobsPerSecond() async throws -> Limit.Reading {
        try await BenchServer.withDatabase { schema in
            let python = try ChildProcess(URL(filePath: "/usr/bin/env"), ["python3", script, schema.url, "\(jobs)"])
            let status = try await python.end()
            switch status {
            case 0: return python.output.last.flatMap(Double.init).map { .perSecond($0) } ?? .unknown("\(script) says something else")
            // The script's exit code for a missing package, and the shell's for a missing program.
            case 69, 127: return .unknown("not installed: pip install procrastinate 'psycopg[binary]', and its python3 first in the PATH")
            default: return .unknown("\(script) ended with \(status)")
            }
        }
    }

    static func limit(_ readings: [Limit.Reading]) -> Limit {
        let label = "procrastinate, no-op jobs"
        var rates: [Double] = []
        for reading in readings {
            switch reading {
            case .perSecond(let rate): rates.append(rate)
            case .unknown: return Limit(label, reading)
            }
        }
        return .median(label, rates)
    }
}
