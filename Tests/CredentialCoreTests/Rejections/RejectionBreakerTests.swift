// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Foundation
import Testing

@Suite struct RejectionBreakerTests {
    private static let rules = BreakerRules()
    private static let start = Timestamp(seconds: 1_700_000_000)

    /// A breaker and a clock. Answers come a second apart, each about another user of one client by default.
    private struct Trial {
        var breaker = RejectionBreaker()
        var rules = RejectionBreakerTests.rules
        var now = RejectionBreakerTests.start
        var users = 0

        @discardableResult
        mutating func answer(
            _ finding: RejectionBreaker.Finding,
            _ user: String? = nil,
            client: String = "app",
            isCanary: Bool = false,
            isCheck: Bool = true,
            rejectedAt: Timestamp? = nil
        ) -> RejectionBreaker.Admission {
            now = now.advanced(by: .seconds(1))
            users += 1
            let credential = CredentialID(clientID: client, userID: user ?? "user\(users)")
            let subject = RejectionBreaker.Subject(credential, isCanary: isCanary, isCheck: isCheck, rejectedAt: rejectedAt)
            return breaker.judge(finding, of: subject, under: rules, at: now)
        }

        mutating func answer(_ finding: RejectionBreaker.Finding, times: Int) { for _ in 0..<times { answer(finding) } }
    }

    @Test(arguments: [
        // valid, rejected, opens
        (0, 20, false), (0, 21, true), (380, 20, false), (379, 21, true), (398, 21, true), (399, 21, false), (479, 21, false),
        (475, 25, false), (474, 26, true), (10_000, 25, false), (10_000, 26, true),
    ])
    func bothLimitsHaveToBeExceeded(valid: Int, rejected: Int, opens: Bool) {
        var trial = Trial()
        trial.answer(.valid, times: valid)
        trial.answer(.rejected, times: rejected)
        #expect(trial.breaker.isOpen == opens)
        #expect(trial.breaker.causes == (opens ? [.disproportion] : []))
    }

    @Test func aSlowDripPasses() {
        var trial = Trial()
        var random = SeededGenerator(seed: 1)
        for answer in 1...200_000 {
            // One user in a hundred leaves.
            let admission = trial.answer(Int.random(in: 0..<100, using: &random) == 0 ? .rejected : .valid)
            #expect(admission == .pending, "answer \(answer)")
        }
    }

