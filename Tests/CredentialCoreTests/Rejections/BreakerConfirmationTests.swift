// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite struct BreakerConfirmationTests {
    /// An operator who confirms three rejections of a small client has not confirmed a later day on which Apple rejects all tokens.
    @Test func aConfirmationWhileClosedGoesOnWatching() {
        var trial = BreakerTrial()
        trial.answer(.valid, times: 300)
        trial.breaker.confirm(at: trial.now, within: .seconds(86_400) * 1.05)
        trial.answer(.rejected, times: 60)
        #expect(trial.breaker.isOpen)
    }

    /// Dead tokens that are due together open the breaker, and normal answers close it. An operator's later confirmation still counts.
    @Test func whatItClosedAfterByItselfCanBeConfirmed() {
        var trial = BreakerTrial.opened()
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

    @Test func aConfirmationHoldsForAnInterval() {
        var trial = BreakerTrial.opened()
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

    @Test func anOperatorsWordNeedsNo200() {
        var trial = BreakerTrial()
        trial.breaker.confirm(at: trial.now, within: .seconds(86_400) * 1.05)
        let confirmed = AdmissionRule(answered: .earliest...trial.now, onlyAccepted: true)
        #expect(trial.admissions == [confirmed])
        trial.now = trial.now.advanced(by: .seconds(9))
        #expect(trial.admissions == [confirmed], "and is about what came before it")
    }

    @Test func aConfirmationFromTheFutureConfirmsNothing() {
        var trial = BreakerTrial()
        trial.breaker.confirm(at: trial.now.advanced(by: .seconds(3600)), within: .seconds(86_400) * 1.05)
        #expect(trial.admissions.isEmpty)
        trial.answer(.rejected, times: 21)
        #expect(trial.breaker.isOpen)
        #expect(trial.breaker.confirmedAt == nil)
    }

    @Test func aRepetitionOfAConfirmedRejectionIsBelievedAndCountsOnce() {
        var trial = BreakerTrial()
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
}
