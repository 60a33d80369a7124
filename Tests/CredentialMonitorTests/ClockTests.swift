// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import GRDB
import Logging
import MetricsTestKit
import NIOConcurrencyHelpers
import Testing

/// The wall clock steps. A step back stalls nothing, and a step forward causes one more question at most.
struct ClockTests {
    private let monitor = try! Monitor()

    static let steps: [Duration] = [.seconds(-86_400), .seconds(-3600), .seconds(3600), .seconds(86_400)]

    @Test(arguments: steps) func queuesGoOnAtOnce(_ step: Duration) async throws {
        try await monitor.signIn("ann")
        // A process claims it and dies.
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
        try await monitor.settle(monitor.notificationHandler, after: .seconds(60))
        #expect(try await monitor.state(of: "ann") == "revoked consent_revoked")
    }

    @Test(arguments: steps) func nobodyIsAskedMoreThanOnceMore(_ step: Duration) async throws {
        for user in 1...20 { try await monitor.signIn("user\(user)") }
        try await monitor.settle(monitor.refreshHandler, after: .seconds(86_400 * 2))
        #expect(monitor.refreshes("valid") == 20)

        monitor.clock.set(to: monitor.clock.now.advanced(by: step))
        try await monitor.settle(monitor.refreshHandler)
        // A step of a day forward is a day on the wall clock. A smaller step is less than a day.
        #expect(monitor.refreshes("valid") <= (step >= .seconds(86_400) ? 40 : 20))

        // Two days of true time later siwatch has asked about all again, and no clock made it ask more than once a day.
        let before = monitor.refreshes("valid")
        for _ in 1...8 { try await monitor.settle(monitor.refreshHandler, after: .seconds(21_600)) }
        #expect((20...40).contains(monitor.refreshes("valid") - before))
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_state WHERE state <> 'authorized'") == 0)
    }

    @Test(arguments: steps) func aClaimComesBack(_ step: Duration) async throws {
        try await monitor.signIn("ann")
        monitor.clock.advance(by: .seconds(86_400 * 2))
        // A process claims it and dies.
        _ = try await monitor.refreshHandler.claim(upTo: 1)
        monitor.clock.set(to: monitor.clock.now.advanced(by: step))
        for _ in 1...26 { try await monitor.settle(monitor.refreshHandler, after: .seconds(3600)) }
        #expect(monitor.refreshes("valid") >= 1)
    }

    @Test func applesClockIsComparedWithOurs() async throws {
        let clockGuard = ClockGuard(clock: monitor.clock.wallClock, uptime: { monitor.clock.uptime }, telemetry: monitor.telemetry)
        func skew() -> Double? { try? monitor.metrics.expectMeter("siwatch_apple_clock_skew_seconds").lastValue }
        /// Two answers, because siwatch does not believe a single odd one.
        func observe(_ skew: Duration, after duration: Duration) {
            for _ in 1...2 {
                monitor.clock.advance(by: .seconds(1))
                clockGuard.observe(monitor.clock.now.advanced(by: skew), after: duration)
            }
        }
        observe(.zero, after: .zero)
        #expect(skew() == 0.5)
        monitor.clock.advance(by: .seconds(1))
        clockGuard.observe(monitor.clock.now.advanced(by: .seconds(-90)), after: .zero)
        #expect(skew() == 0.5)
        observe(.seconds(90), after: .zero)
        #expect(skew() == 90.5)
        observe(.seconds(-90), after: .zero)
        #expect(skew() == -89.5)
        // After a freeze of an hour, an old answer may be right.
        observe(.seconds(-3_000), after: .seconds(3_600))
        #expect(skew() == 0)
        observe(.seconds(-60), after: .seconds(30))
        #expect(skew() == -29.5)
        observe(.seconds(60), after: .seconds(30))
        #expect(skew() == 60.5)
        // The same answer means something else after the host's clock has moved on.
        clockGuard.observe(monitor.clock.now, after: .zero)
        monitor.clock.advance(by: .seconds(1))
        clockGuard.observe(monitor.clock.now.advanced(by: .seconds(-1)), after: .zero)
        #expect(skew() == -0.5)
    }

