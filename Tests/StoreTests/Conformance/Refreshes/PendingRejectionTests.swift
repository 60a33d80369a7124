// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct PendingRejectionTests: RejectionSuite {
    /// Apple accepted the tokens at the sign-in, and they ended later.
    private static let ended = Timestamp.start + .milliseconds(1)

    private func row() async throws -> [SQLValue] {
        try await store.rows("SELECT state, reason, changed_at, verified_at, next_check_at FROM credential_state WHERE user_id = 'user'")[0]
    }

    @Test func itIsDueAfterTheSettleTimeAndBelievedAsOfApplesLast200() async throws {
        try await rejected()
        #expect(try await row() == ["authorized", "granted", .at(.start), .at(.start), .at(Self.settled)])
        #expect(try await store.admit(at: Self.settled - .milliseconds(1)).isEmpty)
        #expect(try await store.admit(at: Self.settled) == [.refreshed])
        #expect(try await row() == ["revoked", "token_rejected", .at(Self.ended), .at(.start), nil])
        #expect(try await store.column("SELECT rejected_at FROM credential") == [.at(Self.asked)])
        #expect(try await pending() == 0)
    }

    @Test func otherClientsKeysAndTimesAdmitNothing() async throws {
        try await rejected()
        let late = Self.settled + .days(300)
        for rule in [
            AdmissionRule(clientID: "web", keyID: "KEY", answered: .earliest...late),
            AdmissionRule(clientID: "app", keyID: "OTHER", answered: .earliest...late),
            AdmissionRule(clientID: "elsewhere", answered: .earliest...late),
            AdmissionRule(answered: .earliest...Self.asked),
            AdmissionRule(answered: (Self.asked + .seconds(2))...late),
            AdmissionRule(answered: .earliest...late, repeatedAfter: .milliseconds(1)),
        ] {
            #expect(try await store.admit(rule, at: late).isEmpty)
        }
        #expect(try await store.admit(AdmissionRule(answered: .earliest...late), at: late) == [.refreshed])
    }

    /// I4: a rejection that siwatch cannot believe is no reason to ask early.
    @Test func nobodyIsAskedBeforeTheDailyCheck() async throws {
        try await rejected()
        #expect(try await store.claimCredentials(at: Self.settled).isEmpty)
        let check = Self.asked + .seconds(1) + StoreUnderTest.policy.repetition
        #expect(try await row()[4] == .at(check))
        #expect(try await store.claimCredentials(at: check - .milliseconds(1)).isEmpty)
        #expect(try await store.claimCredentials(at: check).map(\.purpose) == [.check])
    }

    /// I4 and I6: the process that claimed it for a verdict is gone.
    @Test func aClaimThatNobodySettlesAsksNobody() async throws {
        try await rejected()
        let rule = AdmissionRule(clientID: "app", keyID: "KEY", answered: .earliest...(Self.asked + .days(9)))
        func claim(at now: Timestamp) async throws -> Int { try await store.admissions(of: "example", by: rule, at: now).count }
        #expect(try await claim(at: Self.settled) == 1)
        #expect(try await claim(at: Self.settled) == 0)
        let end = Self.settled + StoreUnderTest.policy.lease(attempts: 0)
        #expect(try await store.claimCredentials(at: end).isEmpty)
        #expect(try await claim(at: end) == 1)
    }

    private func repeated(at now: Timestamp, for time: Duration = .seconds(86_400)) -> AdmissionRule {
        AdmissionRule(clientID: "app", keyID: "KEY", answered: .earliest...(now - .minutes(15)), repeatedAfter: time)
    }

    @Test func aRepeatedRejectionWaitsAgainAndCountsSinceTheFirst() async throws {
        try await rejected()
        try await store.signIn("other", token: "other", isAccepted: true)
        try await store.reject("other", at: Self.asked + .hours(12), finding: .valid)
        let again = Self.asked + .hours(36)
        #expect(try await store.reject("user", at: again) == .refreshed)
        let settled = again + .seconds(1) + .minutes(15)
        #expect(try await row()[4] == .at(settled))
        #expect(try await pending() == 1)
        #expect(try await store.ports.breakers()["example"]?.judged.rejections == 1, "it counts once")
        #expect(try await store.admit(repeated(at: settled - .milliseconds(1)), at: settled - .milliseconds(1)).isEmpty)
        #expect(try await store.admit(repeated(at: settled, for: .hours(36) + .milliseconds(1)), at: settled).isEmpty)
        #expect(try await store.admit(repeated(at: settled), at: settled) == [.refreshed])
        #expect(try await store.column("SELECT rejected_at FROM credential WHERE user_id = 'user'") == [.at(Self.asked)])
    }

    /// The host's clock leapt over the interval, and Apple's did not.
    @Test func aLeapOfTheClockIsNoRepetition() async throws {
        try await rejected()
        try await store.signIn("other", token: "other", isAccepted: true)
        try await store.reject("other", at: Self.asked + .hours(12), finding: .valid)
        let leapt = Self.asked + .hours(36)
        #expect(try await store.reject("user", at: leapt, dated: Self.asked + .minutes(1)) == .refreshed)
        let settled = leapt + .seconds(1) + .minutes(15)
        #expect(try await store.admit(repeated(at: settled), at: settled).isEmpty)
    }

    /// One rejection is not enough for a token that Apple never accepted. It ends the asking only.
    @Test func oneThatWasNeverAcceptedHasToBeRepeated() async throws {
        try await store.signIn(token: "r")
        try await store.reject("user", at: Self.asked)
        let normal = AdmissionRule(clientID: "app", keyID: "KEY", answered: .earliest...Self.settled, onlyAccepted: true)
        #expect(try await store.admit(normal, at: Self.settled).isEmpty)
        try await store.accept()
        #expect(try await store.admit(normal, at: Self.settled) == [.refreshed])
    }

    /// A day on which Apple accepted no token may have been one incident. A 200 at the time of the first rejection proves nothing, either.
    @Test(arguments: [nil, StoreUnderTest.policy.timeout, .days(3)])
    func aRepetitionWithoutA200InBetweenBeginsAnew(validAfter: Duration?) async throws {
        try await rejected()
        if let validAfter {
            try await store.signIn("other", token: "other", isAccepted: true)
            try await store.reject("other", at: Self.asked + validAfter, finding: .valid)
        }
        let again = Self.asked + .days(2)
        #expect(try await store.reject("user", at: again) == .refreshed)
        #expect(try await pending() == 1)
        #expect(try await store.ports.breakers()["example"]?.judged.rejections == 2, "it counts like a first one")
        let settled = again + .seconds(1) + .minutes(15)
        #expect(try await store.admit(repeated(at: settled), at: settled).isEmpty)
        #expect(try await store.admit(at: settled) == [.refreshed])
        #expect(try await store.column("SELECT rejected_at FROM credential WHERE user_id = 'user'") == [.at(again)])
    }

    /// For example a rejection that may be our mistake: it is Apple's later answer.
    @Test func anyOtherAnswerTakesItBack() async throws {
        try await rejected()
        try await store.run("UPDATE credential SET due_at = 0")
        #expect(try await store.refresh(nil, at: Self.asked + .days(2)) == .refreshed)
        #expect(try await pending() == 0)
        #expect(try await store.admit(at: Self.asked + .days(3)).isEmpty)
    }

    /// A clock that was a year ahead must not make a rejection wait for a year.
    @Test func oneFromTheFutureIsReplaced() async throws {
        try await rejected()
        let real = Self.asked - .days(1)
        #expect(try await store.reject("user", at: real) == .refreshed)
        #expect(try await store.admit(at: real + .minutes(16)) == [.refreshed])
        #expect(try await store.column("SELECT rejected_at FROM credential") == [.at(real)])
    }

    /// Otherwise the wait would end at once each time, and siwatch would ask Apple every quarter of an hour.
    @Test func anEarlierAnswerFromTheFutureDoesNotShortenTheWait() async throws {
        try await store.signIn(token: "r")
        try await store.run("UPDATE credential SET answered_at = \((Self.asked + .hours(2)).milliseconds), due_at = 0")
        try await store.reject("user", at: Self.asked)
        #expect(try await store.claimCredentials(at: Self.settled).isEmpty)
        #expect(try await row()[4] == .at(Self.asked + .seconds(1) + StoreUnderTest.policy.repetition))
    }

    /// If a timer runs siwatch once a day, it never sees a settle time pass.
    @Test func oneThatIsRepeatedTwiceWaitsNoLonger() async throws {
        try await rejected()
        try await store.signIn("other", token: "other", isAccepted: true)
        for day in 1...2 {
            let now = Self.asked + .hours(36 * day)
            try await store.reject("other", at: now - .hours(1), finding: .valid)
            try await store.reject("user", at: now)
            #expect(try await store.admit(repeated(at: now + .seconds(1)), at: now + .seconds(1)) == (day == 2 ? [.refreshed] : []))
        }
        #expect(try await store.column("SELECT rejected_at FROM credential WHERE user_id = 'user'") == [.at(Self.asked)])
    }

    /// A sign-in that goes on has no missed notification.
    @Test func theEndOfATokenThatIsOlderThanTheSignInIsNoRevocation() async throws {
        try await rejected()
        try await store.signIn(at: Self.asked - .minutes(1))
        #expect(try await store.admit(at: Self.settled) == [.refreshed])
        #expect(try await row()[0] == "authorized")
        #expect(try await store.column("SELECT COUNT(*) FROM admitted_rejection") == [0])
        #expect(try await store.claimCredentials(at: Self.settled + .days(9)).isEmpty)
    }

    @Test func anotherKeyBeginsAnew() async throws {
        try await rejected()
        let again = Self.asked + .days(2)
        try await store.reject("user", at: again, keyID: "NEW")
        let rule = AdmissionRule(clientID: "app", keyID: "NEW", answered: .earliest...again)
        #expect(try await store.admit(rule, at: again).isEmpty)
        #expect(try await pending() == 1)
    }

    @Test func aSignInThatWaitsKeepsItFromBeingBelieved() async throws {
        try await rejected()
        try await store.grant(token: "new", at: Self.asked + .minutes(1))
        #expect(try await store.admit(at: Self.settled).isEmpty)
        _ = try await store.settleGrants(at: Self.settled)
        #expect(try await row()[0] == "authorized")
        #expect(try await pending() == 0)
        #expect(try await store.admit(at: Self.settled + .days(1)).isEmpty)
    }

    @Test func aPausedAppBelievesNothing() async throws {
        try await rejected()
        _ = try await store.ask(.pause(app: "example"), at: Self.asked)
        #expect(try await store.admit(at: Self.settled).isEmpty)
        _ = try await store.ask(.resume(app: "example"), at: Self.settled)
        #expect(try await store.admit(at: Self.settled) == [.refreshed])
    }
}
