// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import ServiceLifecycle
import Synchronization

/// One lane of work: how to claim it and how to resolve it. The loop does the rest.
package protocol WorkHandler: Sendable {
    associatedtype Work: Sendable

    var lane: Lane { get }
    /// How many pieces of work may be under way at once. It may change.
    var width: Int { get }
    /// Whether somebody waits for the outcome: it is committed before all else.
    var isUrgent: Bool { get }
    /// How many hands have to be free before more is claimed.
    var handful: Int { get }

    /// Claims at most `slots` pieces. Never more than there are hands for.
    func claim(upTo slots: Int) async throws -> [Work]
    /// Finds out what becomes of a piece of work. Failure is a settlement too.
    func resolve(_ work: Work) async -> [Settlement]
    /// How soon to look again although nobody hints: where claiming stopped for another reason than want of work.
    func retryDelay() -> Duration?
}

extension WorkHandler {
    package var isUrgent: Bool { false }

    /// A quarter of the hands: claiming in handfuls instead of ones doubles throughput.
    package var handful: Int { max(1, width / 4) }

    package func retryDelay() -> Duration? { nil }
}

/// The lanes by the name that logs and health reports use.
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

/// Wake, claim, resolve concurrently, submit.
package struct ClaimLoop<Handler: WorkHandler>: Service {
    private let handler: Handler
    private let writer: SettlementWriter
    private let wakeups: Wakeups
    private let progress: LoopProgress
    private let telemetry: Telemetry

    package init(
        _ handler: Handler,
        writer: SettlementWriter,
        wakeups: Wakeups,
        progress: LoopProgress,
        telemetry: Telemetry
    ) {
        self.handler = handler
        self.writer = writer
        self.wakeups = wakeups
        self.progress = progress
        self.telemetry = telemetry
    }

    package func run() async throws {
        let hands = Hands()
        await withDiscardingTaskGroup { group in
            for await _ in wakeups.untilShutdown() {
                // While nothing can be committed nothing is claimed, and the lane makes no progress.
                guard !writer.isInTrouble else {
                    progress.refused(handler.lane)
                    continue
                }
                func free() -> Int? {
                    let free = handler.width - hands.taken
                    return free >= handler.handful ? free : nil
                }
                if free() == nil { progress.turn(handler.lane) }
                while let slots = free(), !Task.isShuttingDownGracefully, !Task.isCancelled {
                    guard let claimed = await claim(upTo: slots) else { break }
                    progress.turn(handler.lane)
                    for work in claimed {
                        hands.take()
                        group.addTask {
                            await settle(work)
                            hands.release()
                            wakeups.hint()
                        }
                    }
                    if claimed.isEmpty { break }
                }
                if let delay = handler.retryDelay(), hands.startWaiting() {
                    group.addTask {
                        try? await cancelWhenGracefulShutdown { try await Task.sleep(for: delay) }
                        hands.stopWaiting()
                        wakeups.hint()
                    }
                }
            }
            // What is under way ends before the group does.
        }
    }

    /// One round without sequence or service: claims once, resolves all of it, and submits.
    ///
    /// - Returns: how many pieces of work there were.
    package func round() async throws -> Int {
        let claimed = try await handler.claim(upTo: handler.width)
        try await withThrowingDiscardingTaskGroup { group in
            for work in claimed {
                group.addTask { try await writer.submit(handler.resolve(work), isUrgent: handler.isUrgent) }
            }
        }
        return claimed.count
    }

    /// Nil where the store is in trouble.
    private func claim(upTo slots: Int) async -> [Handler.Work]? {
        do {
            return try await handler.claim(upTo: slots)
        } catch {
            progress.refused(handler.lane)
            telemetry.claimFailed(handler.lane, error)
            return nil
        }
    }

    private func settle(_ work: Handler.Work) async {
        do {
            try await writer.submit(handler.resolve(work), isUrgent: handler.isUrgent)
        } catch {
            // Nothing is lost: the claim runs out and the row is due again.
            telemetry.settlementFailed(handler.lane, error)
        }
    }
}

/// How many pieces of work a loop has under way.
private final class Hands: Sendable {
    private let count = Atomic<Int>(0)
    private let isWaiting = Atomic<Bool>(false)

    var taken: Int { count.load(ordering: .relaxed) }

    func take() {
        count.add(1, ordering: .relaxed)
    }

    func release() {
        count.subtract(1, ordering: .relaxed)
    }

    /// Whether the caller is the one to wait: one delayed hint at a time is enough.
    func startWaiting() -> Bool {
        !isWaiting.exchange(true, ordering: .relaxed)
    }

    func stopWaiting() {
        isWaiting.store(false, ordering: .relaxed)
    }
}
