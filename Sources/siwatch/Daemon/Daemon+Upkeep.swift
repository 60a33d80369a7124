// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import CredentialCore
import CredentialMonitor
import Logging
import PrometheusMetrics

/// Work that is repeated, and work on request.
extension Daemon {
    func refreshKeys() async {
        let outcome = await signingKeys.refreshIfDue()
        // A fetch that the end of the process cuts short says nothing of Apple or of the database.
        guard !Task.isCancelled else { return }
        switch outcome {
        case .notDue: return
        case .fetched(let unsaved):
            if let unsaved { telemetry.signingKeysNotKept(unsaved) }
        case .failed(let reason):
            telemetry.signingKeysFailed(reason)
        }
        telemetry.signingKeysRefreshed(count: signingKeys.count, at: signingKeys.lastRefresh)
    }

    var keyRefresh: Recurring {
        Recurring(every: .seconds(1), onFailure: { _ in }) { await refreshKeys() }
    }

    /// Commits one row, which an idle disk can bear, while every loop makes progress.
    func heartbeat(_ progress: LoopProgress) -> Recurring {
        // The writer reports that nothing can be committed, and the missing beat shows it.
        Recurring(every: .seconds(10), onFailure: { _ in }) { [store, clock] in
            if progress.stalled.isEmpty { try await store.beat(at: clock.now) }
        }
    }

    var maintenance: Recurring {
        Recurring(every: .seconds(60), onFailure: telemetry.maintenanceFailed) { [store, membership, clock, erasureBlocker, telemetry] in
            telemetry.foreignCheckpoints(store.takeForeignCheckpoints())
            // One replica does the housekeeping for all.
            guard membership.keepsHouse else { return erasureBlocker.leaveToOthers() }
            do {
                try await maintain()
                erasureBlocker.observe(since: try await store.logPinnedSince, at: clock.now)
            } catch {
                telemetry.logPinUnread()
                throw error
            }
        }
    }

    func maintain() async throws {
        if let now = clockGuard.trusted { try await store.forget(at: now) }
        try await store.sweep(at: clock.now)
        try await store.shortenSchedule(to: configuration.refreshPolicy, at: clock.now)
        if try await store.forgetDryClients(at: clock.now) { try await writer.breakers.load(from: store) }
        if let now = clockGuard.trusted { telemetry.notificationsMissed(try await store.countMissedNotifications(at: now)) }
    }

    var overdueCount: Recurring {
        let rounds = CheckRounds(store)
        return Recurring(every: .seconds(15), onFailure: telemetry.maintenanceFailed) {
            [store, membership, clock, telemetry, refresh, apps] in
            guard membership.keepsHouse else { return }
            do {
                telemetry.observe(overdue: try await store.overdueChecks(at: clock.now))
                for round in try await rounds.rounds(refresh(), of: apps.map(\.atWork.name)) {
                    telemetry.observe(round.round, of: round.app)
                }
            } catch {
                telemetry.checksUnread()
                throw error
            }
        }
    }

    /// The settings as the last reload left them.
    private var refresh: @Sendable () -> Configuration.Refresh {
        { [configuration, apps] in
            var refresh = configuration.refresh
            if let limits = apps.first?.atWork.budget.limits { refresh.maxRequestsPerSecond = Int(limits.maxRequestsPerSecond) }
            return refresh
        }
    }

    func operationsServer(_ address: ListenAddress, _ progress: LoopProgress, _ readiness: Readiness) -> OperationsServer {
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .warning)
        return OperationsServer(
            address: address,
            logger: quiet,
            metrics: { [membership, telemetry, registry, output] format in
                telemetry.suppressed(output.takeSuppressed())
                telemetry.dropped(output.takeDropped())
                telemetry.observe(isReady: readiness.condition == .good)
                telemetry.observe(lanes: membership.ownership)
                await observeTables()
                return registry.exposition(format)
            },
            health: {
                let stalled = progress.stalled
                return stalled.isEmpty ? .good : .bad("no progress: \(stalled.joined(separator: ", "))")
            },
            readiness: { readiness.condition },
            onListening: { [logger] port in
                logger.log(.listening, ["address": "\(ListenAddress(host: address.host, port: port))"])
            }
        )
    }

    private func observeTables() async {
        if let apps = try? await store.apps() { telemetry.observe(pausesOf: apps) } else { telemetry.pausesUnread() }
        guard membership.keepsHouse else { return telemetry.leaveTablesToOthers() }
        await telemetry.observe(tablesOf: store, at: clock.now)
    }

    func requests(_ wakeups: Wakeups, _ progress: LoopProgress) -> OperatorRequestHandler {
        OperatorRequestHandler(
            desk: store,
            breakers: writer.breakers,
            reader: store,
            rules: { [refresh] in refresh().recheckRules },
            clock: clock,
            wakeups: wakeups,
            refreshes: apps.map(\.wakeups),
            progress: progress,
            telemetry: telemetry
        )
    }
}
