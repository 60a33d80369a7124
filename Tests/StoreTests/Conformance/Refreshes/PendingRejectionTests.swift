// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct PendingRejectionTests: ConformanceSuite {
    private static let asked = Timestamp.start + .days(2)
    private static let settled = asked + .seconds(1) + .minutes(15)
    /// Apple accepted the tokens at the sign-in, and they ended later.
    private static let ended = Timestamp.start + .milliseconds(1)

    private func rejected(users: String...) async throws {
        for user in users.isEmpty ? ["user"] : users {
            try await store.signIn(user, token: user, isAccepted: true)
            #expect(try await store.reject(user, at: Self.asked) == .refreshed)
        }
    }

    private func row() async throws -> [SQLValue] {
        try await store.rows("SELECT state, reason, changed_at, verified_at, next_check_at FROM credential_state WHERE user_id = 'user'")[0]
    }

    private func pending() async throws -> Int { try await store.ports.apps()[0].pending }

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

    // MARK: The breaker

    @Test func openingClearsAllAndLeavesADayBetweenQuestions() async throws {
        try await rejected(users: "one", "two")
        try await store.signIn("three", token: "three")
        #expect(try await pending() == 2)
        #expect(try await store.reject("three", at: Self.asked, finding: .blamed) == .refreshed)
        #expect(try await store.ports.breakers()["example"]?.causes == [.blamedClient])
        #expect(try await pending() == 0)
        let due = try await store.column("SELECT next_check_at FROM credential_state WHERE user_id <> 'three'")
        #expect(due == Array(repeating: .at(Self.asked + .seconds(1) + .days(1)), count: 2))
        #expect(try await store.admit(at: Self.settled).isEmpty)

        #expect(try await store.reject("two", at: Self.asked + .days(2)) == .held)
        #expect(try await pending() == 0)
        #expect(try await store.reject("one", at: Self.asked + .days(2), finding: .valid) == .refreshed)
        #expect(try await store.ports.breakers()["example"]?.isOpen == false)
    }

    /// The breaker did not stay closed, however short it was open.
    @Test func openingAndClosingInOneBatchBelievesNothing() async throws {
        try await rejected(users: "one", "other")
        try await store.signIn("two", token: "two")
        try await store.signIn("three", token: "three")
        try await store.run("UPDATE credential SET due_at = 0 WHERE user_id IN ('two', 'three')")
        let due = try await store.claimCredentials(upTo: 2, at: Self.settled)
        let rule = AdmissionRule(clientID: "app", keyID: "KEY", answered: .earliest...Self.settled)
        let admissions = try await store.admissions(of: "example", by: rule, at: Self.settled)
        let (blame, good) = (RefreshVerdict.failed(.misconfigured, at: Self.settled), RefreshVerdict.valid(at: Self.settled))
        let batch = try await store.settle([.refresh(due[0], blame), .refresh(due[1], good)] + admissions, at: Self.settled)
        #expect(batch.results.dropFirst(2) == [.postponed, .postponed])
        #expect(try await store.ports.breakers()["example"]?.isOpen == false)
        #expect(try await pending() == 0)
        #expect(try await store.rows("SELECT 1 FROM credential_state WHERE state <> 'authorized'").isEmpty)
    }

    @Test func theBreakerAndTheAnswersAreCommittedTogether() async throws {
        try await store.signIn(token: "r", isAccepted: true)
        let before = try await store.ports.breakers()
        let due = try await store.claimCredentials(at: Self.asked)[0]
        let verdict = RefreshVerdict.rejected(at: Self.asked)
        try await store.door.refuseWrites(to: "pending_since", of: "credential")
        await #expect(throws: StoreError.self) { try await store.settle(.refresh(due, verdict), at: Self.asked) }
        #expect(try await store.ports.breakers() == before)
        #expect(try await pending() == 0)
        try await store.door.allowWrites(to: "credential")
        #expect(try await store.settle(.refresh(due, verdict), at: Self.asked) == .refreshed)
        #expect(try await store.ports.breakers()["example"]?.judged.rejections == 1)
        #expect(try await store.settle(.refresh(due, verdict), at: Self.asked) == .superseded)
        #expect(try await store.ports.breakers()["example"]?.judged.rejections == 1, "an answer counts once")
    }

    @Test func appsHaveBreakersOfTheirOwn() async throws {
        try await rejected()
        try await store.signIn("user", client: "elsewhere", token: "e")
        try await store.signIn("three", token: "three")
        try await store.reject("three", at: Self.asked, finding: .blamed)
        #expect(try await store.ports.breakers().keys.sorted() == ["example"])
        #expect(try await store.ask(.resetBreaker(app: "other")) == .breakerReset(wasOpen: false))
        #expect(try await store.ports.breakers()["example"]?.isOpen == true)
        #expect(try await store.ask(.confirmRejections(app: "other")) == .nothingToConfirm)
        #expect(try await store.ask(.confirmRejections(app: "nobody's")) == .unknownApp(known: ["example", "other"]))
    }

    /// The breaker has dropped the rejections. Apple is asked again, once an hour is over, and believed without another word.
    @Test func whatTheBreakerDroppedIsBelievedOnceAppleRepeatsAConfirmedRejection() async throws {
        try await rejected(users: "gone", "good", "later")
        try await store.signIn("gone", client: "web", token: "web", isAccepted: true)
        let rejection = "UPDATE credential SET answer = 'rejected', answered_at = ?, due_at = ? WHERE client = 2"
        try await store.run(rejection, [.at(Self.asked), .at(Self.asked + .days(1))])
        try await store.signIn("eve", token: "e")
        try await store.reject("eve", at: Self.asked, finding: .blamed)
        func doubted(after last: CredentialID? = nil, upTo limit: Int = 2) async throws -> [String] {
            try await store.ports.doubtedTokens(of: "example", after: last, upTo: limit).map { "\($0.userID) \($0.clientID)" }
        }
        #expect(try await doubted() == ["gone app", "gone web"])
        #expect(try await doubted(after: CredentialID(clientID: "web", userID: "gone")) == ["good app", "later app"])

        let now = Self.asked + .minutes(10)
        let answer = try await store.ask(.confirmRejections(app: "example"), at: now)
        #expect(answer == .rejectionsConfirmed(now: 0, next: 3, wasOpen: true, isPaused: false), "one user has two clients")
        let due = try await store.column("SELECT due_at FROM credential WHERE answer = 'rejected' ORDER BY user_id, client")
        #expect(due == [3601, 3600, 3601, 3601].map { SQLValue.at(Self.asked + .seconds($0)) })

        func admit(at now: Timestamp) async throws -> [Settled] {
            let breaker = try #require(try await store.ports.breakers()["example"])
            let rules = breaker.admissions(with: ClientProofs(), under: BreakerRules(), within: .days(1), at: now)
            #expect(rules.count == 1 && breaker.causes.isEmpty)
            return try await store.admit(rules[0], at: now)
        }
        let again = Self.asked + .hours(2)
        try await store.run("DELETE FROM credential WHERE client = 2")
        #expect(try await store.reject("gone", at: again) == .refreshed)
        #expect(try await admit(at: again) == [.refreshed])
        let gone = try await store.rows("SELECT reason, rejected_at FROM credential WHERE user_id = 'gone'")
        #expect(gone == [["token_rejected", .at(again)]])

        // Apple takes the rejection back. Its next one is not what the operator has confirmed.
        #expect(try await store.reject("good", at: again, finding: .valid) == .refreshed)
        #expect(try await store.reject("good", at: again + .days(1)) == .refreshed)
        #expect(try await admit(at: again + .days(1)).isEmpty)
        #expect(try await doubted(upTo: 9) == ["good app", "later app"])
        // The next one of a user whom nobody has asked about since is.
        #expect(try await store.reject("later", at: again + .days(1)) == .refreshed)
        #expect(try await admit(at: again + .days(1)) == [.refreshed])
    }

    @Test func clientsKnowWhenTheyWereLastAccepted() async throws {
        try await rejected()
        #expect(try await store.ports.clients().map(\.clientID) == ["app", "web", "elsewhere"])
        #expect(try await store.ports.clients().map(\.validAt) == [nil, nil, nil])
        try await store.reject("user", at: Self.asked + .days(2), finding: .valid)
        #expect(try await store.ports.clients()[0].validAt == Self.asked + .days(2))
        #expect(try await store.column("SELECT proved_at FROM client ORDER BY id") == [.at(Self.asked + .days(2)), nil, nil])
        try await store.signIn("new", client: "web", token: "w")
        try await store.reject("new", at: Self.asked + .days(2), finding: .valid)
        #expect(try await store.ports.clients()[1].validAt == Self.asked + .days(2))
        #expect(try await store.column("SELECT proved_at FROM client WHERE client_id = 'web'") == [nil], "a first 200 proves nothing")
        #expect(try await pending() == 0)
    }

    // MARK: Canaries

    @Test func aCanaryIsTakenOnceAnHourAndItsScheduleStays() async throws {
        try await store.signIn(token: "r")
        try await store.signIn(client: "web", token: "w")
        try await store.signIn("other", token: "o")
        let schedule = "SELECT due_at, attempts, claimed_by, answered_at FROM credential ORDER BY user_id, client"
        let before = try await store.rows(schedule)
        func take(at now: Timestamp) async throws -> [DueCredential] {
            try await store.ports.takeCanaries(["user", "nobody"], of: "example", upTo: 9, at: now)
        }
        let taken = try await take(at: .start)
        #expect(Set(taken.map(\.id.clientID)) == ["app", "web"])
        #expect(try await take(at: .start + .hours(1) - .milliseconds(1)).isEmpty)
        #expect(try await take(at: .start - .days(1)).count == 2, "a clock set back stalls nothing")
        #expect(try await store.settle(.refresh(taken[0], .valid(at: Self.asked)), at: Self.asked) == .refreshed)
        #expect(try await store.rows(schedule) == before)
        #expect(try await store.column("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL") == [1])
        #expect(try await store.ports.unknownCanaries(["user", "nobody"], of: "example") == ["nobody"])
    }

    @Test func noCanaryIsTakenOfAClientThatAppleRefuses() async throws {
        try await store.signIn(token: "r")
        try await store.signIn(client: "web", token: "w")
        func take(excluding excluded: Set<String>) async throws -> [String] {
            try await store.ports.takeCanaries(["user"], of: "example", excluding: excluded, upTo: 9, at: .start).map(\.id.clientID)
        }
        #expect(try await take(excluding: ["web"]) == ["app"])
        #expect(try await take(excluding: []) == ["web"], "it was not used up")
    }

    @Test func aCanaryThatIsRejectedAtItsDailyCheckOpensToo() async throws {
        try await store.signIn(token: "r", isAccepted: true)
        #expect(try await store.reject("user", at: Self.asked, canaries: ["user"]) == .held)
        #expect(try await store.ports.breakers()["example"]?.causes == [.canary])
        #expect(try await pending() == 0)
        let user = CredentialID(clientID: "app", userID: "user")
        let next = StoreUnderTest.policy.nextCheck(afterAnswerAt: Self.asked + .seconds(1), of: user)
        #expect(try await store.column("SELECT next_check_at FROM credential_state") == [.at(next)])
    }

    /// The token may be truncated. A truncated canary says nothing about Apple's answers.
    @Test func aTokenOfACanaryThatAppleNeverAcceptedOpensNothing() async throws {
        try await store.signIn(token: "r")
        #expect(try await store.reject("user", at: Self.asked, canaries: ["user"]) == .refreshed)
        #expect(try await store.ports.breakers()["example"]?.isOpen != true)
    }
}
