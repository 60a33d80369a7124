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

    /// A tick of the kernel's accounting, mostly 10 ms, is a thousandth of it.
    private static let idleTime = Duration.seconds(10)

    func run() async throws -> Section {
        say("Latency on \(store.rawValue)")
        return try await Workplace.use(on: store) { place in
            let users = try await place.makeCredentials(count).map(\.userID)
            let bodies = try await place.notify(RevokeConsent(), users)
            let people = try await place.signIn(count)
            return try await place.withBackend { backend in
                try await place.withDaemon { daemon in
                    say("  siwatch is idle")
                    // The daemon fetches Apple's keys first.
                    let (share, usage) = try await ProcessUsage.share(of: daemon, after: .seconds(2), during: Self.idleTime)
                    say("  \(count) single inserts")
                    let endings = try await place.latencies(of: Array(zip(users, bodies)), until: "revoked", backend) {
                        try await backend.insert(notifications: [$0])
                    }
                    let signIns = try await place.latencies(of: people.map { ($0.userID, $0) }, until: "authorized", backend) {
                        try await backend.insert([$0])
                    }
                    let shares = "p50 / p99 / the slowest of \(count)"
                    return Section(
                        "\(store.rawValue): from a backend's commit to the state, one at a time, and the idle daemon",
                        [
                            .init("consent-revoked to revoked, \(shares)", endings.latencies.figure(0.5, 0.99, 1)),
                            .init("its insert itself, p50", endings.inserts.percentile(0.5).inMilliseconds),
                            .init("a sign-in to authorized, \(shares)", signIns.latencies.figure(0.5, 0.99, 1)),
                            .init("its insert itself, p50", signIns.inserts.percentile(0.5).inMilliseconds),
                            .init("idle: share of one core", share.percent),
                            .init("idle: resident memory", usage.memory),
                        ],
                        arguments: "--only \(store == .sqlite ? "latency" : "postgres-latency") --inserts \(count)"
                    )
                }
            }
        }
    }
}

/// How long inserts took, and how long after its commit each showed in the state.
struct Latencies: Sendable {
    var inserts: [Duration] = []
    var latencies: [Duration] = []

    /// Inserts at a random moment between two looks or commits of the daemon, and waits until the insert shows.
    mutating func measure(within pause: Duration, insert: () async throws -> Void, until isSeen: () async throws -> Bool) async throws {
        try await Task.sleep(for: pause * Double.random(in: 0..<1))
        let start = ContinuousClock.now
        try await insert()
        let committed = ContinuousClock.now
        while try await !isSeen() {
            guard ContinuousClock.now - committed < .seconds(60) else { throw HarnessError("an insert did not show within a minute") }
            try await Task.sleep(for: .microseconds(500))
        }
        inserts.append(committed - start)
        latencies.append(ContinuousClock.now - committed)
    }
}

extension Workplace {
    /// Reports one fact after the other, in one commit each, and waits for the state that it brings.
    func latencies<Fact>(
        of facts: [(userID: String, Fact)],
        until state: String,
        _ backend: Backend,
        insert: (Fact) async throws -> Void
    ) async throws -> Latencies {
        let seen = "SELECT COUNT(*) FROM credential_state WHERE user_id = ? AND client_id = ? AND state = ?"
        var found = Latencies()
        for (user, fact) in facts {
            try await found.measure(within: .milliseconds(50)) {
                try await insert(fact)
            } until: {
                try await backend.int(seen, [user, Self.clientID, state]) > 0
            }
        }
        return found
    }
}
