// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Logging
import PrometheusMetrics
import ServiceLifecycle

extension Daemon {
    /// Commits one row, which an idle disk can bear, while every loop makes progress.
    func heartbeat(_ progress: LoopProgress) -> Recurring {
        // The writer reports that nothing can be committed, and the missing beat shows it.
        Recurring(every: .seconds(10), onFailure: { _ in }) { [context] in
            if progress.stalled.isEmpty { try await context.store.beat(at: context.clock.now) }
        }
    }

    var maintenance: Recurring {
        Recurring(every: .seconds(60), onFailure: context.telemetry.maintenanceFailed) { [context] in
            let store = context.store
            context.telemetry.foreignCheckpoints(store.takeForeignCheckpoints())
            // One replica does the housekeeping for all.
            guard context.membership.keepsHouse else { return }
            do {
                try await maintain()
                context.telemetry.observe(logPinnedSince: try await store.logPinnedSince, at: context.clock.now)
            } catch {
                context.telemetry.logPinUnread()
                throw error
            }
        }
    }

    /// Looks every hour whether somebody has changed the tables. A start refuses such a file.
    var schemaWatch: Recurring {
        Recurring(every: .hours(1), onFailure: context.telemetry.maintenanceFailed) { [context] in
            if let difference = try await context.store.schemaDifference() {
                context.telemetry.log(.schemaForeign, ["reason": "\(difference)"])
            }
        }
    }

    func maintain() async throws {
        let (store, clock, clockGuard) = (context.store, context.clock, context.clockGuard)
        if let now = clockGuard.trusted { try await store.forget(at: now, naming: context.sealer) }
        for (delivery, count) in try await store.forgetUndeliverable() { context.telemetry.delivered(delivery, .forgotten(count)) }
        try await store.sweep(at: clock.now, patience: .zero)
        try await store.shortenSchedule(to: context.configuration.refreshPolicy, at: clock.now)
        if try await store.forgetDryCauses(at: clock.now) { try await writer.breakers.load(from: store) }
        if let now = clockGuard.trusted { context.telemetry.notificationsMissed(try await store.countMissedNotifications(at: now)) }
    }

    /// The settings as the last reload left them.
    var refresh: Configuration.Refresh {
        var refresh = context.configuration.refresh
        if let limits = apps.first?.atWork.budget.limits { refresh.maxRequestsPerSecond = Int(limits.maxRequestsPerSecond) }
        return refresh
    }

    /// What is served of this daemon, over TCP and over the socket of `siwatch status`.
    func servers(_ health: Health, _ desk: StatusDesk) -> [any Service] {
        let (operations, pages) = (context.configuration.operations, pages(health, desk))
        var quiet = context.logger
        quiet.logLevel = max(quiet.logLevel, .warning)
        var servers: [any Service] = []
        if let address = operations.listen {
            let server = OperationsServer(address: address, logger: quiet, pages: pages) { [context] port in
                context.logger.log(.listening, ["address": "\(ListenAddress(host: address.host, port: port))"])
            }
            servers.append(server)
        }
        if let path = operations.socket {
            let isAsked = path != Configuration.Operations().socket
            servers.append(StatusSocket(path: path, isAsked: isAsked, logger: quiet, respond: pages.respond))
        }
        return servers
    }

    private func pages(_ health: Health, _ desk: StatusDesk) -> ServedPages {
        let telemetry = context.telemetry
        return ServedPages(
            metrics: { [context] format in
                telemetry.suppressed(context.output.takeSuppressed())
                telemetry.dropped(context.output.writer.takeDropped())
                telemetry.gauge(.ready, health.obstacle() == nil ? 1 : 0)
                telemetry.observe(lanes: context.membership.ownership)
                await desk.observeTables()
                return context.registry.exposition(format)
            },
            health: {
                let hung = health.progress.hung
                return hung.isEmpty ? nil : "no sign of life: \(hung.joined(separator: ", "))"
            },
            readiness: { health.obstacle(for: $0) },
            status: { try await desk.report() }
        )
    }

    func requests(_ wakeups: Wakeups, _ progress: LoopProgress) -> OperatorRequestHandler {
        OperatorRequestHandler(
            desk: context.store,
            reader: context.store,
            rules: { refresh.recheckRules(of: context.configuration.clientIDs) },
            wakeups: wakeups,
            refreshes: apps.map(\.wakeups),
            progress: progress,
            shared
        )
    }
}
