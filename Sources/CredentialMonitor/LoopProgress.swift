// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import NIOConcurrencyHelpers
internal import ServiceLifecycle

/// When each loop last turned, which is what health means here: a bare timer would prove nothing.
package final class LoopProgress: Sendable {
    private let lanes: Set<Lane>
    private let limit: Duration
    private let turns = NIOLockedValueBox<[Lane: ContinuousClock.Instant]>([:])
    private let firstTurns: AsyncStream<Void>
    private let allTurned: AsyncStream<Void>.Continuation

    /// - Parameters:
    ///   - lanes: those that are to run.
    ///   - pollInterval: a loop that has not turned within twice this time is stalled.
    package init(lanes: Set<Lane>, pollInterval: Duration) {
        self.lanes = lanes
        // A busy machine may take a while to run a ready task; that is no stall.
        limit = max(pollInterval * 2, .seconds(5))
        (firstTurns, allTurned) = AsyncStream.makeStream()
    }

    func turn(_ lane: Lane) {
        let turned = turns.withLockedValue { turns in
            turns[lane] = .now
            return lanes.isSubset(of: turns.keys)
        }
        if turned { allTurned.finish() }
    }

    /// Returns once every loop has turned, or a stop or a cancellation came first. To be awaited once.
    ///
    /// - Returns: whether every loop has turned and none is to stop yet.
    package func waitForFirstTurns() async -> Bool {
        for await _ in firstTurns.cancelOnGracefulShutdown() {}
        return !Task.isShuttingDownGracefully && !Task.isCancelled
    }

    /// The loops that have not turned for too long, or not at all, by name.
    package var stalled: [String] {
        let now = ContinuousClock.now
        let turns = turns.withLockedValue { $0 }
        return lanes.filter { lane in turns[lane].map { now - $0 > limit } ?? true }.map(\.description).sorted()
    }
}
