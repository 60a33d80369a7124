// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Logging
import ServiceLifecycle
import UnixSignals

/// `run --once`.
extension Daemon {
    /// Settles what is due now. If a signal comes first, stops like the daemon.
    func runOnce() async throws {
        let keeper = context.membership.keeper(writer.breakers, context.sealer, context.store, context.telemetry)
        let turnover = KeyTurnover(context)
        let working: [any Service] = [writer, FiniteService { try await settleAndKeepHouse(turnover) }]
        let services = working.map { ServiceGroupConfiguration.ServiceConfiguration($0, atSuccess: .gracefullyShutdownGroup) }
        do {
            try await serviceGroup((keeper.map { [.init($0)] } ?? []) + services).run()
        } catch  where error is CancellationError || error is SettlementWriter.Closed {
            // The stop came in the middle of work.
            context.logger.log(.stopCutShort, ["duration_ms": "\(Self.longestStop.milliseconds)"])
        }
        try? await turnover.noteSeals()
    }

    private func settleAndKeepHouse(_ turnover: KeyTurnover) async throws {
        try await settleAll()
        do {
            try await cancelWhenGracefulShutdown {
                if context.membership.keepsHouse { try await maintain() }
                try await turnover.turn(every: .zero)
            }
        } catch is CancellationError where Task.isShuttingDownGracefully {
            // The next start goes on with the housekeeping.
        }
    }

    private func settleAll() async throws {
        await apple.refreshKeys()
        // By then, the lanes that no other replica owns are ours.
        if context.membership.isShared { try? await cancelWhenGracefulShutdown { try await Task.sleep(for: .seconds(2)) } }
        let pollInterval = context.configuration.queues.pollInterval
        let operators = requests(Wakeups(every: pollInterval), LoopProgress(lanes: [], pollInterval: pollInterval))
        // A long request goes on at the next start.
        while !Task.isShuttingDownGracefully, try await operators.handleNext() {}
        defer { context.telemetry.decisionsPlanted(context.store.takePlanted(), at: context.clock.now) }
        for handler in queues.all { try await settleAll(handler) }
        let due = try await context.store.overdueCredentials(before: context.clock.now, upTo: .max)
        // No more than are due now, because with a short interval some are due again before the last is done.
        for app in apps { try await settleAll(app.refreshes, atMost: due[app.atWork.name] ?? 0) }
        // Apple's 200s until now may prove rejections that have waited long enough.
        for app in apps where !Task.isShuttingDownGracefully { _ = try await loop(app.refreshes).round() }
    }

    private func settleAll(_ handler: some WorkHandler, atMost limit: Int = .max) async throws {
        let loop = loop(handler)
        var settled = 0
        while settled < limit, !Task.isShuttingDownGracefully {
            let round = try await loop.round()
            settled += round
            if round > 0 { continue }
            guard let delay = handler.retryDelay() else { return }
            try? await cancelWhenGracefulShutdown { try await Task.sleep(for: delay) }
            try Task.checkCancellation()
        }
    }

    private func loop<Handler: WorkHandler>(_ handler: Handler) -> ClaimLoop<Handler> {
        let pollInterval = context.configuration.queues.pollInterval
        return ClaimLoop(
            handler,
            writer: writer,
            wakeups: Wakeups(every: pollInterval),
            progress: LoopProgress(lanes: [], pollInterval: pollInterval)
        )
    }
}

private struct FiniteService: Service {
    var body: @Sendable () async throws -> Void

    func run() async throws { try await body() }
}
