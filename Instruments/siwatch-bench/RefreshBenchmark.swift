// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation

/// How many refreshes a second are answered and committed, all credentials being due at once.
struct RefreshBenchmark: Sendable {
    let count: Int
    let logLevel: String

    private static let concurrencies = [64, 256]

    func run() async throws -> Section {
        say("Refreshes")
        return try await Workplace.use(logLevel: logLevel) { place in
            let signIns = try await place.makeCredentials(count)
            let bare = try await BareClient(place, signIns)
            var rows: [Section.Row] = []
            for concurrency in Self.concurrencies {
                say("  \(concurrency) at once")
                // Apple's answer to a token stays the same for a minute here: signing it anew takes longer than all else.
                _ = try await bare.answersPerSecond(atOnce: concurrency)
                let before = try await limit(bare, concurrency)
                let (rate, usage) = try await refresh(place, atOnce: concurrency)
                let after = try await limit(bare, concurrency)
                rows += [
                    .ours("siwatch, \(count) refreshes, \(concurrency) at once", rate),
                    .limit(.mean(before, after), of: rate),
                    .init(label: "siwatch's processor time for each", figure: usage.processorTime.perPiece(count)),
                    .init(label: "siwatch's writes for each", figure: usage.written.perPiece(count)),
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

    private func refresh(_ place: Workplace, atOnce concurrency: Int) async throws -> (perSecond: Double, ProcessUsage) {
        try place.configure(
            refresh: """
                interval = "24h"
                max_requests_per_second = 1000000
                max_concurrent_requests = \(concurrency)
                """
        )
        try await place.apple.resetCounters()
        return try await place.withBackend { backend in
            // Due at once, as after a long stop; no backend would ever write here.
            try await backend.execute("UPDATE credential SET due_at = 1")
            let (end, usage) = try await place.withDaemon { daemon in
                try await untilAllAreDueTomorrow(backend)
                return (Date.now.timeIntervalSince1970, try ProcessUsage(of: daemon))
            }
            try await checkAnswers(of: place.apple)
            // Verified at the moment of the request.
            let start = try await backend.int("SELECT MIN(verified_at) FROM credential")
            return (Double(count) / (end - Double(start) / 1000), usage)
        }
    }

    /// Asks the index of the schedule, which costs next to nothing: a claim moves a due time by minutes, an answer by a day.
    private func untilAllAreDueTomorrow(_ backend: Backend) async throws {
        let soon = Int(Date.now.timeIntervalSince1970 * 1000) + 3_600_000
        let earliest = "SELECT MIN(due_at) FROM credential WHERE app = (SELECT id FROM app) AND due_at IS NOT NULL"
        while try await backend.int(earliest) < soon { try await Task.sleep(for: .milliseconds(5)) }
    }

    /// A run in which Apple was not asked once about each is none.
    private func checkAnswers(of apple: SimulatedApple) async throws {
        let answers = try await apple.counters().counters.requests[.token] ?? [:]
        guard answers == ["200": count] else { throw HarnessError("the simulator answered \(answers) instead of 200 to \(count)") }
    }
}
