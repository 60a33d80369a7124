// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import Synchronization

/// When each loop last turned, which is what health means here: a bare timer would prove nothing.
package final class LoopProgress: Sendable {
    private let turns = Mutex<[Lane: ContinuousClock.Instant]>([:])
    private let limit: Duration

    /// - Parameter pollInterval: a loop that has not turned within twice this time is stalled.
    package init(pollInterval: Duration) {
        // A busy machine may take a while to run a ready task; that is no stall.
        limit = max(pollInterval * 2, .seconds(5))
    }

    func enter(_ lane: Lane) {
        turn(lane)
    }

    func turn(_ lane: Lane) {
        turns.withLock { $0[lane] = .now }
    }

    func leave(_ lane: Lane) {
        turns.withLock { $0[lane] = nil }
    }

    /// The lanes whose loop is running.
    package var running: Set<Lane> {
        turns.withLock { Set($0.keys) }
    }

    /// The loops that have not turned for too long, by name.
    package var stalled: [String] {
        let now = ContinuousClock.now
        return turns.withLock { turns in
            turns.filter { now - $0.value > limit }.map(\.key.description).sorted()
        }
    }
}
