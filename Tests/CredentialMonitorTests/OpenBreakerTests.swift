// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import CredentialTesting
import GRDB
import Testing

@testable import CredentialMonitor
@testable import SQLiteStore

/// What opens the breaker, what goes on meanwhile, and what closes it.
struct OpenBreakerTests {
    private let monitor = try! Monitor()

    @Test func massRejectionRevokesNobody() async throws {
        let monitor = try Monitor(requestsPerSecond: 50)
        for user in 1...200 { try await monitor.grant("user\(user)", at: monitor.clock.now.advanced(by: .seconds(-user))) }
        try await monitor.signIn("good")
        try await monitor.execute("UPDATE credential SET verified_at = token_granted_at, verified_team = 'TESTTEAM01'")
        try await monitor.day()
        monitor.endpoint.answer(.rejected)
        try await monitor.day()
        for _ in 2...400 { try await monitor.settle(monitor.refreshHandler, after: .seconds(60)) }
        #expect(try await monitor.isBreakerOpen)
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_state WHERE state <> 'authorized'") == 0)
        #expect(monitor.gauge("siwatch_breaker_open") == 1)

        // Apple answers normally again. The breaker closes by itself, and the backlog drains.
        monitor.endpoint.answer(.valid)
        for _ in 1...3000 { try await monitor.settle(monitor.refreshHandler, after: .seconds(60)) }
        #expect(try await !monitor.isBreakerOpen)
        #expect(monitor.gauge("siwatch_breaker_open") == 0)
        try monitor.expectADayBetweenAnswers()
    }

    /// The revocation lane takes permits of the same budget, in any state of the breaker. Codes have a budget of their own.
    @Test func whileOpenNoOtherLaneBringsAProbeForward() async throws {
        try await monitor.openBreaker(users: 100)
        try await monitor.requestRevocation("good")
        func checks() -> Int64 { ["valid", "rejected", "held"].map(monitor.refreshes).reduce(0, +) }
        let before = checks()
        monitor.endpoint.answerCodes(.used)
        for second in 1...600 {
            try await monitor.settle(monitor.revocationHandler, after: .seconds(1))
            if second % 10 == 0 { try await monitor.code("c\(second)") }
            try await monitor.settle(monitor.codeHandler)
            try await monitor.settle(monitor.refreshHandler)
        }
        let probes = checks() - before
        #expect((19...21).contains(probes), "\(probes) in ten minutes")
        #expect(!monitor.endpoint.revocations.isEmpty && monitor.endpoint.exchanges.count == 60)
    }

    @Test func aRejectedCanaryOpensAndItsNext200Closes() async throws {
        let monitor = try Monitor(canaries: ["canary"])
        // Imported, so that their first checks come hours later.
        let longAgo = monitor.clock.now.advanced(by: .seconds(-200_000))
        try await monitor.signIn("canary", at: longAgo)
        try await monitor.signIn("bob", at: longAgo)
        try await monitor.settle(monitor.refreshHandler)
        #expect(monitor.asked("canary") == 1, "long before its daily check")
        let due = try #require(try await monitor.due("canary"))

        monitor.endpoint.answer(.rejected)
        for _ in 1...59 { try await monitor.settle(monitor.refreshHandler, after: .seconds(60)) }
        #expect(monitor.asked("canary") == 1, "once an hour")
        try await monitor.settle(monitor.refreshHandler, after: .seconds(60))
        #expect(monitor.asked("canary") == 2)
        #expect(try await monitor.isBreakerOpen)
        #expect(try await monitor.state(of: "canary") == "authorized granted")
        #expect(try await monitor.due("canary") == due, "its own schedule is as it was")

        monitor.endpoint.answer(.valid)
        try await monitor.settle(monitor.refreshHandler, after: .seconds(3600))
        #expect(try await !monitor.isBreakerOpen)
    }

    /// The store keeps the time at which a canary was taken, so the next time is an hour later.
    @Test func appleIsAskedAboutACanaryAlthoughTheStoreFailsAfterItWasTaken() async throws {
        let monitor = try Monitor(canaries: ["canary"])
        try await monitor.signIn("canary")
        let troubled = TroubledStore(monitor.store, TroubledStore.Trouble(failedReads: 1))
        let handler = monitor.refreshHandler(breakers: monitor.writer.breakers, store: troubled)
        try await monitor.settle(handler)
        #expect(monitor.asked("canary") == 1)
        #expect(try await monitor.count("SELECT verified_at IS NOT NULL FROM credential") == 1)
    }

    @Test func aCanaryWhoLeavesBySignedEvidenceHoldsUpNobody() async throws {
        let monitor = try Monitor(canaries: ["canary"])
        try await monitor.signIn("canary", isAccepted: true)
        monitor.endpoint.answer(.rejected)
        try await monitor.settle(monitor.refreshHandler)
        #expect(try await monitor.isBreakerOpen)
        monitor.clock.advance(by: .seconds(60))
        try await monitor.hear("consent-revoked canary \(monitor.clock.now.milliseconds)")
        #expect(try await monitor.state(of: "canary") == "revoked consent_revoked", "signed evidence is never held")
        #expect(try await !monitor.isBreakerOpen)
    }

