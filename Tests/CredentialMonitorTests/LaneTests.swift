// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import GRDB
import Logging
import MetricsTestKit
import ServiceLifecycle
import Testing

@testable import SQLiteStore

struct GrantLaneTests {
    @Test func aTokenStandsNowhereInClear() async throws {
        try await Monitor.with { monitor in
            try await monitor.signIn("ann", token: "r-very-secret")
            #expect(try await monitor.state(of: "ann") == "authorized granted")
            let dump = Dump()
            try monitor.store.writer.dumpContent(to: dump)
            #expect(dump.text.contains("ann"))
            #expect(!dump.text.contains("very-secret"))
        }
    }

    @Test func aGrantOfAnUnknownClientWaits() async throws {
        try await Monitor.with { monitor in
            try await monitor.signIn("ann", client: "com.example.forgotten")
            #expect(try await monitor.count("SELECT COUNT(*) FROM grant_queue WHERE attempts = 0") == 1)
            monitor.clock.advance(by: .seconds(61))
            #expect(try await monitor.loop(monitor.grantHandler).round() == 1, "looked at again")
        }
    }

    @Test func aGrantFromTheFutureIsLoggedAndNotApplied() async throws {
        try await Monitor.with { monitor in
            try await monitor.signIn("ann", at: monitor.clock.now.advanced(by: .seconds(301)))
            try await monitor.signIn("bob", at: monitor.clock.now.advanced(by: .seconds(299)))
            #expect(try await monitor.state(of: "ann") == nil)
            #expect(try await monitor.state(of: "bob") == "authorized granted")
            #expect(try await monitor.count("SELECT COUNT(*) FROM grant_log WHERE outcome = 'in_future'") == 1)
        }
    }

    @Test func aGrantThatKeepsKillingTheProcessIsPutAway() async throws {
        try await Monitor.with { monitor in
            try await monitor.grant("ann")
            try await monitor.execute("UPDATE grant_queue SET attempts = 5")
            try await monitor.settle(monitor.grantHandler)
            #expect(try await monitor.value("SELECT outcome || ' ' || reason FROM grant_log") == "rejected poison")
        }
    }

    @Test func bytesThatAreNoTextAreRejectedAndLogged() async throws {
        try await Monitor.with { monitor in
            try await monitor.execute(
                "INSERT INTO grant_queue (client_id, user_id) VALUES ('com.example.app', CAST(X'C328' AS TEXT))"
            )
            monitor.clock.set(to: Timestamp(milliseconds: 4_000_000_000_000))
            try await monitor.settle(monitor.grantHandler)
            #expect(try await monitor.value("SELECT outcome || ' ' || reason || ' ' || hex(user_id) FROM grant_log") == "rejected malformed C328")
        }
    }
}

private final class Dump: TextOutputStream {
    private(set) var text = ""

    func write(_ string: String) {
        text += string
    }
}

