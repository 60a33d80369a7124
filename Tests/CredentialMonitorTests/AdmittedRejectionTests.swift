// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTables
import CredentialTesting
import GRDB
import SQLiteStore
import Testing

/// A rejection that siwatch believes may be undone, and ought to come with a notification.
struct AdmittedRejectionTests {
    private let monitor = try! Monitor()

    @Test func aRecheckBringsARejectedUserBackAndTheFeedSaysSo() async throws {
        _ = try await monitor.rejectAnn(beside: "bob")
        try await monitor.repeatAnn(beside: "bob")
        try await monitor.settle(monitor.refreshHandler, after: .seconds(3600))
        #expect(try await monitor.state(of: "ann") == "revoked token_rejected")
        monitor.endpoint.answer(.valid, for: "ann")
        _ = try await monitor.ask(.recheckUser("ann"))
        try await monitor.settle(monitor.refreshHandler)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        let feed: String? = try await monitor.value(
            """
            SELECT group_concat(COALESCE(from_state, 'none') || '>' || to_state || ' ' || reason || ' ' || source, ', ')
              FROM credential_change WHERE user_id = 'ann'
            """
        )
        #expect(feed == "none>authorized granted grant, authorized>revoked token_rejected refresh, revoked>authorized granted refresh")
        monitor.clock.advance(by: .seconds(7200))
        #expect(try await monitor.store.countMissedNotifications(at: monitor.clock.now).isEmpty, "it was no revocation")
    }

    /// Many users have left for good. Another question about them tells nothing new.
    @Test func aRecheckOfTheRejectedOpensNothing() async throws {
        try await monitor.signIn("good")
        for user in 1...18 { try await monitor.signInRejected("user\(user)") }
        try await monitor.twoDays(beside: "good")
        #expect(try await !monitor.isBreakerOpen, "what Apple repeats counts once")
        try await monitor.settle(monitor.refreshHandler, after: .seconds(7200))
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_state WHERE reason = 'token_rejected'") == 18)
        for _ in 1...3 {
            monitor.clock.advance(by: .seconds(7200))
            _ = try await monitor.ask(.recheckApp(Monitor.app))
            try await monitor.settle(monitor.refreshHandler, after: .seconds(60))
        }
        let calls = (1...18).map { monitor.asked("user\($0)") }
        #expect(calls == Array(repeating: 5, count: 18))
        #expect(try await !monitor.isBreakerOpen)
    }

    @Test func aRejectionWithoutANotificationWithinAnHourIsCounted() async throws {
        for user in ["ann", "eve"] { try await monitor.signInRejected(user) }
        try await monitor.signIn("bob")
        try await monitor.twoDays(beside: "bob")
        try await monitor.settle(monitor.refreshHandler, after: Monitor.settleTime)
        try await monitor.hear("consent-revoked eve \(monitor.clock.now.milliseconds - 1000)")

        monitor.clock.advance(by: .seconds(3599))
        #expect(try await monitor.store.countMissedNotifications(at: monitor.clock.now).isEmpty, "there is time yet")
        monitor.clock.advance(by: .seconds(1))
        let missed = try await monitor.store.countMissedNotifications(at: monitor.clock.now)
        #expect(missed == [Monitor.app: 1], "of eve there was one")
        monitor.telemetry.notificationsMissed(missed)
        #expect(monitor.counter("siwatch_notifications_missed_total") == 1)
        #expect(try await monitor.store.countMissedNotifications(at: monitor.clock.now).isEmpty, "once")
        let app = try await monitor.store.apps()[0]
        #expect((app.pending, app.admitted, app.missed) == (0, 2, 1))
    }

    /// siwatch was stopped when it came. It waits in the queue, so siwatch has not missed it.
    @Test func aNotificationThatWaitsIsNotMissed() async throws {
        try await monitor.signInRejected("ann")
        try await monitor.signIn("bob")
        try await monitor.twoDays(beside: "bob")
        try await monitor.settle(monitor.refreshHandler, after: Monitor.settleTime)
        #expect(try await monitor.state(of: "ann") == "revoked token_rejected")
        monitor.clock.advance(by: .seconds(600))
        try await monitor.notify("consent-revoked ann \(monitor.clock.now.milliseconds - 1000)")
        monitor.clock.advance(by: .seconds(7200))
        #expect(try await monitor.store.countMissedNotifications(at: monitor.clock.now).isEmpty)
        try await monitor.settle(monitor.notificationHandler)
        #expect(try await monitor.store.countMissedNotifications(at: monitor.clock.now).isEmpty)
        let app = try await monitor.store.apps()[0]
        #expect((app.pending, app.admitted, app.missed) == (0, 1, 0))
    }
}