    /// The blamed client has one user, whose check stands behind a long backlog of the other client.
    @Test func aBlamedClientIsAskedBeforeTheBacklog() async throws {
        try await monitor.signIn("eve", client: Monitor.clients[1])
        monitor.endpoint.answer(.misconfigured("invalid_client"), for: "eve")
        try await monitor.signIn(users: 1...100)
        monitor.clock.advance(by: .seconds(91_000))
        while try await !monitor.isBreakerOpen { _ = try await monitor.loop(monitor.refreshHandler).round() }
        for user in 101...400 { try await monitor.grant("user\(user)", at: monitor.clock.now.advanced(by: .seconds(-200_000))) }
        try await monitor.settle(monitor.grantHandler)
        monitor.clock.advance(by: .seconds(10_000))
        monitor.endpoint.answer(.valid)
        monitor.endpoint.answer(.valid, for: "eve")
        _ = try await monitor.loop(monitor.refreshHandler).round()
        #expect(monitor.endpoint.calls.last?.credential.userID == "eve")
        #expect(try await !monitor.isBreakerOpen)
    }

    /// Apple's verdict on one client says nothing about another's key or name.
    @Test func anotherClientsGoodAnswerDoesNotEndThePause() async throws {
        func isPaused() -> Bool { monitor.gauge("siwatch_app_paused") == 1 }
        try await monitor.signIn("eve", client: Monitor.clients[1])
        try await monitor.signIn("ann")
        monitor.endpoint.answer(.misconfigured("invalid_client"), for: "eve")
        try await monitor.check("eve")
        #expect(isPaused())
        monitor.clock.advance(by: .seconds(31))
        try await monitor.execute("UPDATE credential SET due_at = due_at + 3600000 WHERE user_id = 'eve'")
        try await monitor.check("ann")
        #expect(monitor.asked("ann") == 1)
        #expect(isPaused())

        monitor.endpoint.answer(.valid, for: "eve")
        monitor.clock.advance(by: .seconds(3600))
        try await monitor.check("eve")
        #expect(!isPaused())
    }

    @Test func confirmBelievesWhatWaitsWithoutA200() async throws {
        try await monitor.signInRejected("ann")
        #expect(try await monitor.ask(.confirmRejections(app: Monitor.app)) == .nothingToConfirm)
        try await monitor.day()
        let answer = try await monitor.ask(.confirmRejections(app: Monitor.app))
        #expect(answer == .rejectionsConfirmed(now: 1, next: 0, wasOpen: false, isPaused: false))
        try await monitor.settle(monitor.refreshHandler)
        #expect(try await monitor.state(of: "ann") == "revoked token_rejected")
        #expect(monitor.asked("ann") == 1)

        // It proves nothing for answers that come after it.
        try await monitor.signInRejected("bob")
        try await monitor.day()
        try await monitor.settle(monitor.refreshHandler, after: Monitor.settleTime)
        #expect(try await monitor.state(of: "bob") == "authorized granted")
    }

    @Test func confirmClosesAndOneMoreAnswerOfAppleEndsWhomTheBreakerHadSpared() async throws {
        func isMuted() async throws -> Double? {
            monitor.telemetry.observe(try await monitor.store.overview(Overview.Question(at: monitor.clock.now)))
            return monitor.gauge("siwatch_breaker_muted")
        }
        try await monitor.openBreaker(users: 100)
        #expect(try await isMuted() == 0)
        let spared = try await monitor.store.doubtedTokens(of: Monitor.app, after: nil, upTo: 1000).map(\.userID)
        #expect(spared.count > 20)
        monitor.endpoint.answer(.valid, for: spared[0])
        let found = try await monitor.ask(.confirmRejections(app: Monitor.app))
        #expect(found == .rejectionsConfirmed(now: 0, next: spared.count, wasOpen: true, isPaused: false))
        #expect(try await !monitor.isBreakerOpen)
        #expect(try await isMuted() == 1, "no alert contradicts the operator")
        try await monitor.settle(monitor.refreshHandler, after: .seconds(1))
        let rejected = "SELECT user_id FROM credential_state WHERE reason = 'token_rejected' ORDER BY user_id"
        let ended: String? = try await monitor.value("SELECT group_concat(user_id) FROM (\(rejected))")
        let expected = spared.dropFirst().joined(separator: ",")
        #expect(ended == expected, "Apple accepts one, and had not rejected the others before")
        monitor.endpoint.answer(.rejected, for: spared[0])
        for _ in 1...320 { try await monitor.settle(monitor.refreshHandler, after: .seconds(600)) }
        #expect(try await !monitor.isBreakerOpen, "no number of them opens it within an interval, nor do those that are repeated")
        #expect(try await isMuted() == 0)
        #expect(try await monitor.state(of: "user1") == "revoked token_rejected")
        try monitor.expectADayBetweenAnswers()
    }

    @Test func resetClosesAndBelievesNothing() async throws {
        try await monitor.openBreaker(users: 100)
        #expect(try await monitor.ask(.resetBreaker(app: Monitor.app)) == .breakerReset(wasOpen: true))
        #expect(try await !monitor.isBreakerOpen)
        try await monitor.settle(monitor.refreshHandler, after: Monitor.settleTime * 2)
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_state WHERE state <> 'authorized'") == 0)
    }

    @Test func theStateSurvivesARestart() async throws {
        try await monitor.openBreaker(users: 100)
        let (clock, telemetry) = (monitor.clock.wallClock, monitor.telemetry)
        let writer = SettlementWriter(store: monitor.store, rules: monitor.rules, clock: clock, telemetry: telemetry)
        #expect(writer.breakers.admissions(of: Monitor.app, at: monitor.clock.now).isEmpty)
        try await writer.breakers.load(from: monitor.store)
        #expect(try await monitor.storedBreaker?.causes == [.disproportion])
        let handler = monitor.refreshHandler(breakers: writer.breakers)
        monitor.clock.advance(by: .seconds(60))
        #expect(try await handler.claim(upTo: 64).count == 1)
    }
}
