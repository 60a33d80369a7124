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

    @Test func amongNormalAnswersARejectionIsBelievedAfterTheSettleTimeWithoutAnotherCall() async throws {
        let askedAt = try await monitor.rejectAnn(among: 120)
        #expect(try await monitor.due("ann") == askedAt.advanced(by: Monitor.settleTime))
        #expect(try await monitor.pending() == 1)
        #expect(monitor.refreshes("rejected") == 1)

        monitor.clock.set(to: askedAt.advanced(by: Monitor.settleTime - .milliseconds(1)))
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
        #expect(try await monitor.pending() == 0)
    }

    /// The replica does not know Apple's answers to the app's present owner.
    @Test func whoDoesNotOwnTheAppBelievesNothing() async throws {
        let monitor = try Monitor(isOfAFleet: true)
        func renew() { _ = monitor.lease.renew(1, askedAt: monitor.clock.uptime, answeredAt: monitor.clock.uptime, for: .days(1)) }
        renew()
        monitor.clock.advance(by: .seconds(1))
        let askedAt = try await monitor.rejectAnn(among: 120)
        monitor.clock.set(to: askedAt.advanced(by: Monitor.settleTime))
        monitor.lease.end()
        try await monitor.settle(monitor.refreshHandler)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        renew()
        try await monitor.settle(monitor.refreshHandler)
        #expect(try await monitor.state(of: "ann") == "revoked token_rejected")
    }

    /// An hour in which Apple rejects all tokens shows as a single rejection in a small app.
    @Test func inASmallAppARejectionIsBelievedOnceAppleHasRepeatedItADayLater() async throws {
        let askedAt = try await monitor.rejectAnn(beside: "bob")
        try await monitor.settle(monitor.refreshHandler, after: Monitor.settleTime)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(try await monitor.pending() == 1)
        #expect(try await monitor.due("ann") == askedAt.advanced(by: monitor.policy.repetition), "everybody else is asked about before her")

        try await monitor.repeatAnn(beside: "bob")
        #expect(monitor.asked("ann") == 2)
        try await monitor.settle(monitor.refreshHandler, after: Monitor.settleTime - .milliseconds(1))
        #expect(try await monitor.state(of: "ann") == "authorized granted", "it waits again")
        try await monitor.settle(monitor.refreshHandler, after: .milliseconds(1))
        #expect(try await monitor.state(of: "ann") == "revoked token_rejected")
        #expect(try await monitor.value("SELECT rejected_at FROM credential WHERE user_id = 'ann'") == askedAt.milliseconds)
        #expect(monitor.asked("ann") == 2)
        try monitor.expectADayBetweenAnswers(of: "ann")
    }

    @Test func aRejectionThatAppleDoesNotRepeatIsForgotten() async throws {
        _ = try await monitor.rejectAnn(beside: "bob")
        monitor.endpoint.answer(.valid, for: "ann")
        try await monitor.repeatAnn(beside: "bob")
        try await monitor.settle(monitor.refreshHandler, after: .seconds(91_000))
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(try await monitor.pending() == 0)
    }

    @Test func withoutA200OfTheSameClientItWaitsHoweverOftenItIsRepeated() async throws {
        try await monitor.signInRejected("ann")
        try await monitor.signIn("eve", client: Monitor.clients[1])
        for day in 1...5 {
            try await monitor.day()
            #expect(try await monitor.state(of: "ann") == "authorized granted", "eve's 200 is another client's")
            #expect(monitor.asked("ann") == day, "once a day")
            #expect(monitor.refreshes("held") == Int64(day))
            for _ in 1...10 { try await monitor.settle(monitor.refreshHandler, after: .seconds(600)) }
            #expect(monitor.asked("ann") == day, "not before the daily check")
        }
        #expect(try await monitor.pending() == 1)

        // Bob's 200 proves the client. Apple repeats the rejection, and siwatch believes it.
        try await monitor.signIn("bob")
        try await monitor.check("bob")
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        try await monitor.repeatAnn(beside: "bob")
        try await monitor.settle(monitor.refreshHandler, after: Monitor.settleTime)
        #expect(try await monitor.state(of: "ann") == "revoked token_rejected")
        #expect(monitor.asked("ann") == 6)
        try monitor.expectADayBetweenAnswers(of: "ann")
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
            try await monitor.settle(monitor.refreshHandler, after: Monitor.settleTime)
        }
        for user in users { #expect(try await monitor.state(of: user) == "authorized granted") }
        #expect(try await monitor.state(of: "left") == "revoked token_rejected", "a token of the new team ends as any does")
        #expect(try await monitor.pending() == 0)
        #expect(try await monitor.count("SELECT unverified FROM app") == 10, "it is not kept silent")
        #expect(try await !monitor.isBreakerOpen)
        let question = Overview.Question(at: monitor.clock.now, teams: [Monitor.app: "NEWTEAM001"])
        let teams = try await monitor.store.overview(question).otherTeams
        #expect(teams.map(\.oldTeamID) == [ScriptedTokenEndpoint.teamID] && teams.map(\.tokens) == [10])
        try monitor.expectADayBetweenAnswers()
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
            try await monitor.settle(monitor.refreshHandler, after: Monitor.settleTime)
            #expect(try await gone() == 0)
        }
        monitor.endpoint.answer(.valid, for: "good")
        try await monitor.signIn("good")
        for _ in 1...3 {
            try await monitor.day()
            try await monitor.settle(monitor.refreshHandler, after: Monitor.settleTime)
        }
        #expect(try await gone() == 3)
    }

    /// An import of invalid tokens among normal answers.
    @Test func tokensThatAreNoneKeepNobodysRejectionFromBeingBelieved() async throws {
        for user in 1...40 {
            try await monitor.signIn("garbage\(user)")
            monitor.endpoint.answer(.rejected, for: "garbage\(user)")
        }
        let askedAt = try await monitor.rejectAnn(among: 120)
        #expect(try await !monitor.isBreakerOpen)
        monitor.clock.set(to: askedAt.advanced(by: Monitor.settleTime))
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
        try await monitor.settle(monitor.refreshHandler, after: Monitor.settleTime)
    }

    /// A new process knows no 200, whatever its predecessor got.
    @Test func aRestartIsProvenAnew() async throws {
        _ = try await monitor.rejectAnn(among: 120)
        monitor.writer.breakers.forgetProofs(of: Set(Monitor.clients))
        try await monitor.settle(monitor.refreshHandler, after: Monitor.settleTime)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(monitor.asked("ann") == 1)
        let due = try #require(try await monitor.due("ann"))
        let asked = try #require(monitor.endpoint.calls.last { $0.credential.userID == "ann" })
        #expect(asked.sentAt.duration(to: due) >= .seconds(86_400), "the daily check")
    }

    @Test(arguments: ["newer grant", "waiting grant", "notification", "200", "recheck"])
    func whatIsKnownBetterTakesItBack(_ what: String) async throws {
        _ = try await monitor.rejectAnn(beside: "bob")
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
            #expect(try await monitor.pending() == 0)
        }
        try await monitor.settle(monitor.refreshHandler, after: .seconds(300))
        let state = what == "notification" ? "revoked consent_revoked" : "authorized granted"
        #expect(try await monitor.state(of: "ann") == state)
        #expect(try await monitor.pending() == (["waiting grant", "recheck"].contains(what) ? 1 : 0))
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_change WHERE source = 'refresh'") == 0)
    }
}
