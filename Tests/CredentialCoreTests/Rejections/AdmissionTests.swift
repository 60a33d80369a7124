// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite struct AdmissionTests {
    private static let key = ClientIdentity(clientID: "app", keyID: "KEY1")
    private static let interval = Duration.seconds(86_400)

    /// Answers of Apple about one client, and the rejections that siwatch believes.
    private struct Trial {
        var proofs = ClientProofs()
        var now = Timestamp(seconds: 1_700_000_000)
        var breaker = RejectionBreaker()
        var rules = BreakerRules()
        var pace = Duration.seconds(5)

        mutating func answer(_ count: Int = 1, isValid: Bool = true, by identity: ClientIdentity = AdmissionTests.key) {
            for _ in 0..<count {
                now = now.advanced(by: pace)
                proofs.record(isValid: isValid, by: identity, at: now, settle: rules.settle)
            }
        }

        mutating func reject(_ count: Int = 1) -> Timestamp {
            answer(count, isValid: false)
            return now
        }

        /// Whether none of these rejections is believed while so many good answers come.
        mutating func doubts(_ rejections: Timestamp..., during answers: Int = 500) -> Bool {
            (0..<answers).allSatisfy { _ in
                answer()
                return !rejections.contains { isBelieved($0) }
            }
        }

        var admissions: [AdmissionRule] { breaker.admissions(with: proofs, under: rules, within: AdmissionTests.interval, at: now) }

        func isBelieved(_ answered: Timestamp, keyID: String = "KEY1", client: String = "app") -> Bool {
            admissions.contains {
                $0.repeatedAfter == nil && $0.answered.contains(answered) && $0.keyID ?? keyID == keyID && $0.clientID ?? client == client
            }
        }
    }

    /// 50 answers and more on each side, all within the settle time.
    private func amongNormalOnes() -> (Trial, rejectedAt: Timestamp) {
        var trial = Trial()
        trial.answer(100)
        let rejectedAt = trial.reject()
        trial.answer(100)
        return (trial, rejectedAt)
    }

    @Test func oneAmongNormalAnswersIsBelievedAfterTheSettleTime() {
        var (trial, rejectedAt) = amongNormalOnes()
        trial.now = rejectedAt.advanced(by: .seconds(899))
        #expect(!trial.isBelieved(rejectedAt))
        trial.now = rejectedAt.advanced(by: .seconds(900))
        #expect(trial.isBelieved(rejectedAt))
        #expect(!trial.isBelieved(rejectedAt, keyID: "KEY2"), "another key")
        #expect(!trial.isBelieved(rejectedAt, client: "web"), "another client")
        trial.breaker.judge(.blamed, of: .init(CredentialID(clientID: "app", userID: "eve")), under: trial.rules, at: trial.now)
        #expect(trial.admissions.isEmpty, "the breaker is open")
    }

    @Test func a200OlderThanAnIntervalProvesNothing() {
        var (trial, rejectedAt) = amongNormalOnes()
        let last = trial.now
        trial.now = last.advanced(by: Self.interval)
        #expect(trial.isBelieved(rejectedAt))
        trial.now = last.advanced(by: Self.interval + .milliseconds(1))
        #expect(trial.admissions.isEmpty)
        trial.now = last.advanced(by: .milliseconds(-1))
        #expect(trial.admissions.isEmpty, "the 200 is from a clock that has since been set back")
    }

    @Test func answersOutOfTurnProveTheClientAndNothingElse() {
        var trial = Trial()
        let rejectedAt = trial.reject()
        trial.proofs.recordValid(by: Self.key, isProof: true, at: trial.now)
        trial.now = trial.now.advanced(by: .seconds(900))
        let found = trial.admissions
        #expect(found == [AdmissionRule(clientID: "app", keyID: "KEY1", answered: .earliest...rejectedAt, repeatedAfter: Self.interval)])
    }

    /// While Apple rejects all older tokens, it exchanges codes, and accepts tokens that it has issued since.
    @Test func neitherACodeNorTheFirst200OfANewTokenProvesAnything() {
        var trial = Trial()
        let rejectedAt = trial.reject()
        trial.now = trial.now.advanced(by: .seconds(900))
        trial.proofs.recordValid(by: Self.key, isProof: false, at: trial.now)
        #expect(trial.admissions.isEmpty)
        #expect(!trial.proofs.isProven(clientID: "app", keyID: "KEY1", at: trial.now, within: Self.interval))
        #expect(trial.proofs.acceptedClients(at: trial.now, within: Self.interval) == ["app"], "the key works")
        trial.proofs.recordValid(by: Self.key, isProof: true, at: trial.now)
        #expect(trial.admissions.map(\.answered.upperBound) == [rejectedAt])
    }

    /// With any timing of the incident: siwatch asked about no other token meanwhile, so it knows nothing.
    @Test(arguments: [1, 2, 5, 15, 25]) func anIncidentInASmallAppIsNeverBelieved(rejections: Int) {
        var trial = Trial()
        // 2,400 users.
        trial.pace = .seconds(36)
        trial.answer(500)
        let (first, last) = (trial.now.advanced(by: .seconds(36)), trial.reject(rejections))
        #expect(trial.doubts(first, last) == true)
    }

    /// Too few to open the breaker, and more than one in twenty of the answers around them.
    @Test(arguments: 3...25) func aBurstIsNotBelieved(rejections: Int) {
        var trial = Trial()
        trial.answer(500)
        let (first, last) = (trial.now.advanced(by: .seconds(5)), trial.reject(rejections))
        #expect(trial.doubts(first, last) == true)
    }

    /// One user in a hundred leaves. Only rejections that happen to come close together wait for a day.
    @Test func mostOfASlowDripIsBelieved() {
        var trial = Trial()
        trial.answer(100)
        var rejections: [Timestamp] = []
        var believed: Set<Timestamp> = []
        for _ in 0..<100 {
            rejections.append(trial.reject())
            for _ in 0..<99 {
                trial.answer()
                believed.formUnion(rejections.suffix(5).filter { trial.isBelieved($0) })
            }
        }
        #expect(believed.count >= 97, "the last had no time yet")
    }

    /// Good answers just before an incident have rejections after them, and its last rejections have good answers after them.
    @Test func neitherEdgeOfAnIncidentIsBelieved() {
        var trial = Trial()
        trial.answer(200)
        let before = trial.reject()
        trial.answer(20)
        let (first, last) = (trial.now.advanced(by: .seconds(5)), trial.reject(20))
        trial.answer(20)
        let after = trial.reject()
        #expect(trial.doubts(before, first, last, after) == true)
    }

    @Test func aPauseInTheAnswersIsNoNormalTime() {
        var trial = Trial()
        trial.answer(100)
        let rejectedAt = trial.reject()
        trial.now = trial.now.advanced(by: .seconds(900))
        #expect(trial.doubts(rejectedAt, during: 200) == true)
    }

    @Test func anotherLoadOrKeyBeginsAnew() {
        let new = ClientIdentity(clientID: "app", keyID: "KEY2", load: 1)
        var (trial, rejectedAt) = amongNormalOnes()
        trial.answer(100)
        trial.answer(1, by: new)
        // An answer that was in flight.
        trial.answer(1, by: Self.key)
        #expect(!trial.isBelieved(rejectedAt))
        trial.answer(100, by: new)
        #expect(!trial.isBelieved(rejectedAt), "asked with the old key")
        #expect(Set(trial.admissions.map(\.keyID)) == ["KEY2"])
        trial.proofs.forget(clients: ["app"])
        #expect(trial.admissions.isEmpty)
    }

    @Test func clientsAreJudgedEachForItself() {
        var (trial, _) = amongNormalOnes()
        let web = ClientIdentity(clientID: "web", keyID: "KEY1")
        trial.answer(10, by: web)
        trial.answer(1, isValid: false, by: web)
        let rejectedAt = trial.now
        trial.answer(10, by: web)
        trial.answer(100)
        trial.now = rejectedAt.advanced(by: .seconds(900))
        #expect(!trial.isBelieved(rejectedAt, client: "web"), "the app's answers say nothing of another client")
    }

    @Test func anOperatorsWordIsNotAboutWhatComesAfterIt() {
        var trial = Trial()
        for number in 0..<21 {
            let subject = RejectionBreaker.Subject(CredentialID(clientID: "app", userID: "user\(number)"))
            trial.breaker.judge(.rejected, of: subject, under: trial.rules, at: trial.now)
        }
        #expect(trial.breaker.isOpen)
        trial.breaker.confirm(at: trial.now, within: .seconds(86_400) * 1.05)
        trial.answer()
        let rejectedAt = trial.reject(100)
        trial.now = rejectedAt.advanced(by: .seconds(900))
        #expect(!trial.isBelieved(rejectedAt))
    }

    /// An operator may let rejections wait for a day, or allow many. An incident of an hour still counts as one.
    @Test func longWaitsAndLaxBreakersDoNotMakeMoreNormal() {
        var trial = Trial()
        trial.rules = BreakerRules(maxRejectedPercent: 50, settle: .seconds(86_400))
        // 240 users. siwatch asks about two of them in twelve minutes.
        trial.pace = .seconds(360)
        trial.answer(100)
        let rejectedAt = trial.reject(2)
        #expect(trial.doubts(rejectedAt, during: 300) == true)
        trial.pace = .seconds(5)
        trial.answer(100)
        let last = trial.reject(3)
        trial.answer(100)
        trial.now = last.advanced(by: .seconds(86_400))
        trial.proofs.recordValid(by: Self.key, isProof: true, at: trial.now)
        #expect(!trial.isBelieved(last))
    }

    /// After a step back of the clock, the same hours come again. They were normal once and need not be again.
    @Test func aClockThatIsSetBackBeginsAnew() {
        var (trial, _) = amongNormalOnes()
        trial.now = trial.now.advanced(by: .seconds(-3600))
        trial.answer(10)
        let rejectedAt = trial.reject()
        trial.answer(80)
        let later = trial.reject()
        trial.answer(100)
        trial.now = later.advanced(by: .seconds(900))
        #expect(!trial.isBelieved(rejectedAt))
        #expect(trial.isBelieved(later))
    }

    /// What a clock said before it was set back is forgotten at the next look, not only hidden until that time comes again.
    @Test func a200ThatIsLaterThanNowIsForgotten() {
        var trial = Trial()
        trial.answer(3)
        let provedAt = trial.now
        func isProven(after time: Timestamp) -> Bool {
            trial.proofs.isProven(clientID: "app", keyID: "KEY1", after: time, at: trial.now, within: Self.interval)
        }
        trial.proofs.forget(after: provedAt.advanced(by: .seconds(-60)))
        #expect(isProven(after: provedAt.advanced(by: .seconds(-1))), "answers may come in any order")
        trial.proofs.forget(after: provedAt.advanced(by: .hours(-1)))
        #expect(!isProven(after: .earliest))
        #expect(trial.proofs.acceptedClients(at: trial.now, within: Self.interval).isEmpty)
    }

    @Test func nobodyWaitsLongerThanAnInterval() {
        #expect(BreakerRules(settle: .seconds(200_000)).settle == Self.interval)
    }
}
