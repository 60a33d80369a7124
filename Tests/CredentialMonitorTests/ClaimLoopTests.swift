// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import Logging
import ServiceLifecycle
import Testing

struct ClaimLoopTests {
    @Test func stopsOnlyWhenWhatIsInFlightIsWritten() async throws {
        try await Monitor.with { monitor in
            for user in 0..<40 { try await monitor.grant("user\(user)") }
            try await monitor.settle(monitor.grantHandler)
            monitor.clock.advance(by: .seconds(2 * 86_400))
            monitor.endpoint.holdAnswers()

            let group = ServiceGroup(
                configuration: ServiceGroupConfiguration(
                    services: [.init(service: monitor.loop(monitor.refreshHandler))],
                    logger: .init(label: "test")
                )
            )
            async let running: Void = group.run()
            try await monitor.endpoint.call(40)
            await group.triggerGracefulShutdown()
            monitor.endpoint.releaseAnswers()
            try await running

            #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL") == 40)
            #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE claimed_by IS NOT NULL") == 0)
        }
    }

    @Test func aHintWakesTheLoop() async throws {
        try await Monitor.with { monitor in
            let wakeups = Wakeups(every: .seconds(3600))
            let group = ServiceGroup(
                configuration: ServiceGroupConfiguration(
                    services: [.init(service: monitor.loop(monitor.refreshHandler, wakeups: wakeups))],
                    logger: .init(label: "test")
                )
            )
            async let running: Void = group.run()
            try await monitor.signIn("ann")
            monitor.clock.advance(by: .seconds(2 * 86_400))
            wakeups.hint()
            try await monitor.endpoint.call(1)
            await group.triggerGracefulShutdown()
            try await running
            #expect(try await monitor.count("SELECT verified_at IS NOT NULL FROM credential") == 1)
        }
    }

    @Test func aLoopThatNeverTurnedIsStalled() async throws {
        try await Monitor.with { monitor in
            #expect(monitor.progress.stalled == ["grants", "notifications", "refreshes of example"])
        }
    }
}
