// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import CredentialTesting
import GRDB
import Testing

@testable import CredentialMonitor
@testable import SQLiteStore

/// An `invalid_grant` waits until siwatch may believe it.
struct RejectionTests {
    private let monitor = try! Monitor()

    private static let settle = Duration.seconds(900)

    @Test func amongNormalAnswersARejectionIsBelievedAfterTheSettleTimeWithoutAnotherCall() async throws {
        let askedAt = try await rejectAnn(among: 120, in: monitor)
        #expect(try await monitor.due("ann") == askedAt.advanced(by: Self.settle))
        #expect(try await pending(in: monitor) == 1)
        #expect(monitor.refreshes("rejected") == 1)

        monitor.clock.set(to: askedAt.advanced(by: Self.settle - .milliseconds(1)))
        try await monitor.settle(monitor.refreshHandler)
        #expect(try await monitor.state(of: "ann") == "authorized granted", "not yet")

        let calls = monitor.endpoint.calls.count
        try await monitor.settle(monitor.refreshHandler, after: .milliseconds(1))
        #expect(try await monitor.state(of: "ann") == "revoked token_rejected")
        #expect(try await monitor.count("SELECT changed_at - granted_at FROM credential WHERE user_id = 'ann'") == 1)
        #expect(try await monitor.value("SELECT rejected_at FROM credential WHERE user_id = 'ann'") == askedAt.milliseconds)
        #expect(monitor.endpoint.calls.count == calls)
        #expect(try await monitor.due("ann") == nil, "nobody asks about a rejected token")
        #expect(try await monitor.count("SELECT sealed_token IS NOT NULL FROM credential WHERE user_id = 'ann'") == 1)
        #expect(try await pending(in: monitor) == 0)
    }

    /// The replica does not know Apple's answers to the app's present owner.
    @Test func whoDoesNotOwnTheAppBelievesNothing() async throws {
        let monitor = try Monitor(isOfAFleet: true)
        func renew() { _ = monitor.lease.renew(1, askedAt: monitor.clock.uptime, answeredAt: monitor.clock.uptime, for: .days(1)) }
        renew()
        monitor.clock.advance(by: .seconds(1))
        let askedAt = try await rejectAnn(among: 120, in: monitor)
        monitor.clock.set(to: askedAt.advanced(by: Self.settle))
        monitor.lease.end()
        try await monitor.settle(monitor.refreshHandler)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        renew()
        try await monitor.settle(monitor.refreshHandler)
        #expect(try await monitor.state(of: "ann") == "revoked token_rejected")
    }

    /// An hour in which Apple rejects all tokens shows as a single rejection in a small app.
    @Test func inASmallAppARejectionIsBelievedOnceAppleHasRepeatedItADayLater() async throws {
        let askedAt = try await rejectAnn(beside: "bob", in: monitor)
        try await monitor.settle(monitor.refreshHandler, after: Self.settle)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(try await pending(in: monitor) == 1)
        #expect(try await monitor.due("ann") == askedAt.advanced(by: monitor.policy.repetition), "everybody else is asked about before her")

        try await repeatAnn(beside: "bob", in: monitor)
        #expect(monitor.asked("ann") == 2)
        try await monitor.settle(monitor.refreshHandler, after: Self.settle - .milliseconds(1))
        #expect(try await monitor.state(of: "ann") == "authorized granted", "it waits again")
        try await monitor.settle(monitor.refreshHandler, after: .milliseconds(1))
        #expect(try await monitor.state(of: "ann") == "revoked token_rejected")
        #expect(try await monitor.value("SELECT rejected_at FROM credential WHERE user_id = 'ann'") == askedAt.milliseconds)
        #expect(monitor.asked("ann") == 2)
        try expectADayBetweenAnswers(of: "ann", in: monitor)
    }

