// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTables
import CredentialTesting
import NIOConcurrencyHelpers
import Testing

@testable import SQLiteStore

struct OperatorRequestHandlerTests {
    @Test func aPauseStopsTheChecksAndShowsInTheMetrics() async throws {
        let monitor = try Monitor()
        func pausedGauge() async throws -> Double {
            monitor.telemetry.observe(pausesOf: try await monitor.store.apps())
            return monitor.gauge("siwatch_app_paused") ?? -1
        }

        monitor.endpoint.answer(.valid)
        try await monitor.signIn("ann")
        #expect(try await monitor.ask(.pause(app: Monitor.app)) == .paused(since: monitor.clock.now))
        #expect(try await pausedGauge() == 1)
        #expect(try await monitor.settle(monitor.refreshHandler, after: .seconds(2 * 86_400)) == 0)

        #expect(try await monitor.ask(.resume(app: Monitor.app)) == .resumed(wasPaused: true))
        #expect(try await pausedGauge() == 0)
        #expect(try await monitor.settle(monitor.refreshHandler) == 1)
    }

    /// The store commits the pause, and then a read fails. The pause counts from the next turn on.
    @Test func aPauseWhoseReadingFailedCountsALittleLater() async throws {
        let monitor = try Monitor()
        monitor.endpoint.answer(.valid)
        try await monitor.signIn("ann")
        let reader = FailingReader(store: monitor.store)
        let handler = monitor.operatorRequestHandler(reading: reader)
        _ = try await monitor.store.submit(.pause(app: Monitor.app), at: monitor.clock.now)
        reader.fails.withLockedValue { $0 = true }
        await #expect(throws: StoreError.self) { try await handler.handleNext() }
        await #expect(throws: StoreError.self) { try await handler.handleNext() }
        reader.fails.withLockedValue { $0 = false }
        #expect(try await handler.handleNext() == false)
        #expect(try await monitor.settle(monitor.refreshHandler, after: .seconds(2 * 86_400)) == 0)
    }

    private struct FailingReader: BreakerReader {
        let store: SQLiteStore
        let fails = NIOLockedValueBox(false)

        func breakers() async throws -> [String: RejectionBreaker] {
            if fails.withLockedValue(\.self) { throw StoreError.busy }
            return try await store.breakers()
        }

        func apps() async throws -> [AppStatus] {
            if fails.withLockedValue(\.self) { throw StoreError.busy }
            return try await store.apps()
        }
    }
}
