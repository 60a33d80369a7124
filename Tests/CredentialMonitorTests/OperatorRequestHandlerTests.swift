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
            func pausedGauge() async throws -> Double {
                monitor.telemetry.observe(pausesOf: try await monitor.store.apps())
                return try monitor.metrics.expectMeter("siwatch_app_paused", [("app", Monitor.app)]).lastValue ?? -1
            }

            monitor.endpoint.answer(.valid)
            try await monitor.signIn("ann")
            #expect(try await monitor.ask(.pause(app: Monitor.app)) == .paused(since: monitor.clock.now))
            #expect(try await pausedGauge() == 1)
            monitor.clock.advance(by: .seconds(2 * 86_400))
            #expect(try await monitor.settle(monitor.refreshHandler) == 0)

            #expect(try await monitor.ask(.resume(app: Monitor.app)) == .resumed(wasPaused: true))
            #expect(try await pausedGauge() == 0)
            #expect(try await monitor.settle(monitor.refreshHandler) == 1)
        }
    }
}
