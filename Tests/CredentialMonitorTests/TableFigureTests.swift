// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CoreMetrics
import CredentialCore
import CredentialTables
import CredentialTesting
import MetricsTestKit
import SQLiteStore
import Testing

@testable import CredentialMonitor

/// The gauges that siwatch reads from the tables.
struct TableFigureTests {
    /// Otherwise an old figure would pass for today's.
    @Test func aFigureThatCannotBeReadIsAbsent() async throws {
        let monitor = try Monitor()
        let (telemetry, metrics) = (monitor.telemetry, monitor.metrics)
        func isTold(_ metric: Metric) -> Bool { metrics.meters.contains { $0.label == metric.name } }
        let read: [Metric] = [
            .queueDepth, .queueOldest, .queueDue, .credentials, .credentialsUnverified, .credentialsPending, .credentialsNeverAccepted,
        ]
        try await monitor.signIn("ann")
        telemetry.observe(try await monitor.store.overview(Overview.Question(at: monitor.clock.now)))
        telemetry.observe(logPinnedSince: nil, at: monitor.clock.now)
        for metric in read + [.credentialsOverdue, .logPinnedSince] { #expect(isTold(metric), "\(metric.name)") }

        telemetry.tablesUnread()
        telemetry.logPinUnread()
        for metric in read + [.credentialsOverdue, .logPinnedSince] { #expect(!isTold(metric), "\(metric.name)") }
        #expect(isTold(.storeFull), "what the process knows by itself stays")
    }

    @Test func whetherAnAppIsPausedIsAbsentUnlessAppleBlamesIt() async throws {
        let monitor = try Monitor()
        let telemetry = monitor.telemetry
        func gauge() -> Double? { monitor.gauge("siwatch_app_paused") }
        _ = try await monitor.ask(.pause(app: Monitor.app))
        telemetry.observe(pausesOf: try await monitor.store.apps())
        #expect(gauge() == 1)
        telemetry.tablesUnread()
        #expect(gauge() == nil)
        telemetry.appPaused(Monitor.app, client: Monitor.clients[0], error: "invalid_client", pause: .minutes(1))
        telemetry.tablesUnread()
        #expect(gauge() == 1)
    }
}