    /// siwatch logs an episode once at its beginning and once at its end. A start is no episode.
    @Test func aClockThatCannotBeTrustedIsTold() throws {
        let (clock, metrics, log) = (TestClock(), TestMetrics(), LogRecorder())
        let telemetry = Telemetry(logger: Logger(label: "test") { _ in log }, factory: metrics, pseudonym: { $0 })
        let clockGuard = ClockGuard(clock: clock.wallClock, uptime: { clock.uptime }, telemetry: telemetry)
        func isHeld() throws -> Double? { try metrics.expectMeter("siwatch_clock_held").lastValue }

        #expect(clockGuard.trusted == nil)
        #expect(try isHeld() == 1)
        clockGuard.observe(clock.now, after: .zero)
        #expect(clockGuard.trusted == clock.now)
        #expect(try isHeld() == 0)
        #expect(log.events == [])

        clock.set(to: clock.now.advanced(by: .seconds(8 * 86_400)))
        for _ in 1...3 {
            #expect(clockGuard.trusted == nil)
            clock.advance(by: .seconds(60))
        }
        #expect(log.events == ["clock_doubted"])
        clock.set(to: clock.now.advanced(by: .seconds(-8 * 86_400)))
        #expect(clockGuard.trusted == clock.now)
        #expect(log.events == ["clock_doubted", "clock_trusted"])
    }

    /// A log that asks for the time stands for one that stalls. The guard holds no lock while it logs.
    @Test func theGuardHoldsNoLockWhileItTells() {
        let clock = TestClock()
        let clockGuard = NIOLockedValueBox<ClockGuard?>(nil)
        let telemetry = Telemetry(
            logger: Logger(label: "test") { _ in LogRecorder { _ = clockGuard.withLockedValue(\.self)?.trusted } },
            factory: TestMetrics(),
            pseudonym: { $0 }
        )
        let made = ClockGuard(clock: clock.wallClock, uptime: { clock.uptime }, telemetry: telemetry)
        clockGuard.withLockedValue { $0 = made }
        made.observe(clock.now, after: .zero)
        clock.set(to: clock.now.advanced(by: .seconds(8 * 86_400)))
        #expect(made.trusted == nil)
        clock.set(to: clock.now.advanced(by: .seconds(-8 * 86_400)))
        #expect(made.trusted == clock.now)
    }

    /// A process that started with a fast clock gives nothing up before Apple's clock has agreed with it.
    @Test func aWeekOfWaitingIsATrustedOne() async throws {
        let clockGuard = ClockGuard(clock: monitor.clock.wallClock, uptime: { monitor.clock.uptime }, telemetry: monitor.telemetry)
        let handler = monitor.grantHandler(clockGuard: clockGuard)
        func waiting() async throws -> Int { try await monitor.count("SELECT COUNT(*) FROM grant_queue") }
        clockGuard.observe(monitor.clock.now, after: .zero)
        try await monitor.grant("ann", client: "com.example.forgotten")
        try await monitor.grant("bob", at: monitor.clock.now.advanced(by: .seconds(30 * 86_400)))
        try await monitor.settle(handler)

        let right = monitor.clock.now
        monitor.clock.set(to: right.advanced(by: .seconds(8 * 86_400)))
        try await monitor.settle(handler)
        #expect(try await waiting() == 2)
        monitor.clock.set(to: right)
        try await monitor.settle(handler)
        #expect(try await waiting() == 2)

        monitor.clock.advance(by: .seconds(8 * 86_400))
        clockGuard.observe(monitor.clock.now, after: .zero)
        try await monitor.settle(handler)
        #expect(try await waiting() == 0)
        let log = "SELECT outcome || ifnull(' ' || reason, '') FROM grant_log WHERE user_id = ?"
        #expect(try await monitor.value(log, ["ann"]) == "rejected unknown_client_expired")
        #expect(try await monitor.value(log, ["bob"]) == "in_future")
    }
}
