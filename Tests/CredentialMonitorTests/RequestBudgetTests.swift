// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import Testing

struct RequestBudgetTests {
    private let clock = TestClock()
    private let budget = RequestBudget(RequestLimits(maxRequestsPerSecond: 50))

    /// If two lanes share the budget, one of them may have read the clock before the other. No moment brings its permits twice.
    @Test(arguments: [1, 2]) func noMoreThanTheRateIsGivenOut(_ lanes: Int) {
        var taken = 0
        for _ in 0..<100 {
            let before = clock.now
            clock.advance(by: .milliseconds(100))
            for moment in [clock.now, before].prefix(lanes) { taken += budget.take(upTo: 64, at: moment) }
        }
        #expect(taken >= 495 && taken <= 510, "\(taken) in ten seconds at 50 a second")
    }

    @Test func aSlowRateStillMoves() {
        let budget = RequestBudget(RequestLimits(maxRequestsPerSecond: 0.5))
        for permits in [1, 0, 1] {
            #expect(budget.take(upTo: 10, at: clock.now) == permits)
            clock.advance(by: .seconds(1))
        }
    }

    @Test(arguments: [-3600, -86_400, -2 * 86_400]) func aClockSetBackGivesNothingAndStallsNothing(step: Int) {
        let budget = RequestBudget(RequestLimits(maxRequestsPerSecond: 10))
        budget.pause(for: .seconds(60), at: clock.now)
        #expect(budget.take(upTo: 10, at: clock.now) == 0)
        clock.set(to: clock.now.advanced(by: .seconds(step)))
        #expect(budget.take(upTo: 10, at: clock.now) > 0)
    }

    /// Of two requests in flight, one answer names half an hour and the next names nothing.
    @Test func ofTwoPausesTheLongerOneHolds() {
        let budget = RequestBudget(RequestLimits(maxRequestsPerSecond: 10))
        budget.pause(for: .seconds(1800), at: clock.now)
        clock.advance(by: .seconds(1))
        budget.pause(for: .seconds(30), at: clock.now)
        clock.advance(by: .seconds(60))
        #expect(budget.take(upTo: 10, at: clock.now) == 0)
        clock.advance(by: .seconds(1739))
        #expect(budget.take(upTo: 10, at: clock.now) > 0)
    }

