// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import GRDB
import MetricsTestKit
import Testing

/// The wall clock steps: backwards stalls nothing, forwards asks once more at most.
struct ClockTests {
    static let steps: [Duration] = [.seconds(-86_400), .seconds(-3600), .seconds(3600), .seconds(86_400)]

    @Test(arguments: steps)
    func queuesGoOnAtOnce(_ step: Duration) async throws {
        try await Monitor.with { monitor in
            try await monitor.signIn("ann")
            // Claimed by a process that dies.
            try await monitor.notify("consent-revoked ann \(monitor.clock.now.advanced(by: .milliseconds(1)).milliseconds)")
            #expect(try await monitor.notificationHandler.claim(upTo: 2).count == 1)
            monitor.clock.set(to: monitor.clock.now.advanced(by: step))

            let now = monitor.clock.now
            try await monitor.grant("bob", at: now)
            try await monitor.notify("consent-revoked bob \(now.advanced(by: .milliseconds(1)).milliseconds)")
            try await monitor.settle(monitor.grantHandler)
            try await monitor.settle(monitor.notificationHandler)
            #expect(try await monitor.state(of: "bob") == "revoked consent_revoked")

            // The lease ends within its own length, whatever the clock did.
            monitor.clock.advance(by: .seconds(60))
            try await monitor.settle(monitor.notificationHandler)
            #expect(try await monitor.state(of: "ann") == "revoked consent_revoked")
        }
    }

    @Test(arguments: steps)
    func nobodyIsAskedMoreThanOnceMore(_ step: Duration) async throws {
        try await Monitor.with { monitor in
            for user in 1...20 { try await monitor.signIn("user\(user)") }
            monitor.clock.advance(by: .seconds(86_400 * 2))
            try await monitor.settle(monitor.refreshHandler)
            #expect(monitor.refreshes("valid") == 20)

            monitor.clock.set(to: monitor.clock.now.advanced(by: step))
            try await monitor.settle(monitor.refreshHandler)
            // A day forwards is a day to whoever reads the clock; less is none.
            #expect(monitor.refreshes("valid") <= (step >= .seconds(86_400) ? 40 : 20))

            // Two days of true time later all have been asked again, and no clock ever made it more than once a day.
            let before = monitor.refreshes("valid")
            for _ in 1...8 {
                monitor.clock.advance(by: .seconds(21_600))
                try await monitor.settle(monitor.refreshHandler)
            }
            #expect((20...40).contains(monitor.refreshes("valid") - before))
            #expect(try await monitor.count("SELECT COUNT(*) FROM credential_state WHERE state <> 'authorized'") == 0)
        }
    }

    /// A step back while a claim is out: its lease ends where it would have.
    @Test(arguments: steps)
    func aClaimComesBack(_ step: Duration) async throws {
        try await Monitor.with { monitor in
            try await monitor.signIn("ann")
            monitor.clock.advance(by: .seconds(86_400 * 2))
            // Claimed by a process that dies.
            _ = try await monitor.refreshHandler.claim(upTo: 1)
            monitor.clock.set(to: monitor.clock.now.advanced(by: step))
            for _ in 1...26 {
                monitor.clock.advance(by: .seconds(3600))
                try await monitor.settle(monitor.refreshHandler)
            }
            #expect(monitor.refreshes("valid") >= 1)
        }
    }

    @Test func applesClockIsComparedWithOurs() async throws {
        try await Monitor.with { monitor in
            let apple = AppleClock(clock: monitor.clock.wallClock, telemetry: monitor.telemetry)
            func skew() -> Double? { try? monitor.metrics.expectMeter("siwatch_apple_clock_skew_seconds").lastValue }
            apple.observe(monitor.clock.now)
            #expect(skew() == 0.5)
            apple.observe(monitor.clock.now.advanced(by: .seconds(90)))
            #expect(skew() == 90.5)
            apple.observe(monitor.clock.now.advanced(by: .seconds(-90)))
            #expect(skew() == -89.5)
        }
    }
}
