// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import ServiceLifecycle

/// One lane of work: how to claim it and how to resolve it. The loop does the rest.
package protocol WorkHandler: Sendable {
    associatedtype Work: Sendable

    var lane: Lane { get }
    /// How many pieces of work may be under way at once. It may change.
    var width: Int { get }
    /// How many pieces of work may be claimed at most before a hand is free: what is done in a twelfth of a second, or `width` if that is
    /// more. So a dying process leaves little behind, and at full speed a commit has much to do. Work that has waited for longer than
    /// `longestWait` is left to its lease. With a reserve, nobody waits for the outcome, so claims and commits are larger.
    var reserve: (most: Int, longestWait: Duration)? { get }
    /// Whether somebody waits for the outcome. Urgent settlements are committed before all others.
    var isUrgent: Bool { get }
    /// How much of the room must be free before the loop claims more.
    func handful(of room: Int) -> Int

    func claim(upTo slots: Int) async throws -> [Work]
    /// Whether work that has waited in reserve must not be resolved. Its claim then runs out.
    func isHeld(_ work: Work) -> Bool
    /// Finds out what becomes of a piece of work. A failure is a settlement too.
    func resolve(_ work: Work) async -> [Settlement]
    /// How soon to look again without a hint. Nil unless claiming stopped for another reason than a lack of work.
    func retryDelay() -> Duration?
}

extension WorkHandler {
    package var isUrgent: Bool { false }
    package var reserve: (most: Int, longestWait: Duration)? { nil }

    /// A quarter. Claiming in handfuls instead of one by one doubles throughput.
    package func handful(of room: Int) -> Int { max(1, room / 4) }

    package func isHeld(_ work: Work) -> Bool { false }

    package func retryDelay() -> Duration? { nil }
}

package enum Lane: Sendable, Hashable, CustomStringConvertible {
    case notifications
    case grants
    case codes
    case revocations
    case refreshes(app: String)
    case operatorRequests

    package var description: String {
        switch self {
        case .notifications: "notifications"
        case .grants: "grants"
        case .codes: "codes"
        case .revocations: "revocations"
        case .refreshes(let app): "refreshes of \(app)"
        case .operatorRequests: "operators' requests"
        }
    }
}

/// Wakes, claims, resolves concurrently, submits.
package struct ClaimLoop<Handler: WorkHandler>: Service {
    private let handler: Handler
    private let writer: SettlementWriter
    private let wakeups: Wakeups
    private let progress: LoopProgress
    private let mayClaim: @Sendable () -> Bool
    private let executors: [(any TaskExecutor)?]

    /// `mayClaim` is false while this replica has not heard of the others. The executors resolve work in turn, if there are any.
    package init(
        _ handler: Handler,
        writer: SettlementWriter,
        wakeups: Wakeups,
        progress: LoopProgress,
        mayClaim: @escaping @Sendable () -> Bool = { true },
        executors: [any TaskExecutor] = []
    ) {
        self.handler = handler
        self.writer = writer
        self.wakeups = wakeups
        self.progress = progress
        self.mayClaim = mayClaim
        self.executors = executors.isEmpty ? [nil] : executors
    }

    private var telemetry: Telemetry { writer.telemetry }

    package func run() async throws {
        let pool = WorkPool<Handler.Work>()
        var turn = 0
        await withDiscardingTaskGroup { group in
            for await _ in wakeups.untilShutdown() {
                pool.hasHinted = false
                // While nothing can be committed, nothing is claimed and the lane makes no progress.
                if let trouble = writer.trouble {
                    progress.refused(handler.lane, because: trouble)
                    continue
                }
                if free(pool) == nil { progress.turn(handler.lane) }
                while let slots = free(pool), !Task.isShuttingDownGracefully, !Task.isCancelled {
                    guard let claimed = await claim(upTo: slots) else { break }
                    progress.turn(handler.lane)
                    for work in pool.receive(claimed, width: handler.width, longestWait: handler.reserve?.longestWait ?? .zero) {
                        turn = (turn + 1) % executors.count
                        group.addTask(executorPreference: executors[turn]) { await settle(from: work, pool) }
                    }
                    if claimed.isEmpty { break }
                }
                if let delay = handler.retryDelay(), pool.startWaiting() {
                    group.addTask {
                        try? await cancelWhenGracefulShutdown { try await Task.sleep(for: delay) }
                        pool.stopWaiting()
                        wakeups.hint()
                    }
                }
            }
            // Work under way ends before the group ends.
        }
        if handler.reserve != nil { await writer.drain() }
    }

    /// How many pieces of work may be claimed. Nil while that is less than a handful.
    private func free(_ pool: WorkPool<Handler.Work>) -> Int? {
        let (claimed, donePerSecond) = pool.counts
        let reserve = handler.reserve
        var room = handler.width
        if let reserve { room += min(max(donePerSecond / 12, handler.width), reserve.most) }
        let free = room - claimed
        guard free >= handler.handful(of: room) else { return nil }
        // A lane with a reserve does not wait for commits, so it must stop when they fall behind.
        return reserve == nil || writer.waiting < SettlementWriter.mostWaiting ? free : nil
    }

    /// One hand: settles a piece of work, then work from the reserve.
    private func settle(from first: Handler.Work, _ pool: WorkPool<Handler.Work>) async {
        await settle(first)
        pool.finish()
        while let work = pool.next(width: handler.width) {
            hint(pool)
            guard !handler.isHeld(work) else { continue }
            await settle(work)
            pool.finish()
        }
        hint(pool)
    }

    /// Wakes the loop if it can claim. One hint is enough until the loop has woken.
    private func hint(_ pool: WorkPool<Handler.Work>) {
        if !pool.hasHinted, free(pool) != nil {
            pool.hasHinted = true
            wakeups.hint()
        }
    }

    /// One round without a sequence or a service: claims once, resolves, submits.
    package func round() async throws -> Int {
        let claimed = try await handler.claim(upTo: handler.width)
        try await withThrowingDiscardingTaskGroup { group in
            for work in claimed {
                group.addTask { try await writer.submit(handler.resolve(work), isUrgent: handler.isUrgent) }
            }
        }
        return claimed.count
    }

    /// Nil if the store is in trouble, or if this replica has not heard of the other replicas.
    private func claim(upTo slots: Int) async -> [Handler.Work]? {
        guard mayClaim() else {
            progress.refused(handler.lane)
            return nil
        }
        do {
            let claimed = try await handler.claim(upTo: slots)
            telemetry.storeAnswered("\(handler.lane)")
            if !claimed.isEmpty { telemetry.commitFoundRoom() }
            // The claim may have waited for a dead network. Its rows are left to their lease.
            guard claimed.isEmpty || mayClaim() else {
                progress.refused(handler.lane)
                return nil
            }
            return claimed
        } catch {
            progress.refused(handler.lane, because: error)
            telemetry.claimFailed(handler.lane, error)
            return nil
        }
    }

    private func settle(_ work: Handler.Work) async {
        let settlements = await handler.resolve(work)
        guard handler.reserve == nil else { return writer.submitPatiently(settlements, of: handler.lane) }
        do {
            try await writer.submit(settlements, isUrgent: handler.isUrgent)
        } catch {
            // Nothing is lost: the claim runs out and the row becomes due again.
            telemetry.settlementFailed(handler.lane, error)
        }
    }
}
