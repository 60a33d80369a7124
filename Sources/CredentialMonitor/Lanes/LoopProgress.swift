// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers
import ServiceLifecycle

/// When each loop last turned. This decides health, because a bare timer would prove nothing.
package final class LoopProgress: Sendable {
    private let lanes: Set<Lane>
    private let limit: Duration
    private let longestSilence: Duration
    private let writer: SettlementWriter?
    private let now: @Sendable () -> ContinuousClock.Instant
    private let turns = NIOLockedValueBox<[Lane: ContinuousClock.Instant]>([:])
    /// When each loop last heard that it cannot work now, and why, if it heard that.
    private let refusals = NIOLockedValueBox<[Lane: (at: ContinuousClock.Instant, cause: String?)]>([:])
    private let firstTurns: AsyncStream<Void>
    private let allTurned: AsyncStream<Void>.Continuation

    /// `pollInterval`: a loop that has not turned within twice this time, or five seconds, is stalled. `longestSilence` is the store's.
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
        // A busy machine may take a while to run a ready task. That is no stall.
        limit = max(pollInterval * 2, .seconds(5))
        (firstTurns, allTurned) = AsyncStream.makeStream()
    }

    func turn(_ lane: Lane) {
        refusals.withLockedValue { $0[lane]?.cause = nil }
        let turned = turns.withLockedValue { turns in
            turns[lane] = now()
            return lanes.isSubset(of: turns.keys)
        }
        if turned { allTurned.finish() }
    }

    /// Notes that the loop was told no: no progress, but no hang either.
    func refused(_ lane: Lane, because error: (any Error)? = nil) {
        // A later refusal without a cause is a consequence.
        refusals.withLockedValue { $0[lane] = (now(), error.map { "\($0)" } ?? $0[lane]?.cause) }
    }

    /// Returns once every loop has turned, or false at a stop or a cancellation. Await it once.
    package func waitForFirstTurns() async -> Bool {
        for await _ in firstTurns.cancelOnGracefulShutdown() {}
        return !Task.isShuttingDownGracefully && !Task.isCancelled
    }

    /// Loops that have not turned for too long or never, by name, and a writer whose commit does not end.
    package var stalled: [String] { silent(in: turns.withLockedValue { $0 }) + hungWriter }

    /// The last cause for which a loop cannot work; nil if all can.
    package var refusal: String? {
        refusals.withLockedValue { refusals in refusals.values.filter { $0.cause != nil }.max { $0.at < $1.at }?.cause }
    }

    /// Why nothing turns, and which loops do not; nil if all turn. Leaves out what the reader hears too.
    package func trouble(besides known: String? = nil) -> String? {
        let (turns, refusals) = (turns.withLockedValue { $0 }, refusals.withLockedValue { $0 })
        let silent = silent(in: turns)
        guard !silent.isEmpty || !hungWriter.isEmpty else { return nil }
        let heard = refusals.filter { silent.contains($0.key.description) }.max { $0.value.at < $1.value.at }
        let list = "no progress: \((silent + hungWriter).joined(separator: ", "))"
        let cause = heard?.value.cause.flatMap { known?.contains($0) == true ? nil : $0 }
        return [cause, list].compactMap(\.self).joined(separator: "; ")
    }

    /// Loops that do not even hear of trouble, by name, and a writer whose commit does not end. Only a hang is worth a restart: a new
    /// process would find a full disk just as full.
    package var hung: [String] {
        let heard = turns.withLockedValue { $0 }.merging(refusals.withLockedValue { $0.mapValues(\.at) }) { max($0, $1) }
        return silent(in: heard, for: limit + longestSilence) + hungWriter
    }

    private func silent(in signs: [Lane: ContinuousClock.Instant], for limit: Duration? = nil) -> [String] {
        let now = now()
        return lanes.filter { lane in signs[lane].map { now - $0 > limit ?? self.limit } ?? true }.map(\.description).sorted()
    }

    private var hungWriter: [String] { writer?.isHung == true ? ["writer"] : [] }
}
