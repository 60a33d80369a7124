// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// How long inserts took, and how long after its commit each showed in the state.
struct Latencies: Sendable {
    var inserts: [Duration] = []
    var latencies: [Duration] = []
}

extension Workplace {
    /// Reports one fact after the other, and waits for each to show.
    ///
    /// - Parameters:
    /// - state: the expected state after each fact.
    /// - insert: inserts a fact, in one commit.
    func latencies<Fact>(
        of facts: [(userID: String, Fact)],
        until state: String,
        _ backend: Backend,
        insert: (Fact) async throws -> Void
    ) async throws -> Latencies {
        let seen = "SELECT COUNT(*) FROM credential_state WHERE user_id = ? AND client_id = ? AND state = ?"
        var found = Latencies()
        for (user, fact) in facts {
            // Insert at a random moment between two looks of the daemon.
            try await Task.sleep(for: .microseconds(Int.random(in: 0..<50_000)))
            let start = ContinuousClock.now
            try await insert(fact)
            let committed = ContinuousClock.now
            while try await backend.int(seen, [user, Self.clientID, state]) == 0 { try await Task.sleep(for: .microseconds(500)) }
            found.inserts.append(committed - start)
            found.latencies.append(ContinuousClock.now - committed)
        }
        return found
    }
}