struct NotificationLaneTests {
    @Test func aRevocationReachesEveryClientOfTheApp() async throws {
        try await Monitor.with { monitor in
            try await monitor.signIn("ann")
            try await monitor.signIn("ann", client: Monitor.clients[1])
            try await monitor.notify("consent-revoked ann \(monitor.clock.now.milliseconds + 1)")
            try await monitor.settle(monitor.notificationHandler)
            for client in Monitor.clients { #expect(try await monitor.state(of: "ann", client: client) == "revoked consent_revoked") }
        }
    }

    @Test func whatFailsIsQuarantinedAndWhatWaitsWaits() async throws {
        try await Monitor.with { monitor in
            for payload in ["wait", "bad_signature", "rubbish"] { try await monitor.notify(payload) }
            try await monitor.settle(monitor.notificationHandler)
            #expect(try await monitor.count("SELECT COUNT(*) FROM notification_quarantine WHERE reason = 'bad_signature'") == 1)
            #expect(try await monitor.count("SELECT COUNT(*) FROM notification_quarantine WHERE reason = 'malformed'") == 1)
            let due: Int64? = try await monitor.value("SELECT due_at FROM notification_queue WHERE payload = 'wait'")
            #expect(due == monitor.clock.now.advanced(by: .seconds(65)).milliseconds)
        }
    }

    @Test func aNotificationThatKeepsKillingTheProcessIsPutAwayUnread() async throws {
        try await Monitor.with { monitor in
            try await monitor.signIn("ann")
            try await monitor.notify("consent-revoked ann \(monitor.clock.now.milliseconds + 1)")
            try await monitor.execute("UPDATE notification_queue SET attempts = 5")
            try await monitor.settle(monitor.notificationHandler)
            #expect(try await monitor.state(of: "ann") == "authorized granted")
            #expect(try await monitor.count("SELECT COUNT(*) FROM notification_quarantine WHERE reason = 'poison'") == 1)
        }
    }

    @Test func thousandsAreSettledInHandfulsAndDuplicatesChangeNothing() async throws {
        try await Monitor.with { monitor in
            for user in 0..<100 { try await monitor.grant("user\(user)", token: nil) }
            try await monitor.settle(monitor.grantHandler)
            let time = monitor.clock.now.milliseconds + 1
            for number in 0..<2000 { try await monitor.notify("consent-revoked user\(number % 100) \(time)") }
            try await monitor.settle(monitor.notificationHandler)
            #expect(try await monitor.count("SELECT COUNT(*) FROM notification_log WHERE outcome = 'applied'") == 100)
            #expect(try await monitor.count("SELECT COUNT(*) FROM notification_log WHERE outcome = 'duplicate'") == 1900)
            #expect(try await monitor.count("SELECT COUNT(*) FROM credential_change WHERE to_state = 'revoked'") == 100)
            let counter = try monitor.metrics.expectCounter(
                "siwatch_notifications_total", [("outcome", "duplicate"), ("type", "consent-revoked")])
            #expect(counter.totalValue == 1900)
        }
    }
}

struct ClaimLoopTests {
    @Test func stopsOnlyWhenWhatIsInFlightIsWritten() async throws {
        try await Monitor.with { monitor in
            for user in 0..<40 { try await monitor.grant("user\(user)") }
            try await monitor.settle(monitor.grantHandler)
            monitor.clock.advance(by: .seconds(2 * 86_400))
            monitor.endpoint.holdAnswers()

            let group = ServiceGroup(
                configuration: ServiceGroupConfiguration(
                    services: [.init(service: monitor.loop(monitor.refreshHandler))], logger: .init(label: "test")))
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
                    services: [.init(service: monitor.loop(monitor.refreshHandler, wakeups: wakeups))], logger: .init(label: "test")))
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

struct RequestBudgetTests {
    let clock = TestClock()

    @Test func noMoreThanTheRateIsGivenOut() {
        let budget = RequestBudget(maxRequestsPerSecond: 50)
        var taken = 0
        for _ in 0..<100 {
            taken += budget.take(upTo: 64, at: clock.now)
            clock.advance(by: .milliseconds(100))
        }
        #expect(taken >= 495 && taken <= 510, "\(taken) in ten seconds at 50 a second")
    }

    @Test func aSlowRateStillMoves() {
        let budget = RequestBudget(maxRequestsPerSecond: 0.5)
        #expect(budget.take(upTo: 10, at: clock.now) == 1)
        clock.advance(by: .seconds(1))
        #expect(budget.take(upTo: 10, at: clock.now) == 0)
        clock.advance(by: .seconds(1))
        #expect(budget.take(upTo: 10, at: clock.now) == 1)
    }

    @Test func aClockSetBackGivesNothingAndStallsNothing() {
        let budget = RequestBudget(maxRequestsPerSecond: 10)
        budget.pause(for: .seconds(60), at: clock.now)
        clock.set(to: clock.now.advanced(by: .seconds(-2 * 86_400)))
        #expect(budget.take(upTo: 10, at: clock.now) > 0)
    }

    @Test func whatIsGivenBackCanBeTakenAgain() {
        let budget = RequestBudget(maxRequestsPerSecond: 10)
        #expect(budget.take(upTo: 10, at: clock.now) == 2)
        budget.giveBack(2)
        #expect(budget.take(upTo: 10, at: clock.now) == 2)
    }
}
