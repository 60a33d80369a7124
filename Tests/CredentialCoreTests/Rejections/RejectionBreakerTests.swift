// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Foundation
import Testing

@Suite struct RejectionBreakerTests {
    @Test(arguments: [
        // valid, rejected, opens
        (0, 20, false), (0, 21, true), (380, 20, false), (379, 21, true), (398, 21, true), (399, 21, false), (479, 21, false),
        (475, 25, false), (474, 26, true), (10_000, 25, false), (10_000, 26, true),
    ])
    func bothLimitsHaveToBeExceeded(valid: Int, rejected: Int, opens: Bool) {
        var trial = BreakerTrial()
        trial.answer(.valid, times: valid)
        trial.answer(.rejected, times: rejected)
        #expect(trial.breaker.isOpen == opens)
        #expect(trial.breaker.causes == (opens ? [.disproportion] : []))
    }

    @Test func aSlowDripPasses() {
        var trial = BreakerTrial()
        var random = SeededGenerator(seed: 1)
        for answer in 1...200_000 {
            // One user in a hundred leaves.
            let admission = trial.answer(Int.random(in: 0..<100, using: &random) == 0 ? .rejected : .valid)
            #expect(admission == .pending, "answer \(answer)")
        }
    }

    @Test func aBurstOfFifteenPasses() {
        var trial = BreakerTrial()
        for round in 1...50 {
            for answer in 1...1000 { trial.answer(answer % 100 == 1 ? .rejected : .valid) }
            for _ in 1...15 { #expect(trial.answer(.rejected) == .pending, "round \(round)") }
            trial.answer(.valid, times: 485)
        }
    }

    @Test func theOldestAnswersAreForgotten() {
        var trial = BreakerTrial()
        for _ in 1...20 {
            trial.answer(.rejected, times: 20)
            trial.answer(.valid, times: 480)
            #expect(trial.breaker.judged == (500, 20))
        }
        #expect(!trial.breaker.isOpen)
    }

    // MARK: Closing

    @Test func oneLucky200DoesNotClose() {
        var trial = BreakerTrial.opened()
        for _ in 1...49 { #expect(trial.answer(.valid) == .held) }
        #expect(trial.breaker.isOpen)
        #expect(trial.breaker.probed == (49, 0))
    }

    /// 50 probes, and 5 % of them: two.
    @Test(arguments: [(0, 50), (1, 50), (2, 50)]) func normalAnswersClose(rejected: Int, probes: Int) {
        var trial = BreakerTrial.opened()
        trial.answer(.rejected, times: rejected)
        trial.answer(.valid, times: probes - rejected - 1)
        #expect(trial.breaker.isOpen)
        #expect(trial.answer(.valid) == .pending)
        #expect(!trial.breaker.isOpen)
    }

    @Test func tooManyRejectedProbesKeepItOpenUntilTheyAreLongAgo() {
        var trial = BreakerTrial.opened()
        trial.answer(.rejected, times: 3)
        trial.answer(.valid, times: 47)
        #expect(trial.breaker.isOpen, "3 of 50")
        trial.answer(.valid)
        #expect(!trial.breaker.isOpen, "2 of the last 50")
    }

    @Test func massRejectionKeepsItOpen() {
        var trial = BreakerTrial.opened()
        var random = SeededGenerator(seed: 2)
        for _ in 1...2880 { #expect(trial.answer(Int.random(in: 0..<10, using: &random) < 3 ? .rejected : .valid) == .held) }
    }

    @Test func aUserWhoHasReallyLeftDoesNotKeepItOpen() {
        var trial = BreakerTrial.opened()
        trial.answer(.rejected)
        trial.answer(.valid, times: 49)
        #expect(!trial.breaker.isOpen)
        trial.answer(.rejected, times: 15)
        #expect(!trial.breaker.isOpen, "a burst right after passes")
    }

    // MARK: Canaries and blame

    @Test(arguments: [true, false]) func aRejectedCanaryOpensUntilItIsAcceptedAgain(isCheck: Bool) {
        var trial = BreakerTrial()
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
        var trial = BreakerTrial()
        for _ in 1...1000 { trial.answer(.valid, "good", isCanary: true, isCheck: false) }
        #expect(trial.breaker.judged == (0, 0))
    }

    @Test func aBlamedClientOpensUntilItGetsA200() {
        var trial = BreakerTrial()
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
        var trial = BreakerTrial()
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
        var trial = BreakerTrial()
        trial.answer(.blamed, client: "web")
        trial.answer(.valid, client: "app")
        let before = trial.breaker
        trial.answer(.rejected, "good", client: "app", isCanary: true)
        #expect(trial.breaker.holdsMore(than: before))
        #expect(trial.answer(.rejected, client: "app") == .held)
    }

    @Test func itClosesWithTheLastOfItsCauses() {
        var trial = BreakerTrial.opened()
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
        var trial = BreakerTrial()
        trial.answer(.blamed, client: "web")
        trial.answer(.rejected, "good", isCanary: true)
        trial.breaker.keep(canaries: ["good"], clients: ["app"], at: trial.now)
        #expect(trial.breaker.causes == [.canary])
        trial.breaker.keep(canaries: ["another"], clients: ["app"], at: trial.now)
        #expect(!trial.breaker.isOpen)
    }

    @Test func whatCannotBeReadIsOpenUntilAnswersAreNormal() {
        var trial = BreakerTrial()
        trial.breaker = .distrustful(since: trial.now)
        #expect(trial.breaker.isOpen && trial.breaker.causes == [.disproportion])
        trial.answer(.valid, times: 49)
        #expect(trial.breaker.isOpen)
        trial.answer(.valid, times: 1)
        #expect(!trial.breaker.isOpen)
    }

    @Test func aBlamedClientWithoutTokensIsForgotten() {
        var trial = BreakerTrial()
        trial.answer(.blamed)
        #expect(trial.breaker.isOpen)
        for client in trial.breaker.blamedClients { trial.breaker.forget(client: client, at: trial.now) }
        #expect(!trial.breaker.isOpen)
    }

    // MARK: Across restarts

    @Test(arguments: [0, 10, 30, 40, 70]) func itIsTheSameAfterARoundTrip(answers: Int) throws {
        var trial = BreakerTrial()
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
        var trial = BreakerTrial()
        trial.answer(.rejected, times: 20)
        trial.answer(.valid, times: 480)
        trial.rules = BreakerRules(window: 100)
        trial.answer(.valid)
        #expect(trial.breaker.judged == (100, 0))
    }
}
