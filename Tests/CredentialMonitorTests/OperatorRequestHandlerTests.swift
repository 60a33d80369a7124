// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import MetricsTestKit
import Testing

@testable import SQLiteStore

struct OperatorRequestHandlerTests {
    @Test func aPauseStopsTheChecksAndShowsInTheMetrics() async throws {
        try await Monitor.with { monitor in
            let handler = OperatorRequestHandler(
                desk: monitor.store,
                rules: { RecheckRules(refreshInterval: .seconds(86_400), requestsPerSecond: 50) },
                clock: monitor.clock.wallClock,
                wakeups: Wakeups(every: .seconds(3600)),
                progress: monitor.progress,
                telemetry: monitor.telemetry
            )
            func ask(_ request: OperatorRequest) async throws -> OperatorAnswer? {
                let id = try await monitor.store.submit(request, at: monitor.clock.now)
                while try await handler.handleNext() {}
                return try await monitor.store.answer(to: id)
            }
            func pausedGauge() async throws -> Double {
                monitor.telemetry.observe(apps: try await monitor.store.apps())
                return try monitor.metrics.expectMeter("siwatch_app_paused", [("app", Monitor.app)]).lastValue ?? -1
            }

            monitor.endpoint.answer(.valid)
            try await monitor.signIn("ann")
            #expect(try await ask(.pause(app: Monitor.app)) == .paused(since: monitor.clock.now))
            #expect(try await pausedGauge() == 1)
            monitor.clock.advance(by: .seconds(2 * 86_400))
            #expect(try await monitor.settle(monitor.refreshHandler) == 0)

            #expect(try await ask(.resume(app: Monitor.app)) == .resumed(wasPaused: true))
            #expect(try await pausedGauge() == 0)
            #expect(try await monitor.settle(monitor.refreshHandler) == 1)
        }
    }
}
