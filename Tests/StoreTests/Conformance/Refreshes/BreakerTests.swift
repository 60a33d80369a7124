// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct BreakerTests: RejectionSuite {
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
        #expect(try await store.ask(.resetBreaker(app: "example")) == .breakerReset(wasOpen: true))
        #expect(try await store.ports.breakers()["example", default: RejectionBreaker()] == RejectionBreaker(), "it forgets all")
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
        // Nobody has asked Apple about this user since, so the next rejection is the confirmed one.
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
