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
            let clockGuard = ClockGuard(clock: monitor.clock.wallClock, uptime: { monitor.clock.uptime }, telemetry: monitor.telemetry)
            let apple = AppleClock(clock: monitor.clock.wallClock, clockGuard: clockGuard, telemetry: monitor.telemetry)
            func skew() -> Double? { try? monitor.metrics.expectMeter("siwatch_apple_clock_skew_seconds").lastValue }
            apple.observe(monitor.clock.now)
            #expect(skew() == 0.5)
            apple.observe(monitor.clock.now.advanced(by: .seconds(90)))
            #expect(skew() == 90.5)
            apple.observe(monitor.clock.now.advanced(by: .seconds(-90)))
            #expect(skew() == -89.5)
            // The same answer means something else once our clock has moved on.
            apple.observe(monitor.clock.now)
            monitor.clock.advance(by: .seconds(1))
            apple.observe(monitor.clock.now.advanced(by: .seconds(-1)))
            #expect(skew() == -0.5)
        }
    }

    /// An episode is told once at its beginning and once at its end, and a start is none.
    @Test func aClockThatCannotBeTrustedIsTold() throws {
        let (clock, metrics, log) = (TestClock(), TestMetrics(), LogRecorder())
        let telemetry = Telemetry(logger: Logger(label: "test") { _ in log }, factory: metrics, pseudonym: { $0 })
        let clockGuard = ClockGuard(clock: clock.wallClock, uptime: { clock.uptime }, telemetry: telemetry)
        let apple = AppleClock(clock: clock.wallClock, clockGuard: clockGuard, telemetry: telemetry)
        func isHeld() throws -> Double? { try metrics.expectMeter("siwatch_clock_held").lastValue }

        #expect(clockGuard.trusted == nil)
        #expect(try isHeld() == 1)
        apple.observe(clock.now)
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

    /// A log that asks for the time itself stands for one that stalls: who tells it holds no lock.
    @Test func theGuardHoldsNoLockWhileItTells() {
        let clock = TestClock()
        let clockGuard = NIOLockedValueBox<ClockGuard?>(nil)
        let telemetry = Telemetry(
            logger: Logger(label: "test") { _ in AskingLog { _ = clockGuard.withLockedValue(\.self)?.trusted } },
            factory: TestMetrics(),
            pseudonym: { $0 }
        )
        let made = ClockGuard(clock: clock.wallClock, uptime: { clock.uptime }, telemetry: telemetry)
        clockGuard.withLockedValue { $0 = made }
        let apple = AppleClock(clock: clock.wallClock, clockGuard: made, telemetry: telemetry)
        apple.observe(clock.now)
        clock.set(to: clock.now.advanced(by: .seconds(8 * 86_400)))
        #expect(made.trusted == nil)
        clock.set(to: clock.now.advanced(by: .seconds(-8 * 86_400)))
        #expect(made.trusted == clock.now)
    }

    /// A process that was started while its clock was ahead gives nothing up before Apple has agreed with it.
    @Test func aWeekOfWaitingIsATrustedOne() async throws {
        try await Monitor.with { monitor in
            let clockGuard = ClockGuard(clock: monitor.clock.wallClock, uptime: { monitor.clock.uptime }, telemetry: monitor.telemetry)
            let apple = AppleClock(clock: monitor.clock.wallClock, clockGuard: clockGuard, telemetry: monitor.telemetry)
            let handler = monitor.grantHandler(clockGuard: clockGuard)
            func waiting() async throws -> Int { try await monitor.count("SELECT COUNT(*) FROM grant_queue") }
            apple.observe(monitor.clock.now)
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
            apple.observe(monitor.clock.now)
            try await monitor.settle(handler)
            #expect(try await waiting() == 0)
            #expect(
                try await monitor.count(
                    """
                    SELECT COUNT(*) FROM grant_log
                     WHERE (user_id, outcome, ifnull(reason, '')) IN (VALUES ('ann', 'rejected', 'unknown_client_expired'), ('bob', 'in_future', ''))
                    """
                ) == 2
            )
        }
    }

    /// An hour behind at a sign-in, then right again: nothing is lost, and the row is taken at once.
    @Test func aGrantFromTheFutureIsTakenOnceTheClockIsRight() async throws {
        try await Monitor.with { monitor in
            let right = monitor.clock.now
            monitor.clock.set(to: right.advanced(by: .seconds(-3600)))
            try await monitor.signIn("ann", at: right)
            #expect(try await monitor.state(of: "ann") == nil)
            monitor.clock.set(to: right)
            try await monitor.settle(monitor.grantHandler)
            #expect(try await monitor.state(of: "ann") == "authorized granted")
        }
    }
}

/// A log that asks for something whenever it is written.
private struct AskingLog: LogHandler {
    let ask: @Sendable () -> Void

    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.debug

    init(_ ask: @escaping @Sendable () -> Void) {
        self.ask = ask
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { ask() }
}