    @Test func oneHiccupThatStrikesAllRequestsInFlightIsOnePause() {
        let budget = RequestBudget(RequestLimits(maxRequestsPerSecond: 1000))
        let askedAt = clock.now
        clock.advance(by: .seconds(1))
        #expect(budget.pauses.blame("web", askedAt: askedAt, at: clock.now) == .seconds(10))
        for _ in 1...63 { #expect(budget.pauses.blame("web", askedAt: askedAt, at: clock.now) == nil) }
        #expect(budget.pauses.quotas(at: clock.now) == ["web": 0] && !budget.pauses.maySend(of: "web", at: clock.now))
        clock.advance(by: .seconds(13))
        #expect(budget.pauses.quotas(at: clock.now) == ["web": 1])
        #expect(budget.pauses.maySend(of: "web", at: clock.now) && !budget.pauses.maySend(of: "web", at: clock.now), "one probe")
        #expect(budget.pauses.accept("web"))
        #expect(budget.pauses.quotas(at: clock.now).isEmpty && budget.pauses.maySend(of: "web", at: clock.now))
    }

    // MARK: Blame

    @Test func aClientThatAppleBlamesPausesNoOther() {
        #expect(budget.pauses.blame("web", askedAt: clock.now, at: clock.now) != nil)
        #expect(budget.take(upTo: 5, at: clock.now) == 5 && budget.pauses.maySend(of: "app", at: clock.now))
        #expect(!budget.pauses.accept("app"), "its good answer says nothing of the other")
        #expect(budget.pauses.holds("web", at: clock.now) && budget.pauses.isAnyBlamed)
    }

    @Test func pausesGrowAndEachEndsWithOneQuestion() {
        var sent: [Duration] = []
        let start = clock.now
        while start.duration(to: clock.now) < .hours(2) {
            if budget.pauses.maySend(of: "web", at: clock.now) {
                sent.append(start.duration(to: clock.now))
                _ = budget.pauses.blame("web", askedAt: clock.now, at: clock.now)
            }
            clock.advance(by: .seconds(1))
        }
        #expect(sent.count < 10 && sent.count > 3, "\(sent)")
        let gaps = zip(sent, sent.dropFirst()).map { $1 - $0 }
        #expect(gaps == gaps.sorted())
    }

    /// The first refusal of a client that Apple has just accepted is mostly a hiccup of Apple's. A second one in a row is none.
    @Test func theFirstPauseOfAnAcceptedClientIsASecond() {
        for _ in 1...2 {
            _ = budget.pauses.accept("web")
            var pauses: [Duration] = []
            for _ in 1...4 {
                let pause = budget.pauses.blame("web", askedAt: clock.now, at: clock.now) ?? .zero
                #expect(budget.pauses.quotas(at: clock.now) == ["web": 0])
                clock.advance(by: pause)
                #expect(budget.pauses.maySend(of: "web", at: clock.now) && !budget.pauses.maySend(of: "web", at: clock.now), "one probe")
                pauses.append(pause)
            }
            #expect(pauses == [.seconds(1), .seconds(10), .seconds(30), .seconds(120)])
        }
    }

    /// siwatch tries codes each half minute. Otherwise a client that Apple refuses for ten minutes would have its checks wait for hours.
    @Test func theQuestionsOfAnotherLaneLengthenNoPause() {
        var pauses: [Duration] = []
        for _ in 1...20 {
            if let pause = budget.pauses.blame("web", isForeign: true, askedAt: clock.now, at: clock.now) { pauses.append(pause) }
            clock.advance(by: .seconds(30))
        }
        #expect(pauses == [.seconds(10), .seconds(30), .seconds(120), .seconds(600)])
        #expect(budget.pauses.quotas(at: clock.now) == ["web": 0] && budget.pauses.isAnyBlamed)
    }

    /// siwatch cannot tell them apart until one has had a 200.
    @Test func clientsWithoutA200WaitWithTheOneThatIsBlamed() {
        _ = budget.pauses.blame("web", and: ["app", "web"], askedAt: clock.now, at: clock.now)
        #expect(budget.pauses.quotas(at: clock.now) == ["app": 0, "web": 0])
        clock.advance(by: .seconds(10))
        #expect(budget.pauses.quotas(at: clock.now) == ["app": 1, "web": 1])
        #expect(budget.pauses.maySend(of: "app", at: clock.now) && budget.pauses.maySend(of: "web", at: clock.now))
        _ = budget.pauses.blame("web", and: ["app", "web"], askedAt: clock.now, at: clock.now)
        #expect(budget.pauses.accept("app"))
        #expect(budget.pauses.quotas(at: clock.now) == ["web": 0])
    }

    @Test func aClientThatWasBlamedBeforeTheStartIsTriedByOneQuestion() {
        budget.pauses.suspect(["web"])
        #expect(budget.pauses.quotas(at: clock.now) == ["web": 1] && !budget.pauses.isAnyBlamed)
        #expect(budget.pauses.maySend(of: "web", at: clock.now) && !budget.pauses.maySend(of: "web", at: clock.now))
        #expect(!budget.pauses.accept("web"), "nobody was told of a pause")
        #expect(budget.pauses.quotas(at: clock.now).isEmpty)
    }

    // MARK: Limits for Apple's sake

    @Test func oneBadMomentHalvesTheRateOnce() {
        let budget = RequestBudget(RequestLimits(maxRequestsPerSecond: 64))
        let askedAt = clock.now
        clock.advance(by: .seconds(1))
        for _ in 1...64 {
            budget.slowDown(askedAt: askedAt, at: clock.now)
            clock.advance(by: .milliseconds(1))
        }
        #expect((32...33).contains(budget.rate(at: clock.now)))
    }

    @Test func theRateHalvesAgainWhileItGoesOnAndNeverStalls() {
        let budget = RequestBudget(RequestLimits(maxRequestsPerSecond: 64))
        for _ in 1...1000 {
            budget.slowDown(askedAt: clock.now, at: clock.now)
            clock.advance(by: .seconds(1))
        }
        #expect((2..<8).contains(budget.rate(at: clock.now)))
        var taken = 0
        for _ in 1...100 {
            budget.slowDown(askedAt: clock.now, at: clock.now)
            taken += budget.take(upTo: 64, at: clock.now)
            clock.advance(by: .seconds(1))
        }
        #expect(taken >= 100 && taken < 800, "\(taken)")
    }

    @Test func theRateComesBackWithinMinutesAndNoFurtherThanTheLimit() {
        budget.slowDown(askedAt: clock.now, at: clock.now)
        #expect(budget.rate(at: clock.now) == 25)
        clock.advance(by: .seconds(75))
        #expect((37...38).contains(budget.rate(at: clock.now)))
        clock.advance(by: .seconds(75))
        #expect((49.9...50).contains(budget.rate(at: clock.now)))
        clock.advance(by: .seconds(7 * 86_400))
        #expect(budget.rate(at: clock.now) == 50)
        #expect(budget.take(upTo: 1000, at: clock.now) == 10, "a fifth of a second's worth, however long nobody asked")
    }

    @Test func aReloadChangesTheLimitAndKeepsTheShare() {
        budget.slowDown(askedAt: clock.now, at: clock.now)
        budget.limits = RequestLimits(maxRequestsPerSecond: 10)
        #expect(budget.rate(at: clock.now) == 5)
        budget.limits = RequestLimits(maxRequestsPerSecond: 100)
        #expect(budget.rate(at: clock.now) == 50)
    }

    @Test func anOpenBreakerIsProbedOnceInAWhile() {
        #expect(budget.take(upTo: 64, at: clock.now, isProbing: true) == 1)
        clock.advance(by: .seconds(29))
        #expect(budget.take(upTo: 64, at: clock.now, isProbing: true) == 0)
        clock.advance(by: .seconds(1))
        #expect(budget.take(upTo: 64, at: clock.now, isProbing: true) == 1)
        budget.giveBack(1, isProbing: true)
        #expect(budget.take(upTo: 64, at: clock.now, isProbing: true) == 1, "nobody was asked")
        #expect(budget.take(upTo: 64, at: clock.now) > 1, "it closed")
    }

    /// Revocations and codes go on while the breaker is open. They do not move the probe.
    @Test func anotherLaneBringsNoProbeForward() {
        var probes = 0
        for _ in 0..<300 {
            probes += budget.take(upTo: 64, at: clock.now, isProbing: true)
            let taken = budget.take(upTo: 2, at: clock.now, goesFirst: true)
            budget.giveBack(min(taken, 1))
            clock.advance(by: .milliseconds(100))
        }
        #expect(probes == 1, "in thirty seconds")
    }

    @Test func whatIsGivenBackCanBeTakenAgain() {
        let budget = RequestBudget(RequestLimits(maxRequestsPerSecond: 10))
        #expect(budget.take(upTo: 10, at: clock.now) == 2)
        budget.giveBack(2)
        #expect(budget.take(upTo: 10, at: clock.now) == 2)
    }

    // MARK: Priority

    /// The budget reserves missing permits for the next call. Other lanes take the rest.
    @Test func aCallThatGoesFirstIsNotOvertaken() {
        #expect(budget.take(upTo: 64, at: clock.now) == 10)
        #expect(budget.take(upTo: 3, at: clock.now, goesFirst: true) == 0)
        #expect(budget.isWanted)
        clock.advance(by: .milliseconds(40))
        #expect(budget.take(upTo: 64, at: clock.now) == 0, "two permits, and three are wanted")
        clock.advance(by: .milliseconds(60))
        #expect(budget.take(upTo: 64, at: clock.now) == 2)
        #expect(budget.take(upTo: 3, at: clock.now, goesFirst: true) == 3)
        #expect(!budget.isWanted)
    }

    @Test func aCallThatWantsNothingMoreKeepsNothing() {
        let budget = RequestBudget(RequestLimits(maxRequestsPerSecond: 5))
        #expect(budget.take(upTo: 2, at: clock.now, goesFirst: true) == 1)
        #expect(budget.take(upTo: 0, at: clock.now, goesFirst: true) == 0)
        clock.advance(by: .seconds(1))
        #expect(budget.take(upTo: 1, at: clock.now) == 1)
    }

    /// The budget reserves no more than can ever gather, however many requests wait for priority. Both lanes advance.
    @Test func aSlowBudgetIsNeverKeptForEver() {
        let budget = RequestBudget(RequestLimits(maxRequestsPerSecond: 1))
        var (first, others) = (0, 0)
        for round in 0..<100 {
            first += budget.take(upTo: round < 50 ? 1000 : 0, at: clock.now, goesFirst: true)
            others += budget.take(upTo: 10, at: clock.now)
            clock.advance(by: .seconds(1))
        }
        #expect(first == 50 && others == 50)
    }
}
