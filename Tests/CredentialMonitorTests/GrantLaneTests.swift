// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

struct GrantLaneTests {
    private let monitor: Monitor

    init() throws { monitor = try Monitor() }

    @Test func aTokenStandsNowhereInClear() async throws {
        try await monitor.signIn("ann", token: "r-very-secret")
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        let dump = Dump()
        try monitor.store.writer.dumpContent(to: dump)
        #expect(dump.text.contains("ann"))
        #expect(!dump.text.contains("very-secret"))
    }

    private func deliver(_ sealed: [UInt8], of user: String, to monitor: Monitor) async throws {
        let hex = sealed.map { String(format: "%02x", $0) }.joined()
        try await monitor.execute(
            "INSERT INTO grant_queue (client_id, user_id, token_sealed, granted_at) VALUES (?, ?, x'\(hex)', ?)",
            [Monitor.clients[0], user, monitor.clock.now.milliseconds]
        )
        try await monitor.settle(monitor.grantHandler)
    }

    @Test func aTokenThatTheBackendSealedIsOpenedAndSealedAnew() async throws {
        let ann = CredentialID(clientID: Monitor.clients[0], userID: "ann")
        try await deliver(PlainSealer().deliver(Secret("token-of-ann"), for: ann), of: "ann", to: monitor)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        try await monitor.settle(monitor.refreshHandler, after: .seconds(2 * 86_400))
        #expect(monitor.endpoint.calls.map(\.token.reveal) == ["token-of-ann"])
    }

    @Test(arguments: [("bob", "key", "unreadable_token"), ("ann", "old", "unknown_token_key")])
    func aSignInWhoseSealedTokenDoesNotOpenCountsWithoutIt(user: String, keyID: String, reason: String) async throws {
        let ann = CredentialID(clientID: Monitor.clients[0], userID: "ann")
        try await deliver(PlainSealer().deliver(Secret("token-of-ann"), for: ann, keyID: keyID), of: user, to: monitor)
        #expect(try await monitor.state(of: user) == "authorized granted")
        #expect(try await monitor.value("SELECT outcome || ' ' || reason FROM grant_log") == "rejected \(reason)")
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE sealed_token IS NOT NULL") == 0)
    }

    @Test func aGrantOfAnUnknownClientWaits() async throws {
        try await monitor.signIn("ann", client: "com.example.forgotten")
        #expect(try await monitor.count("SELECT COUNT(*) FROM grant_queue WHERE attempts = 0") == 1)
        monitor.clock.advance(by: .seconds(6 * 3600))
        #expect(try await monitor.loop(monitor.grantHandler).round() == 1, "looked at again")
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
        #expect(
            try await monitor.value("SELECT outcome || ' ' || reason || ' ' || hex(user_id) FROM grant_log")
                == "rejected malformed C328"
        )
    }
}

private final class Dump: TextOutputStream {
    private(set) var text = ""

    func write(_ string: String) {
        text += string
    }
}
