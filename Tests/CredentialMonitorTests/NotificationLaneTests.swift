// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import MetricsTestKit
import Testing

struct NotificationLaneTests {
    private let monitor: Monitor

    init() throws { monitor = try Monitor() }

    @Test func aRevocationReachesEveryClientOfTheApp() async throws {
        try await monitor.signIn("ann")
        try await monitor.signIn("ann", client: Monitor.clients[1])
        try await monitor.hear("consent-revoked ann \(monitor.clock.now.milliseconds + 1)")
        for client in Monitor.clients { #expect(try await monitor.state(of: "ann", client: client) == "revoked consent_revoked") }
    }

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
        let counter = try monitor.metrics.expectCounter(
            "siwatch_notifications_total",
            [("outcome", "duplicate"), ("type", "consent-revoked")]
        )
        #expect(counter.totalValue == 1900)
    }
}
