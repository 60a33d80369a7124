// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import Synchronization

/// When each loop last turned, which is what health means here: a bare timer would prove nothing.
package final class LoopProgress: Sendable {
    private let lanes: Set<Lane>
    private let limit: Duration
    private let state = Mutex(State())

    private struct State {
        var turns: [Lane: ContinuousClock.Instant] = [:]
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    /// - Parameters:
    ///   - lanes: those that are to run.
    ///   - pollInterval: a loop that has not turned within twice this time is stalled.
    package init(lanes: Set<Lane>, pollInterval: Duration) {
        self.lanes = lanes
        // A busy machine may take a while to run a ready task; that is no stall.
        limit = max(pollInterval * 2, .seconds(5))
    }

    func turn(_ lane: Lane) {
        let waiting = state.withLock { state in
            state.turns[lane] = .now
            guard lanes.isSubset(of: state.turns.keys) else { return [CheckedContinuation<Void, Never>]() }
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Returns once every loop has turned.
    package func allTurned() async {
        await withCheckedContinuation { continuation in
            let isDone = state.withLock { state in
                if lanes.isSubset(of: state.turns.keys) { return true }
                state.waiting.append(continuation)
                return false
            }
            if isDone { continuation.resume() }
        }
    }

    /// The loops that have not turned for too long, or not at all, by name.
    package var stalled: [String] {
        let now = ContinuousClock.now
        let turns = state.withLock { $0.turns }
        return lanes.filter { lane in turns[lane].map { now - $0 > limit } ?? true }.map(\.description).sorted()
    }
}
