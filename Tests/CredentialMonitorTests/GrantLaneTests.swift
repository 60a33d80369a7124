// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import GRDB
import MetricsTestKit
import Testing

@testable import CredentialMonitor
@testable import CredentialTesting
@testable import SQLiteStore

struct GrantLaneTests {
    private let monitor = try! Monitor()

    @Test func aTokenStandsNowhereInClear() async throws {
        try await monitor.signIn("ann", token: "r-very-secret")
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        let dump = Dump()
        try monitor.store.writer.dumpContent(to: dump)
        #expect(dump.text.contains("ann"))
        #expect(!dump.text.contains("very-secret"))
    }

    /// - Parameter ahead: of now, in milliseconds.
    private func deliver(_ sealed: [UInt8], of user: String, ahead: Int64 = 0, to monitor: Monitor) async throws {
        let hex = sealed.map { String(format: "%02x", $0) }.joined()
        let grant = "INSERT INTO grant_queue (client_id, user_id, token_sealed, granted_at) VALUES (?, ?, x'\(hex)', ?)"
        try await monitor.execute(grant, [Monitor.clients[0], user, monitor.clock.now.milliseconds + ahead])
        try await monitor.settle(monitor.grantHandler)
    }

    @Test func aTokenThatTheBackendSealedIsOpenedAndSealedAnew() async throws {
        let ann = CredentialID(clientID: Monitor.clients[0], userID: "ann")
        try await deliver(PlainSealer().deliver(Secret("token-of-ann"), for: ann, at: monitor.clock.now), of: "ann", to: monitor)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        try await monitor.settle(monitor.refreshHandler, after: .seconds(2 * 86_400))
        #expect(monitor.endpoint.calls.map(\.token.reveal) == ["token-of-ann"])
    }

    @Test(arguments: [("bob", "key", "unreadable_token"), ("ann", "old", "unknown_token_key")])
    func aSignInWhoseSealedTokenDoesNotOpenCountsWithoutIt(user: String, keyID: String, reason: String) async throws {
        let ann = CredentialID(clientID: Monitor.clients[0], userID: "ann")
        let sealed = PlainSealer().deliver(Secret("token-of-ann"), for: ann, at: monitor.clock.now, keyID: keyID)
        try await deliver(sealed, of: user, to: monitor)
        #expect(try await monitor.state(of: user) == "authorized granted")
        #expect(try await monitor.value("SELECT outcome || ' ' || reason FROM grant_log") == "rejected \(reason)")
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE sealed_token IS NOT NULL") == 0)
    }

    /// A backend that lets `granted_at` be the time of the insert has sealed for another one.
    @Test(arguments: [40, -40] as [Int64]) func theTimeThatTheTokenIsSealedForCounts(ahead: Int64) async throws {
        let ann = CredentialID(clientID: Monitor.clients[0], userID: "ann")
        let time = monitor.clock.now
        try await deliver(PlainSealer().deliver(Secret("token-of-ann"), for: ann, at: time), of: "ann", ahead: ahead, to: monitor)
        #expect(try await monitor.grantLog() == ["applied"])
        let times: [Int64?] = [
            try await monitor.value("SELECT token_granted_at FROM credential"),
            try await monitor.value("SELECT changed_at FROM credential_state"),
        ]
        #expect(times == [time.milliseconds, time.milliseconds])
        try await monitor.settle(monitor.refreshHandler, after: .seconds(2 * 86_400))
        #expect(monitor.endpoint.calls.map(\.token.reveal) == ["token-of-ann"])
    }

    @Test func aTokenThatIsSealedForTheFutureWaitsForItsTime() async throws {
        let ann = CredentialID(clientID: Monitor.clients[0], userID: "ann")
        let ahead = monitor.clock.now.advanced(by: .seconds(60))
        try await deliver(PlainSealer().deliver(Secret("token-of-ann"), for: ann, at: ahead), of: "ann", to: monitor)
        #expect(try await monitor.grantLog() == [])
        try await monitor.settle(monitor.grantHandler, after: .seconds(57))
        #expect(try await monitor.grantLog() == ["applied"])
    }

    /// A nightly job tells all sealed tokens again, dated now. That is no sign-in, so it undoes no end.
    @Test func aSealedTokenThatIsToldAgainWithALaterTimeChangesNothing() async throws {
        let ann = CredentialID(clientID: Monitor.clients[0], userID: "ann")
        let sealed = PlainSealer().deliver(Secret("token-of-ann"), for: ann, at: monitor.clock.now)
        try await deliver(sealed, of: "ann", to: monitor)
        let state = "SELECT changed_at FROM credential_state"
        let since: Int64? = try await monitor.value(state)
        monitor.clock.advance(by: .seconds(86_400))
        try await deliver(sealed, of: "ann", to: monitor)
        #expect(try await monitor.grantLog() == ["applied", "duplicate"])
        #expect(since != nil)
        #expect(try await monitor.value(state) == since)
    }

