// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation

/// How many refreshes a second siwatch completes and commits when all credentials are due at once.
struct RefreshBenchmark: Sendable {
    let count: Int

    private static let concurrencies = [64, 256]

    func run() async throws -> Section {
        say("Refreshes")
        return try await Workplace.use { place in
            let signIns = try await place.makeCredentials(count)
            let bare = try await BareClient(place, signIns)
            var rows: [Section.Row] = []
            for concurrency in Self.concurrencies {
                say("  \(concurrency) at once")
                // Apple signs its answers now, and repeats them from here on.
                _ = try await bare.answersPerSecond(atOnce: concurrency)
                let before = try await limit(bare, concurrency)
                let run = try await place.refresh(signIns.map(\.userID), atOnce: concurrency)
                let after = try await limit(bare, concurrency)
                rows += [
                    .ours("siwatch, \(count) refreshes, \(concurrency) at once", run.perSecond),
                    .limit(.mean(before, after), of: run.perSecond),
                    .init(label: "siwatch's processor time for each", figure: run.usage.processorTime.perPiece(count)),
                    .init(label: "siwatch's writes for each", figure: run.usage.written.perPiece(count)),
                ]
            }
            return Section(
                "Refreshes, answered and committed, beside a simulator on the same cores (× = siwatch ÷ limit)",
                rows,
                arguments: "--only refreshes --refreshes \(count)"
            )
        }
    }

    private func limit(_ bare: BareClient, _ concurrency: Int) async throws -> Limit {
        Limit("bare async-http-client, \(concurrency) at once", .perSecond(try await bare.answersPerSecond(atOnce: concurrency)))
    }
}