    @Test func aRejectionThatAppleDoesNotRepeatIsForgotten() async throws {
        _ = try await rejectAnn(beside: "bob", in: monitor)
        monitor.endpoint.answer(.valid, for: "ann")
        try await repeatAnn(beside: "bob", in: monitor)
        try await monitor.settle(monitor.refreshHandler, after: .seconds(91_000))
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(try await pending(in: monitor) == 0)
    }

    @Test func withoutA200OfTheSameClientItWaitsHoweverOftenItIsRepeated() async throws {
        try await signInRejected("ann", in: monitor)
        try await monitor.signIn("eve", client: Monitor.clients[1])
        for day in 1...5 {
            try await monitor.day()
            #expect(try await monitor.state(of: "ann") == "authorized granted", "eve's 200 is another client's")
            #expect(monitor.asked("ann") == day, "once a day")
            #expect(monitor.refreshes("held") == Int64(day))
            for _ in 1...10 { try await monitor.settle(monitor.refreshHandler, after: .seconds(600)) }
            #expect(monitor.asked("ann") == day, "not before the daily check")
        }
        #expect(try await pending(in: monitor) == 1)

        // Bob's 200 proves the client. Apple repeats the rejection, and siwatch believes it.
        try await monitor.signIn("bob")
        try await check("bob", in: monitor)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        try await repeatAnn(beside: "bob", in: monitor)
        try await monitor.settle(monitor.refreshHandler, after: Self.settle)
        #expect(try await monitor.state(of: "ann") == "revoked token_rejected")
        #expect(monitor.asked("ann") == 6)
        try expectADayBetweenAnswers(of: "ann", in: monitor)
    }

    // MARK: Another team, and what proves nothing