    @Test func aGrantFromTheFutureWaitsForItsTime() async throws {
        try await monitor.signIn("ann", at: monitor.clock.now.advanced(by: .seconds(4)))
        try await monitor.signIn("bob", at: monitor.clock.now.advanced(by: .seconds(3)))
        #expect(try await monitor.state(of: "ann") == nil)
        #expect(try await monitor.state(of: "bob") == "authorized granted")
        #expect(try await monitor.count("SELECT COUNT(*) FROM grant_queue WHERE refresh_token = 'token-of-ann'") == 1)
        try await monitor.settle(monitor.grantHandler, after: .seconds(1))
        #expect(try await monitor.state(of: "ann") == "authorized granted")
    }

    /// A backend's clock is two minutes ahead. Taken at once, its sign-in would make the user's next one `stale`, and the end of its token
    /// would end that one.
    @Test func aSignInThatIsDatedAheadHidesNoLaterOne() async throws {
        try await monitor.signIn("ann", at: monitor.clock.now.advanced(by: .seconds(120)))
        monitor.clock.advance(by: .seconds(60))
        try await monitor.signIn("ann", token: "next")
        #expect(try await monitor.grantLog() == ["applied"])
        let since = "SELECT changed_at FROM credential_state"
        #expect(try await monitor.value(since) == monitor.clock.now.milliseconds)
        try await monitor.settle(monitor.grantHandler, after: .seconds(57))
        #expect(try await monitor.grantLog() == ["applied", "applied"])
    }

    /// The host's clock is off by a minute. Apple dates sign-ins, so siwatch waits by Apple's clock, once it knows it.
    @Test(arguments: [60, -60]) func applesClockSaysWhatIsAhead(_ seconds: Int) async throws {
        let clockGuard = ClockGuard(clock: monitor.clock.wallClock, uptime: { monitor.clock.uptime }, telemetry: monitor.telemetry)
        let handler = monitor.grantHandler(clockGuard: clockGuard)
        func signIn(_ user: String, ahead: Duration, takenAfter wait: Duration) async throws {
            try await monitor.grant(user, at: monitor.clock.now.advanced(by: ahead))
            try await monitor.settle(handler)
            let early = try await monitor.state(of: user)
            #expect((early == nil) == (wait > .zero))
            try await monitor.settle(handler, after: wait)
            #expect(try await monitor.state(of: user) == "authorized granted")
        }
        let ours = Duration.seconds(seconds)
        try await signIn("ann", ahead: .seconds(30), takenAfter: .seconds(27))
        clockGuard.observe(monitor.clock.now.advanced(by: .zero - ours), after: .zero)
        // Apple cuts its date to whole seconds, so siwatch takes it for half a second later.
        try await signIn("bob", ahead: .zero - ours + .seconds(3), takenAfter: .zero)
        try await signIn("cid", ahead: .zero - ours + .seconds(23), takenAfter: .milliseconds(19_500))
        // Ours is right now, and nobody knows that. The earlier of the two clocks counts.
        monitor.clock.set(to: monitor.clock.now.advanced(by: .zero - ours - .seconds(300)))
        try await signIn("dan", ahead: .seconds(30), takenAfter: .seconds(27))
    }

    @Test func aGrantThatKeepsKillingTheProcessIsPutAway() async throws {
        try await monitor.grant("ann")
        try await monitor.execute("UPDATE grant_queue SET attempts = 5")
        try await monitor.settle(monitor.grantHandler)
        #expect(try await monitor.value("SELECT outcome || ' ' || reason FROM grant_log") == "rejected poison")
    }

    @Test func bytesThatAreNoTextAreRejectedAndLogged() async throws {
        try await monitor.execute("INSERT INTO grant_queue (client_id, user_id) VALUES ('com.example.app', CAST(X'C328' AS TEXT))")
        monitor.clock.set(to: Timestamp(milliseconds: 4_000_000_000_000))
        try await monitor.settle(monitor.grantHandler)
        let log: String? = try await monitor.value("SELECT outcome || ' ' || reason || ' ' || hex(user_id) FROM grant_log")
        #expect(log == "rejected malformed C328")
    }
}

private final class Dump: TextOutputStream {
    private(set) var text = ""

    func write(_ string: String) { text += string }
}

@Suite struct GrantIntakeTests {
    private let start = Timestamp(seconds: 1_750_000_000)

    private func at(_ seconds: Int) -> Timestamp { start.advanced(by: .seconds(seconds)) }

