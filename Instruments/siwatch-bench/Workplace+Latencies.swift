// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

extension Workplace {
    /// Reports one consent-revoked after the other, and waits for each to show in the state.
    ///
    /// - Returns: how long each insert took, and how long after it each was seen.
    func latencies(of users: [String], _ bodies: [String], _ backend: Backend) async throws -> (inserts: [Duration], latencies: [Duration])
    {
        let state = "SELECT state = 'revoked' FROM credential_state WHERE user_id = ? AND client_id = ?"
        var (inserts, latencies): ([Duration], [Duration]) = ([], [])
        for (user, body) in zip(users, bodies) {
            // At any moment between two looks of the daemon.
            try await Task.sleep(for: .microseconds(Int.random(in: 0..<50_000)))
            let start = ContinuousClock.now
            try await backend.insert(notifications: [body])
            let committed = ContinuousClock.now
            while try await backend.int(state, [user, Self.clientID]) == 0 { try await Task.sleep(for: .microseconds(500)) }
            inserts.append(committed - start)
            latencies.append(ContinuousClock.now - committed)
        }
        return (inserts, latencies)
    }
}
