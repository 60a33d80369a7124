// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation

/// How many refreshes a second siwatch completes and commits on PostgreSQL and, with the same users, on SQLite: by turns, several times.
struct StoreRefreshBenchmark: Sendable {
    let count, rounds: Int

    private static let concurrencies = [64, 256]

    func run() async throws -> Section {
        say("Refreshes on PostgreSQL")
        return try await Workplace.use { file in
            try await file.withNeighbour(on: .postgres) { server in
                let signIns = try await file.signIn(count)
                for place in [file, server] { try await place.takeIn(signIns) }
                let bare = try await BareClient(file, signIns)
                // Apple signs its answers now, and repeats them from here on.
                _ = try await bare.answersPerSecond(atOnce: Self.concurrencies[0])
                var rows: [Section.Row] = []
                for concurrency in Self.concurrencies {
                    var (files, servers): ([Double], [RefreshRun]) = ([], [])
                    for round in 1...rounds {
                        say("  \(concurrency) at once, round \(round) of \(rounds)")
                        // Each store goes first equally often.
                        for place in round.isMultiple(of: 2) ? [server, file] : [file, server] {
                            let run = try await place.refresh(signIns.map(\.userID), atOnce: concurrency)
                            if place.schema == nil { files.append(run.perSecond) } else { servers.append(run) }
                        }
                        try await server.vacuum()
                    }
                    rows += section(files, servers, concurrency)
                }
                return Section(
                    "Refreshes on PostgreSQL, answered and committed: medians of \(rounds) rounds (× = siwatch on PostgreSQL ÷ this)",
                    rows,
                    arguments: "--only postgres-refreshes --refreshes \(count) --rounds \(rounds)"
                )
            }
        }
    }

    private func section(_ files: [Double], _ servers: [RefreshRun], _ concurrency: Int) -> [Section.Row] {
        let ours = servers.map(\.perSecond).median
        return [
            .ours("siwatch on PostgreSQL, \(count) refreshes, \(concurrency) at once", servers.map(\.perSecond)),
            .limit(.median("siwatch on SQLite", files), of: ours),
            .init(label: "siwatch's processor time for each", figure: servers.map(\.usage.processorTime).median.perPiece(count)),
            .init(label: "the log (WAL) of each", figure: "\(servers.map(\.log).median / count) bytes"),
        ]
    }
}