    @Test func aBurstOfFifteenPasses() {
        var trial = Trial()
        for round in 1...50 {
            for answer in 1...1000 { trial.answer(answer % 100 == 1 ? .rejected : .valid) }
            for _ in 1...15 { #expect(trial.answer(.rejected) == .pending, "round \(round)") }
            trial.answer(.valid, times: 485)
        }
    }

    @Test func theOldestAnswersAreForgotten() {
        var trial = Trial()
        for _ in 1...20 {
            trial.answer(.rejected, times: 20)
            trial.answer(.valid, times: 480)
            #expect(trial.breaker.judged == (500, 20))
        }
        #expect(!trial.breaker.isOpen)
    }

    // MARK: Closing

    @Test func oneLucky200DoesNotClose() {
        var trial = opened()
        for _ in 1...49 { #expect(trial.answer(.valid) == .held) }
        #expect(trial.breaker.isOpen)
        #expect(trial.breaker.probed == (49, 0))
    }

    /// 50 probes, and 5 % of them: two.
    @Test(arguments: [(0, 50), (1, 50), (2, 50)]) func normalAnswersClose(rejected: Int, probes: Int) {
        var trial = opened()
        trial.answer(.rejected, times: rejected)
        trial.answer(.valid, times: probes - rejected - 1)
        #expect(trial.breaker.isOpen)
        #expect(trial.answer(.valid) == .pending)
        #expect(!trial.breaker.isOpen)
    }

    @Test func tooManyRejectedProbesKeepItOpenUntilTheyAreLongAgo() {
        var trial = opened()
        trial.answer(.rejected, times: 3)
        trial.answer(.valid, times: 47)
        #expect(trial.breaker.isOpen, "3 of 50")
        trial.answer(.valid)
        #expect(!trial.breaker.isOpen, "2 of the last 50")
    }

    @Test func massRejectionKeepsItOpen() {
        var trial = opened()
        var random = SeededGenerator(seed: 2)
        for _ in 1...2880 { #expect(trial.answer(Int.random(in: 0..<10, using: &random) < 3 ? .rejected : .valid) == .held) }
    }

    @Test func aUserWhoHasReallyLeftDoesNotKeepItOpen() {
        var trial = opened()
        trial.answer(.rejected)
        trial.answer(.valid, times: 49)
        #expect(!trial.breaker.isOpen)
        trial.answer(.rejected, times: 15)
        #expect(!trial.breaker.isOpen, "a burst right after passes")
    }

    // MARK: Canaries and blame

    @Test(arguments: [true, false]) func aRejectedCanaryOpensUntilItIsAcceptedAgain(isCheck: Bool) {
        var trial = Trial()
        trial.answer(.valid, times: 1000)
        #expect(trial.answer(.rejected, "good", isCanary: true, isCheck: isCheck) == .held)
        #expect(trial.breaker.causes == [.canary])
        trial.answer(.valid, times: 1000)
        #expect(trial.answer(.rejected) == .held, "others prove nothing for the canary")
        trial.answer(.valid, "good", client: "web", isCanary: true)
        #expect(trial.breaker.isOpen, "at another client")
        trial.answer(.valid, "good", isCanary: true)
        #expect(!trial.breaker.isOpen)
    }

    @Test func canariesAskedOutOfTurnSayNothingOfProportions() {
        var trial = Trial()
        for _ in 1...1000 { trial.answer(.valid, "good", isCanary: true, isCheck: false) }
        #expect(trial.breaker.judged == (0, 0))
    }

    @Test func aBlamedClientOpensUntilItGetsA200() {
        var trial = Trial()
        #expect(trial.answer(.blamed, client: "web") == .held)
        trial.answer(.blamed, client: "app")
        #expect(trial.breaker.causes == [.blamedClient])
        let openedAt = trial.breaker.openedAt
        trial.answer(.valid, client: "app")
        #expect(trial.breaker.blamedClients == ["web"])
        #expect(trial.answer(.rejected, client: "web") == .held, "a rejection proves no client")
        #expect(trial.breaker.openedAt == openedAt)
        trial.answer(.valid, client: "web")
        #expect(!trial.breaker.isOpen)
    }

    /// The key and the team, which all clients share, are good for a client that Apple accepts meanwhile.
    @Test func aBlamedClientHoldsTheRejectionsOfOthersUntilTheirOwn200() {
        var trial = Trial()
        trial.answer(.valid, client: "app")
        trial.answer(.blamed, client: "web")
        #expect(trial.answer(.rejected, client: "app") == .held, "its 200 was before")
        trial.answer(.valid, client: "app")
        #expect(trial.answer(.rejected, client: "app") == .pending)
        #expect(trial.answer(.rejected, client: "web") == .held && trial.answer(.rejected, client: "watch") == .held)
        trial.answer(.blamed, client: "web")
        #expect(trial.answer(.rejected, client: "app") == .pending, "the same blame again")

        let before = trial.breaker
        trial.answer(.blamed, client: "watch")
        #expect(trial.breaker.holdsMore(than: before), "what waits is taken back")
        #expect(trial.answer(.rejected, client: "app") == .held, "a new blame")
        trial.answer(.valid, client: "app")
        #expect(!trial.breaker.holdsMore(than: before) && !before.holdsMore(than: before))
        trial.answer(.blamed, client: "app")
        #expect(trial.answer(.rejected, client: "app") == .held)
    }

    /// The cause that a client was cleared of does not open the breaker next.
    @Test func aCanaryHoldsAllClients() {
        var trial = Trial()
        trial.answer(.blamed, client: "web")
        trial.answer(.valid, client: "app")
        let before = trial.breaker
        trial.answer(.rejected, "good", client: "app", isCanary: true)
        #expect(trial.breaker.holdsMore(than: before))
        #expect(trial.answer(.rejected, client: "app") == .held)
    }

    @Test func itClosesWithTheLastOfItsCauses() {
        var trial = opened()
        trial.answer(.blamed, client: "web")
        trial.answer(.rejected, "good", isCanary: true, isCheck: false)
        #expect(trial.breaker.causes == [.disproportion, .canary, .blamedClient])
        trial.answer(.valid, client: "web")
        trial.answer(.valid, times: 48)
        #expect(trial.breaker.isOpen)
        trial.answer(.valid)
        #expect(trial.breaker.causes == [.canary])
        trial.answer(.valid, "good", isCanary: true)
        #expect(!trial.breaker.isOpen)
    }

    @Test func whoLeftTheConfigurationKeepsNothingOpen() {
        var trial = Trial()
        trial.answer(.blamed, client: "web")
        trial.answer(.rejected, "good", isCanary: true)
        trial.breaker.keep(canaries: ["good"], clients: ["app"], at: trial.now)
        #expect(trial.breaker.causes == [.canary])
        trial.breaker.keep(canaries: ["another"], clients: ["app"], at: trial.now)
        #expect(!trial.breaker.isOpen)
    }

    // MARK: What operators say

    /// An operator who confirms three rejections of a small client has not confirmed a later day on which Apple rejects all tokens.
    @Test func aConfirmationWhileClosedGoesOnWatching() {
        var trial = Trial()
        trial.answer(.valid, times: 300)
        trial.breaker.confirm(at: trial.now, within: .seconds(86_400) * 1.05)
        trial.answer(.rejected, times: 60)
        #expect(trial.breaker.isOpen)
    }

    /// Dead tokens that are due together open the breaker, and normal answers close it. An operator's later confirmation still counts.
    @Test func whatItClosedAfterByItselfCanBeConfirmed() {
        var trial = opened()
        trial.answer(.valid, times: 100)
        #expect(!trial.breaker.isOpen && trial.breaker.hasRecentEpisode(at: trial.now))
        trial.breaker.confirm(at: trial.now, within: .seconds(86_400) * 1.05)
        trial.answer(.rejected, times: 100)
        #expect(!trial.breaker.isOpen)
        #expect(!trial.breaker.hasRecentEpisode(at: trial.now.advanced(by: BreakerRules.episodeMemory)))
        // Meanwhile others wait to be believed, and the operator confirms these too.
        trial.breaker.confirm(at: trial.now, within: .seconds(86_400) * 1.05)
        trial.answer(.rejected, times: 100)
        #expect(!trial.breaker.isOpen && trial.breaker.isMuted(at: trial.now))
    }

    @Test func whatCannotBeReadIsOpenUntilAnswersAreNormal() {
        var trial = Trial()
        trial.breaker = .distrustful(since: trial.now)
        #expect(trial.breaker.isOpen && trial.breaker.causes == [.disproportion])
        trial.answer(.valid, times: 49)
        #expect(trial.breaker.isOpen)
        trial.answer(.valid, times: 1)
        #expect(!trial.breaker.isOpen)
    }

    @Test func aBlamedClientWithoutTokensIsForgotten() {
        var trial = Trial()
        trial.answer(.blamed)
        #expect(trial.breaker.isOpen)
        for client in trial.breaker.blamedClients { trial.breaker.forget(client: client, at: trial.now) }
        #expect(!trial.breaker.isOpen)
    }

    @Test func aConfirmationHoldsForAnInterval() {
        var trial = opened()
        trial.answer(.blamed, client: "web")
        trial.breaker.confirm(at: trial.now, within: .seconds(86_400) * 1.05)
        #expect(!trial.breaker.isOpen)
        let confirmedAt = trial.now
        trial.now = confirmedAt.advanced(by: .seconds(86_400))
        trial.answer(.rejected, times: 1000)
        #expect(!trial.breaker.isOpen)
        #expect(trial.answer(.rejected, "good", isCanary: true) == .held, "a canary does")
        trial.answer(.valid, "good", isCanary: true)
        trial.now = confirmedAt.advanced(by: .seconds(86_400) * 1.05)
        trial.answer(.rejected, times: 20)
        #expect(!trial.breaker.isOpen, "what came meanwhile is forgotten")
        trial.answer(.rejected)
        #expect(trial.breaker.isOpen)
    }

    @Test func aConfirmationFromTheFutureConfirmsNothing() {
        var trial = Trial()
        trial.breaker.confirm(at: trial.now.advanced(by: .seconds(3600)), within: .seconds(86_400) * 1.05)
        #expect(trial.breaker.admissions(with: ClientProofs(), under: Self.rules, within: .seconds(86_400), at: trial.now).isEmpty)
        trial.answer(.rejected, times: 21)
        #expect(trial.breaker.isOpen)
        #expect(trial.breaker.confirmedAt == nil)
    }

    @Test func aRepetitionOfAConfirmedRejectionIsBelievedAndCountsOnce() {
        var trial = Trial()
        let confirmedAt = trial.now
        trial.breaker.confirm(at: confirmedAt, within: .seconds(86_400) * 1.05)
        for _ in 1...40 { #expect(trial.answer(.rejected, rejectedAt: confirmedAt) == .confirmed(at: confirmedAt)) }
        #expect(trial.breaker.judged.answers == 0)
        #expect(trial.answer(.rejected) == .pending, "Apple says so for the first time")
        #expect(trial.answer(.rejected, rejectedAt: confirmedAt.advanced(by: .milliseconds(1))) == .pending, "the operator did not know")
        trial.answer(.blamed, "eve")
        #expect(trial.answer(.rejected, rejectedAt: confirmedAt) == .held)
        trial.breaker = RejectionBreaker()
        #expect(trial.answer(.rejected, rejectedAt: confirmedAt) == .pending)
    }

    // MARK: Across restarts

    @Test(arguments: [0, 10, 30, 40, 70]) func itIsTheSameAfterARoundTrip(answers: Int) throws {
        var trial = Trial()
        for answer in 0..<answers { trial.answer(answer % 2 == 0 ? .rejected : .valid) }
        trial.answer(.blamed, client: "web")
        trial.answer(.rejected, "good", isCanary: true, isCheck: false)
        var copy = trial
        copy.breaker = try JSONDecoder().decode(RejectionBreaker.self, from: JSONEncoder().encode(trial.breaker))
        #expect(copy.breaker == trial.breaker)
        for answer in 0..<200 {
            #expect(trial.answer(answer % 30 == 0 ? .rejected : .valid) == copy.answer(answer % 30 == 0 ? .rejected : .valid))
            #expect(copy.breaker == trial.breaker)
        }
    }

    @Test func aSmallerWindowIsTakenOver() {
        var trial = Trial()
        trial.answer(.rejected, times: 20)
        trial.answer(.valid, times: 480)
        trial.rules = BreakerRules(window: 100)
        trial.answer(.valid)
        #expect(trial.breaker.judged == (100, 0))
    }

    private func opened() -> Trial {
        var trial = Trial()
        trial.answer(.rejected, times: 21)
        return trial
    }
}
