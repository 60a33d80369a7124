// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers
import ServiceLifecycle

/// When each loop last turned, which is what health means here: a bare timer would prove nothing.
package final class LoopProgress: Sendable {
    private let lanes: Set<Lane>
    private let limit: Duration
    private let longestSilence: Duration
    private let writer: SettlementWriter?
    private let now: @Sendable () -> ContinuousClock.Instant
    private let turns = NIOLockedValueBox<[Lane: ContinuousClock.Instant]>([:])
    /// When each loop last heard from the store that it cannot work now.
    private let refusals = NIOLockedValueBox<[Lane: ContinuousClock.Instant]>([:])
    private let firstTurns: AsyncStream<Void>
    private let allTurned: AsyncStream<Void>.Continuation

    /// - Parameters:
    ///   - lanes: those that are to run.
    ///   - pollInterval: a loop that has not turned within twice this time is stalled.
    ///   - longestSilence: of the store, until it says that it cannot.
    ///   - writer: whom they wait for.
    package init(
        lanes: Set<Lane>,
        pollInterval: Duration,
        longestSilence: Duration = .zero,
        writer: SettlementWriter? = nil,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        self.lanes = lanes
        self.now = now
        self.longestSilence = longestSilence
        self.writer = writer
        // A busy machine may take a while to run a ready task; that is no stall.
        limit = max(pollInterval * 2, .seconds(5))
        (firstTurns, allTurned) = AsyncStream.makeStream()
    }

    func turn(_ lane: Lane) {
        let turned = turns.withLockedValue { turns in
            turns[lane] = now()
            return lanes.isSubset(of: turns.keys)
        }
        if turned { allTurned.finish() }
    }

    /// The store answered, and the answer was no: no progress, but no hang either.
    func refused(_ lane: Lane) {
        refusals.withLockedValue { $0[lane] = now() }
    }

    /// Returns once every loop has turned, or a stop or a cancellation came first. To be awaited once.
    ///
    /// - Returns: whether every loop has turned and none is to stop yet.
    package func waitForFirstTurns() async -> Bool {
        for await _ in firstTurns.cancelOnGracefulShutdown() {}
        return !Task.isShuttingDownGracefully && !Task.isCancelled
    }

    /// Who makes no progress, by name: loops that have not turned for too long or not at all, and a writer whose commit does not end.
    package var stalled: [String] {
        silent(in: turns.withLockedValue { $0 }) + hungWriter
    }

    /// Who does not even hear that there is trouble. A new process would find a full disk as full; only a hang is worth a restart.
    package var hung: [String] {
        let heard = turns.withLockedValue { $0 }.merging(refusals.withLockedValue { $0 }) { max($0, $1) }
        return silent(in: heard, for: limit + longestSilence) + hungWriter
    }

    private func silent(in signs: [Lane: ContinuousClock.Instant], for limit: Duration? = nil) -> [String] {
        let now = now()
        return lanes.filter { lane in signs[lane].map { now - $0 > limit ?? self.limit } ?? true }.map(\.description).sorted()
    }

    private var hungWriter: [String] { writer?.isHung == true ? ["writer"] : [] }
}
