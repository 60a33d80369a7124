// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB

/// How long after its commit a single notification or sign-in shows in the state, and the daemon's use of resources while idle.
struct LatencyBenchmark: Sendable {
    let count: Int
    let store: Store
    let logLevel: String

    /// A tick of the kernel's accounting, mostly 10 ms, is a thousandth of it.
    private static let idleTime = Duration.seconds(10)

    func run() async throws -> Section {
        say("Latency on \(store.rawValue)")
        return try await Workplace.use(on: store, logLevel: logLevel) { place in
            let users = try await place.makeCredentials(count).map(\.userID)
            let bodies = try await place.revokeConsent(of: users)
            let people = try await place.signIn(count)
            return try await place.withBackend { backend in
                try await place.withDaemon { daemon in
                    say("  siwatch is idle")
                    let (share, usage) = try await idle(daemon)
                    say("  \(count) single inserts")
                    let endings = try await place.latencies(of: Array(zip(users, bodies)), until: "revoked", backend) {
                        try await backend.insert(notifications: [$0])
                    }
                    let signIns = try await place.latencies(of: people.map { ($0.userID, $0) }, until: "authorized", backend) {
                        try await backend.insert([$0])
                    }
                    return Section(
                        "\(store.rawValue): from a backend's commit to the state, one at a time, and the idle daemon",
                        [
                            .init(label: "consent-revoked to revoked, p50 / p99 / the slowest of \(count)", figure: endings.figure),
                            .init(label: "its insert itself, p50", figure: endings.inserts.percentile(0.5).inMilliseconds),
                            .init(label: "a sign-in to authorized, p50 / p99 / the slowest of \(count)", figure: signIns.figure),
                            .init(label: "its insert itself, p50", figure: signIns.inserts.percentile(0.5).inMilliseconds),
                            .init(label: "idle: share of one core", figure: "\((share * 100).rounded(to: 2)) %"),
                            .init(label: "idle: resident memory", figure: usage.memory),
                        ],
                        arguments: "--only \(store == .sqlite ? "latency" : "postgres-latency") --inserts \(count)"
                    )
                }
            }
        }
    }

    private func idle(_ daemon: ChildProcess) async throws -> (share: Double, ProcessUsage) {
        // The daemon fetches Apple's keys first.
        try await Task.sleep(for: .seconds(2))
        let before = try ProcessUsage(of: daemon)
        let start = ContinuousClock.now
        try await Task.sleep(for: Self.idleTime)
        let after = try ProcessUsage(of: daemon)
        return ((after.processorTime - before.processorTime) / (ContinuousClock.now - start), after)
    }
}

extension Latencies {
    fileprivate var figure: String { [0.5, 0.99, 1].map { latencies.percentile($0).inMilliseconds }.joined(separator: " / ") }
}