    @Test func itCountsFromTheStartWhileTheLaneTurns() {
        let intake = GrantIntake(pollInterval: .seconds(1), since: start)
        #expect(intake.since(at: at(20)) == start)
        for second in stride(from: 30, through: 600, by: 30) { intake.turn(at: at(second)) }
        #expect(intake.since(at: at(601)) == start)
    }

    /// Stopped by a signal, a paused machine, or a store that does not answer.
    @Test func itBeginsAnewAfterABreak() {
        let intake = GrantIntake(pollInterval: .seconds(1), since: start)
        #expect(intake.since(at: at(400)) == at(400), "nothing has been taken yet")
        intake.turn(at: at(400))
        intake.turn(at: at(410))
        #expect(intake.since(at: at(411)) == at(400))
    }

    /// With the longest poll interval that the configuration accepts, work that waits for a sign-in waits six minutes.
    @Test func aBreakIsNoticedBeforeAnEventHasWaited() {
        let intake = GrantIntake(pollInterval: .seconds(60), since: start)
        intake.turn(at: at(60))
        #expect(intake.since(at: at(60 + 150)) == start)
        #expect(intake.since(at: at(60 + 151)) == at(60 + 151))
    }

    @Test func aClockThatIsSetBackProlongsNothing() {
        let intake = GrantIntake(pollInterval: .seconds(1), since: start)
        intake.turn(at: at(20))
        #expect(intake.since(at: at(-3600)) == at(-3600))
        intake.turn(at: at(-3600))
        #expect(intake.since(at: at(-3590)) == at(-3600))
    }

    /// A process freezes for seven minutes with a claimed sign-in. It never reports a user as revoked who has signed in again.
    @Test func aProcessThatStoodStillTakesSignInsFirst() async throws {
        let monitor = try Monitor()
        try await monitor.signIn("ann", token: "old")
        monitor.clock.advance(by: .seconds(5))
        let withdrawn = monitor.clock.now
        monitor.clock.advance(by: .seconds(5))
        try await monitor.grant("ann", token: "new")
        try await monitor.notify("consent-revoked ann \(withdrawn.milliseconds)")
        let claimed = try await monitor.grantHandler.claim(upTo: 1)
        try await monitor.settle(monitor.notificationHandler, after: .minutes(7))
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        for work in claimed { try await monitor.writer.submit(monitor.grantHandler.resolve(work)) }
        try await monitor.settle(monitor.notificationHandler, after: .seconds(2))
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_change WHERE to_state <> 'authorized'") == 0)
    }
}

struct NotificationLaneTests {
    private let monitor = try! Monitor()

    @Test func whatFailsIsQuarantinedAndWhatWaitsWaits() async throws {
        for payload in ["wait", "bad_signature", "rubbish"] { try await monitor.notify(payload) }
        try await monitor.settle(monitor.notificationHandler)
        #expect(try await monitor.count("SELECT COUNT(*) FROM notification_quarantine WHERE reason = 'bad_signature'") == 1)
        #expect(try await monitor.count("SELECT COUNT(*) FROM notification_quarantine WHERE reason = 'malformed'") == 1)
        let due: Int64? = try await monitor.value("SELECT due_at FROM notification_queue WHERE payload = 'wait'")
        #expect(due == monitor.clock.now.advanced(by: .seconds(65)).milliseconds)
    }

    @Test func aNotificationThatKeepsKillingTheProcessIsPutAwayUnread() async throws {
        try await monitor.signIn("ann")
        try await monitor.notify("consent-revoked ann \(monitor.clock.now.milliseconds + 1)")
        try await monitor.execute("UPDATE notification_queue SET due_at = 1, attempts = 5")
        try await monitor.settle(monitor.notificationHandler)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(try await monitor.count("SELECT COUNT(*) FROM notification_quarantine WHERE reason = 'poison'") == 1)
    }

    @Test func thousandsAreSettledInHandfulsAndDuplicatesChangeNothing() async throws {
        for user in 0..<100 { try await monitor.grant("user\(user)", token: nil) }
        try await monitor.settle(monitor.grantHandler)
        let time = monitor.clock.now.milliseconds + 1
        for number in 0..<2000 { try await monitor.notify("consent-revoked user\(number % 100) \(time)") }
        try await monitor.settle(monitor.notificationHandler)
        #expect(try await monitor.count("SELECT COUNT(*) FROM notification_log WHERE outcome = 'applied'") == 100)
        #expect(try await monitor.count("SELECT COUNT(*) FROM notification_log WHERE outcome = 'duplicate'") == 1900)
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_change WHERE to_state = 'revoked'") == 100)
        let labels = [("outcome", "duplicate"), ("type", "consent-revoked")]
        #expect(try monitor.metrics.expectCounter("siwatch_notifications_total", labels).totalValue == 1900)
    }
}