    /// Apple rejects the old team's tokens for good, and accepts those that it issues to the new team.
    @Test func anAppThatChangesHandsSignsNobodyOut() async throws {
        let users = (1...10).map { "user\($0)" }
        for user in users { try await monitor.signIn(user) }
        try await monitor.day()
        monitor.endpoint.sign(with: "NEWKEY0001", of: "NEWTEAM001")
        monitor.endpoint.answer(.rejected)
        for user in ["new", "left"] { monitor.endpoint.answer(.valid, for: user) }
        for user in ["new", "left"] { try await monitor.signIn(user) }
        for round in 1...5 {
            if round == 2 { monitor.endpoint.answer(.rejected, for: "left") }
            try await monitor.day()
            try await monitor.settle(monitor.refreshHandler, after: Self.settle)
        }
        for user in users { #expect(try await monitor.state(of: user) == "authorized granted") }
        #expect(try await monitor.state(of: "left") == "revoked token_rejected", "a token of the new team ends as any does")
        #expect(try await pending(in: monitor) == 0)
        #expect(try await monitor.count("SELECT unverified FROM app") == 10, "it is not kept silent")
        #expect(try await !isOpen(monitor))
        let question = Overview.Question(at: monitor.clock.now, teams: [Monitor.app: "NEWTEAM001"])
        let teams = try await monitor.store.overview(question).otherTeams
        #expect(teams.map(\.oldTeamID) == [ScriptedTokenEndpoint.teamID] && teams.map(\.tokens) == [10])
        try expectADayBetweenAnswers(in: monitor)
    }

    /// Apple rejects every refresh of a client for three days, and exchanges its codes as always.
    @Test func codesProveNothingOfRefreshes() async throws {
        let users = (1...15).map { "user\($0)" }
        for user in users { try await monitor.signIn(user) }
        try await monitor.day()
        monitor.endpoint.answer(.rejected)
        for day in 1...3 {
            for hour in 1...26 {
                monitor.endpoint.answerCodes(.issued("code\(day).\(hour)"))
                try await monitor.signIn(code: "c\(day).\(hour)")
                try await monitor.settle(monitor.refreshHandler, after: .seconds(3600))
            }
        }
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_state WHERE state <> 'authorized'") == 0)
    }

    /// A wrong key on the first day, or tokens of another client: siwatch stops asking only after a proof of the client.
    @Test func ofTokensThatWereNeverAcceptedTheAskingGoesOnUntilTheClientIsProven() async throws {
        monitor.endpoint.answer(.rejected)
        for user in 1...3 { try await monitor.signIn("user\(user)") }
        func gone() async throws -> Int { try await monitor.count("SELECT never_accepted FROM app") }
        for number in 1...4 {
            monitor.endpoint.answerCodes(.issued("code\(number)"))
            try await monitor.signIn(code: "c\(number)")
            try await monitor.day()
            try await monitor.settle(monitor.refreshHandler, after: Self.settle)
            #expect(try await gone() == 0)
        }
        monitor.endpoint.answer(.valid, for: "good")
        try await monitor.signIn("good")
        for _ in 1...3 {
            try await monitor.day()
            try await monitor.settle(monitor.refreshHandler, after: Self.settle)
        }
        #expect(try await gone() == 3)
    }

    /// An import of invalid tokens among normal answers.
    @Test func tokensThatAreNoneKeepNobodysRejectionFromBeingBelieved() async throws {
        for user in 1...40 {
            try await monitor.signIn("garbage\(user)")
            monitor.endpoint.answer(.rejected, for: "garbage\(user)")
        }
        let askedAt = try await rejectAnn(among: 120, in: monitor)
        #expect(try await !isOpen(monitor))
        monitor.clock.set(to: askedAt.advanced(by: Self.settle))
        try await monitor.settle(monitor.refreshHandler)
        #expect(try await monitor.state(of: "ann") == "revoked token_rejected")
        #expect(monitor.counter("siwatch_first_checks_total", ("outcome", "rejected")) == 40)
    }

    /// A wrong token and the right one have the same date. The greater fingerprint hides no good token for ever.
    @Test(arguments: ["one", "two"]) func ofTwoTokensOfOneMomentTheGoodOneIsFound(bad: String) async throws {
        try await monitor.signIn("bob")
        try await monitor.day()
        monitor.endpoint.reject(token: "\(bad)-of-ann")
        let moment = monitor.clock.now
        for token in ["one", "two"] { try await monitor.signIn("ann", token: token, at: moment) }
        for _ in 1...3 { try await dayAndSettleTime(of: monitor) }
        let good = bad == "one" ? "two" : "one"
        #expect(monitor.endpoint.calls.last { $0.credential.userID == "ann" }?.token.reveal == "\(good)-of-ann")
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE user_id = 'ann' AND verified_at IS NOT NULL") == 1)
    }

    /// Each user is asked about at a moment of their own. Of one moment, a rejection may be settled before the 200 that proves it, and is then
    /// believed a day later.
    private func dayAndSettleTime(of monitor: Monitor) async throws {
        let end = monitor.clock.now.advanced(by: .seconds(91_000))
        let dues = [try await monitor.due("ann"), try await monitor.due("bob")].compactMap(\.self)
        for due in dues.sorted() where monitor.clock.now < due && due < end {
            monitor.clock.advance(to: due)
            try await monitor.settle(monitor.refreshHandler)
        }
        monitor.clock.advance(to: end)
        try await monitor.settle(monitor.refreshHandler)
        try await monitor.settle(monitor.refreshHandler, after: Self.settle)
    }

    /// A new process knows no 200, whatever its predecessor got.
    @Test func aRestartIsProvenAnew() async throws {
        _ = try await rejectAnn(among: 120, in: monitor)
        monitor.writer.breakers.forgetProofs(of: Set(Monitor.clients))
        try await monitor.settle(monitor.refreshHandler, after: Self.settle)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(monitor.asked("ann") == 1)
        let due = try #require(try await monitor.due("ann"))
        let asked = try #require(monitor.endpoint.calls.last { $0.credential.userID == "ann" })
        #expect(asked.sentAt.duration(to: due) >= .seconds(86_400), "the daily check")
    }

    @Test(arguments: ["newer grant", "waiting grant", "notification", "200", "recheck"])
    func whatIsKnownBetterTakesItBack(_ what: String) async throws {
        _ = try await rejectAnn(beside: "bob", in: monitor)
        monitor.clock.advance(by: .seconds(600))
        switch what {
        case "newer grant":
            monitor.endpoint.answer(.valid, for: "ann")
            try await monitor.signIn("ann", token: "newer")
        case "waiting grant": try await monitor.grant("ann", token: "newer")
        case "notification":
            try await monitor.hear("consent-revoked ann \(monitor.clock.now.milliseconds)")
        case "200":
            monitor.endpoint.answer(.valid, for: "ann")
            monitor.clock.advance(by: .seconds(3600 - 600))
            // siwatch settles nothing meanwhile. Then the operator requests a recheck, and Apple has changed its answer.
            _ = try await monitor.ask(.recheckUser("ann"))
        default:
            monitor.clock.advance(by: .seconds(3600 - 600))
            _ = try await monitor.ask(.recheckUser("ann"))
            #expect(try await pending(in: monitor) == 0)
        }
        try await monitor.settle(monitor.refreshHandler, after: .seconds(300))
        let state = what == "notification" ? "revoked consent_revoked" : "authorized granted"
        #expect(try await monitor.state(of: "ann") == state)
        #expect(try await pending(in: monitor) == (["waiting grant", "recheck"].contains(what) ? 1 : 0))
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_change WHERE source = 'refresh'") == 0)
    }

    @Test func massRejectionRevokesNobody() async throws {
        let monitor = try Monitor(requestsPerSecond: 50)
        for user in 1...200 { try await monitor.grant("user\(user)", at: monitor.clock.now.advanced(by: .seconds(-user))) }
        try await monitor.signIn("good")
        try await monitor.execute("UPDATE credential SET verified_at = token_granted_at, verified_team = 'TESTTEAM01'")
        try await monitor.day()
        monitor.endpoint.answer(.rejected)
        try await monitor.day()
        for _ in 2...400 { try await monitor.settle(monitor.refreshHandler, after: .seconds(60)) }
        #expect(try await isOpen(monitor))
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_state WHERE state <> 'authorized'") == 0)
        #expect(monitor.gauge("siwatch_breaker_open") == 1)

        // Apple answers normally again. The breaker closes by itself, and the backlog drains.
        monitor.endpoint.answer(.valid)
        for _ in 1...3000 { try await monitor.settle(monitor.refreshHandler, after: .seconds(60)) }
        #expect(try await !isOpen(monitor))
        #expect(monitor.gauge("siwatch_breaker_open") == 0)
        try expectADayBetweenAnswers(in: monitor)
    }

    /// The revocation lane takes permits of the same budget, in any state of the breaker. Codes have a budget of their own.
    @Test func whileOpenNoOtherLaneBringsAProbeForward() async throws {
        try await open(monitor, users: 100)
        try await monitor.requestRevocation("good")
        func checks() -> Int64 { ["valid", "rejected", "held"].map(monitor.refreshes).reduce(0, +) }
        let before = checks()
        monitor.endpoint.answerCodes(.refused(.codeUsed, detail: "invalid_grant: The code has already been used."))
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
        #expect(try await isOpen(monitor))
        #expect(try await monitor.state(of: "canary") == "authorized granted")
        #expect(try await monitor.due("canary") == due, "its own schedule is as it was")

        monitor.endpoint.answer(.valid)
        try await monitor.settle(monitor.refreshHandler, after: .seconds(3600))
        #expect(try await !isOpen(monitor))
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
        #expect(try await isOpen(monitor))
        monitor.clock.advance(by: .seconds(60))
        try await monitor.hear("consent-revoked canary \(monitor.clock.now.milliseconds)")
        #expect(try await monitor.state(of: "canary") == "revoked consent_revoked", "signed evidence is never held")
        #expect(try await !isOpen(monitor))
    }

    /// The blamed client has one user, whose check stands behind a long backlog of the other client.
    @Test func aBlamedClientIsAskedBeforeTheBacklog() async throws {
        try await monitor.signIn("eve", client: Monitor.clients[1])
        monitor.endpoint.answer(.misconfigured("invalid_client"), for: "eve")
        try await monitor.signIn(users: 1...100)
        monitor.clock.advance(by: .seconds(91_000))
        while try await !isOpen(monitor) { _ = try await monitor.loop(monitor.refreshHandler).round() }
        for user in 101...400 { try await monitor.grant("user\(user)", at: monitor.clock.now.advanced(by: .seconds(-200_000))) }
        try await monitor.settle(monitor.grantHandler)
        monitor.clock.advance(by: .seconds(10_000))
        monitor.endpoint.answer(.valid)
        monitor.endpoint.answer(.valid, for: "eve")
        _ = try await monitor.loop(monitor.refreshHandler).round()
        #expect(monitor.endpoint.calls.last?.credential.userID == "eve")
        #expect(try await !isOpen(monitor))
    }

    /// Apple's verdict on one client says nothing about another's key or name.
    @Test func anotherClientsGoodAnswerDoesNotEndThePause() async throws {
        func isPaused() -> Bool { monitor.gauge("siwatch_app_paused") == 1 }
        try await monitor.signIn("eve", client: Monitor.clients[1])
        try await monitor.signIn("ann")
        monitor.endpoint.answer(.misconfigured("invalid_client"), for: "eve")
        try await check("eve", in: monitor)
        #expect(isPaused())
        monitor.clock.advance(by: .seconds(31))
        try await monitor.execute("UPDATE credential SET due_at = due_at + 3600000 WHERE user_id = 'eve'")
        try await check("ann", in: monitor)
        #expect(monitor.asked("ann") == 1)
        #expect(isPaused())

        monitor.endpoint.answer(.valid, for: "eve")
        monitor.clock.advance(by: .seconds(3600))
        try await check("eve", in: monitor)
        #expect(!isPaused())
    }

    @Test func confirmBelievesWhatWaitsWithoutA200() async throws {
        try await signInRejected("ann", in: monitor)
        #expect(try await monitor.ask(.confirmRejections(app: Monitor.app)) == .nothingToConfirm)
        try await monitor.day()
        let answer = try await monitor.ask(.confirmRejections(app: Monitor.app))
        #expect(answer == .rejectionsConfirmed(now: 1, next: 0, wasOpen: false, isPaused: false))
        try await monitor.settle(monitor.refreshHandler)
        #expect(try await monitor.state(of: "ann") == "revoked token_rejected")
        #expect(monitor.asked("ann") == 1)

        // It proves nothing for answers that come after it.
        try await signInRejected("bob", in: monitor)
        try await monitor.day()
        try await monitor.settle(monitor.refreshHandler, after: Self.settle)
        #expect(try await monitor.state(of: "bob") == "authorized granted")
    }

    @Test func confirmClosesAndOneMoreAnswerOfAppleEndsWhomTheBreakerHadSpared() async throws {
        func isMuted() async throws -> Double? {
            monitor.telemetry.observe(try await monitor.store.overview(Overview.Question(at: monitor.clock.now)))
            return monitor.gauge("siwatch_breaker_muted")
        }
        try await open(monitor, users: 100)
        #expect(try await isMuted() == 0)
        let spared = try await monitor.store.doubtedTokens(of: Monitor.app, after: nil, upTo: 1000).map(\.userID)
        #expect(spared.count > 20)
        monitor.endpoint.answer(.valid, for: spared[0])
        let found = try await monitor.ask(.confirmRejections(app: Monitor.app))
        #expect(found == .rejectionsConfirmed(now: 0, next: spared.count, wasOpen: true, isPaused: false))
        #expect(try await !isOpen(monitor))
        #expect(try await isMuted() == 1, "no alert contradicts the operator")
        try await monitor.settle(monitor.refreshHandler, after: .seconds(1))
        let rejected = "SELECT user_id FROM credential_state WHERE reason = 'token_rejected' ORDER BY user_id"
        let ended: String? = try await monitor.value("SELECT group_concat(user_id) FROM (\(rejected))")
        let expected = spared.dropFirst().joined(separator: ",")
        #expect(ended == expected, "Apple accepts one, and had not rejected the others before")
        monitor.endpoint.answer(.rejected, for: spared[0])
        for _ in 1...320 { try await monitor.settle(monitor.refreshHandler, after: .seconds(600)) }
        #expect(try await !isOpen(monitor), "no number of them opens it within an interval, nor do those that are repeated")
        #expect(try await isMuted() == 0)
        #expect(try await monitor.state(of: "user1") == "revoked token_rejected")
        try expectADayBetweenAnswers(in: monitor)
    }

    @Test func resetClosesAndBelievesNothing() async throws {
        try await open(monitor, users: 100)
        #expect(try await monitor.ask(.resetBreaker(app: Monitor.app)) == .breakerReset(wasOpen: true))
        #expect(try await !isOpen(monitor))
        try await monitor.settle(monitor.refreshHandler, after: Self.settle * 2)
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_state WHERE state <> 'authorized'") == 0)
    }

    @Test func theStateSurvivesARestart() async throws {
        try await open(monitor, users: 100)
        let (clock, telemetry) = (monitor.clock.wallClock, monitor.telemetry)
        let writer = SettlementWriter(store: monitor.store, rules: monitor.rules, clock: clock, telemetry: telemetry)
        #expect(writer.breakers.admissions(of: Monitor.app, at: monitor.clock.now).isEmpty)
        try await writer.breakers.load(from: monitor.store)
        #expect(try await monitor.storedBreaker?.causes == [.disproportion])
        let handler = monitor.refreshHandler(breakers: writer.breakers)
        monitor.clock.advance(by: .seconds(60))
        #expect(try await handler.claim(upTo: 64).count == 1)
    }

    // MARK: Undo and missed notifications

    @Test func aRecheckBringsARejectedUserBackAndTheFeedSaysSo() async throws {
        _ = try await rejectAnn(beside: "bob", in: monitor)
        try await repeatAnn(beside: "bob", in: monitor)
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
        for user in 1...18 { try await signInRejected("user\(user)", in: monitor) }
        try await twoDays(beside: "good", in: monitor)
        #expect(try await !isOpen(monitor), "what Apple repeats counts once")
        try await monitor.settle(monitor.refreshHandler, after: .seconds(7200))
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_state WHERE reason = 'token_rejected'") == 18)
        for _ in 1...3 {
            monitor.clock.advance(by: .seconds(7200))
            _ = try await monitor.ask(.recheckApp(Monitor.app))
            try await monitor.settle(monitor.refreshHandler, after: .seconds(60))
        }
        let calls = (1...18).map { monitor.asked("user\($0)") }
        #expect(calls == Array(repeating: 5, count: 18))
        #expect(try await !isOpen(monitor))
    }

    @Test func aRejectionWithoutANotificationWithinAnHourIsCounted() async throws {
        for user in ["ann", "eve"] { try await signInRejected(user, in: monitor) }
        try await monitor.signIn("bob")
        try await twoDays(beside: "bob", in: monitor)
        try await monitor.settle(monitor.refreshHandler, after: Self.settle)
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
        try await signInRejected("ann", in: monitor)
        try await monitor.signIn("bob")
        try await twoDays(beside: "bob", in: monitor)
        try await monitor.settle(monitor.refreshHandler, after: Self.settle)
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

    /// Signs in a user whose token Apple has accepted and rejects from now on.
    private func signInRejected(_ user: String, in monitor: Monitor) async throws {
        monitor.endpoint.answer(.rejected, for: user)
        try await monitor.signIn(user, isAccepted: true)
    }

    /// Apple rejects ann's token, and not another user's.
    ///
    /// - Returns: when siwatch asked about ann.
    private func rejectAnn(beside other: String, in monitor: Monitor) async throws -> Timestamp {
        try await monitor.signIn(other)
        try await monitor.day()
        try await signInRejected("ann", in: monitor)
        monitor.clock.advance(by: .seconds(1))
        try await check("ann", in: monitor)
        return try #require(monitor.endpoint.calls.last { $0.credential.userID == "ann" }?.sentAt)
    }

    /// Apple rejects ann's token among good answers about others, five seconds apart.
    ///
    /// - Returns: when siwatch asked about ann.
    private func rejectAnn(among others: Int, in monitor: Monitor) async throws -> Timestamp {
        monitor.endpoint.answer(.rejected, for: "ann")
        // Imported, so that their own first checks come hours later.
        let longAgo = monitor.clock.now.advanced(by: .seconds(-200_000))
        try await monitor.signIn("ann", at: longAgo, isAccepted: true)
        for user in 1...others { try await monitor.grant("user\(user)", at: longAgo) }
        try await monitor.settle(monitor.grantHandler)
        for user in 1...others { try await monitor.accept("user\(user)") }
        for user in 1...others {
            if user == others / 2 { try await check("ann", in: monitor) }
            monitor.clock.advance(by: .seconds(5))
            try await check("user\(user)", in: monitor)
        }
        return try #require(monitor.endpoint.calls.last { $0.credential.userID == "ann" }?.sentAt)
    }

    private func repeatAnn(beside other: String, in monitor: Monitor) async throws {
        monitor.clock.advance(by: monitor.policy.repetition / 2)
        try await check(other, in: monitor)
        try await monitor.settle(monitor.refreshHandler, after: monitor.policy.repetition / 2)
    }

    private func check(_ user: String, in monitor: Monitor) async throws {
        try await monitor.execute("UPDATE credential SET due_at = ? WHERE user_id = ?", [monitor.clock.now.milliseconds, user])
        try await monitor.settle(monitor.refreshHandler)
    }

    private func open(_ monitor: Monitor, users: Int) async throws {
        for user in 1...users { try await monitor.grant("user\(user)") }
        try await monitor.signIn("good")
        try await monitor.execute("UPDATE credential SET verified_at = token_granted_at, verified_team = 'TESTTEAM01'")
        monitor.endpoint.answer(.valid, for: "good")
        monitor.endpoint.answer(.rejected)
        try await monitor.day()
        for _ in 1...30 where try await !isOpen(monitor) { try await monitor.day() }
        #expect(try await isOpen(monitor))
        monitor.clock.advance(by: .seconds(91_000))
    }

    private func isOpen(_ monitor: Monitor) async throws -> Bool { try await monitor.storedBreaker?.isOpen ?? false }

    private func pending(in monitor: Monitor) async throws -> Int {
        let counted = try await monitor.count("SELECT COUNT(*) FROM credential WHERE pending_since IS NOT NULL")
        monitor.telemetry.observe(try await monitor.store.overview(Overview.Question(at: monitor.clock.now)))
        let gauge = monitor.gauge("siwatch_credentials_pending")
        #expect(gauge == Double(counted), "the count is kept")
        return counted
    }

    /// Every answer counts, believed or not.
    private func expectADayBetweenAnswers(of user: String? = nil, in monitor: Monitor) throws {
        let calls = monitor.endpoint.calls.filter { user.map($0.credential.userID.elementsEqual) ?? true }
        for (credential, calls) in Dictionary(grouping: calls, by: \.credential) {
            let times = calls.map(\.sentAt).sorted()
            for (one, next) in zip(times, times.dropFirst()) { #expect(one.duration(to: next) >= .seconds(86_400), "\(credential.userID)") }
        }
    }

    private func twoDays(beside other: String, in monitor: Monitor) async throws {
        try await monitor.day()
        try await repeatAnn(beside: other, in: monitor)
    }
}
