// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@testable import CredentialMonitor

struct LaneLeaseTests {
    private static let length = Duration.seconds(3)
    private let clock = TestClock()

    // MARK: The lease

    @Test func holdsFromASecondAfterItWasTakenUntilBeforeItsEnd() {
        let lease = LaneLease { [clock] in clock.uptime }
        #expect(!lease.holds)
        #expect(lease.renew(4, askedAt: clock.uptime, answeredAt: clock.uptime, for: Self.length))
        var held: [Bool] = []
        for _ in 0..<7 {
            held.append(lease.holds)
            clock.advance(by: .milliseconds(500))
        }
        #expect(held == [false, false, true, true, true, true, false])
        #expect(lease.isLost() && !lease.isLost())
    }

    @Test func goesOnWithoutAPauseWhereNobodyElseHadIt() {
        let lease = LaneLease { [clock] in clock.uptime }
        _ = lease.renew(4, askedAt: clock.uptime, answeredAt: clock.uptime, for: Self.length)
        clock.advance(by: .seconds(1))
        for _ in 0..<5 {
            #expect(!lease.renew(4, askedAt: clock.uptime, answeredAt: clock.uptime, for: Self.length))
            #expect(lease.holds)
            clock.advance(by: .seconds(2))
            #expect(lease.holds)
        }
        #expect(lease.renew(6, askedAt: clock.uptime, answeredAt: clock.uptime, for: Self.length))
        #expect(!lease.holds, "somebody else had it in between")
    }

    /// The database counts from the request at the earliest, however long its answer took.
    @Test func isCountedFromBeforeItWasAskedFor() {
        let lease = LaneLease { [clock] in clock.uptime }
        _ = lease.renew(4, askedAt: clock.uptime, answeredAt: clock.uptime, for: Self.length)
        clock.advance(by: .seconds(1))
        let askedAt = clock.uptime
        clock.advance(by: .seconds(2))
        _ = lease.renew(4, askedAt: askedAt, answeredAt: clock.uptime, for: Self.length)
        #expect(lease.holds)
        clock.advance(by: .milliseconds(750))
        #expect(!lease.holds)
    }

    /// One replica falls silent, and another takes its lane as soon as the database allows it.
    @Test func noSecondHoldsRequestsOfTwo() throws {
        let leases = (0...1).map { _ in LaneLease { [clock] in clock.uptime } }
        let budgets = leases.map { RequestBudget(RequestLimits(maxRequestsPerSecond: 100), lease: $0) }
        var sent: [[Duration]] = [[], []]
        for millisecond in 0..<8000 {
            if millisecond == 0 { _ = leases[0].renew(1, askedAt: clock.uptime, answeredAt: clock.uptime, for: Self.length) }
            if millisecond == 3000 { _ = leases[1].renew(2, askedAt: clock.uptime, answeredAt: clock.uptime, for: Self.length) }
            for number in 0...1 where budgets[number].take(upTo: 64, at: clock.now) > 0 { sent[number].append(clock.uptime) }
            clock.advance(by: .milliseconds(1))
        }
        #expect(try #require(sent[1].first) - #require(sent[0].last) >= .seconds(1))
    }

    // MARK: A frozen replica

    @Test func aCheckIsNotSentAfterTheThaw() async throws {
        let monitor = try Monitor(isOfAFleet: true)
        try await monitor.signIn("ann")
        monitor.clock.advance(by: .days(2))
        #expect(try await monitor.refreshHandler.claim(upTo: 8).isEmpty, "it is not ours yet")
        monitor.own(1)
        let work = try await monitor.refreshHandler.claim(upTo: 8)
        #expect(work.count == 1)
        monitor.clock.advance(by: .seconds(5))
        #expect(await monitor.refreshHandler.resolve(work[0]).isEmpty)
        #expect(try await monitor.refreshHandler.claim(upTo: 8).isEmpty)
        #expect(monitor.endpoint.calls.isEmpty)
        #expect(try await monitor.count("SELECT failures FROM credential") == 0)

        // After the claim's lease the owner of the lane asks.
        monitor.clock.advance(by: monitor.policy.lease(attempts: 0))
        monitor.own(3)
        try await monitor.settle(monitor.refreshHandler)
        #expect(monitor.refreshes("valid") == 1)
    }

    /// A request that failed while the lane moved to another replica says nothing about Apple.
    @Test func aRequestThatNeverLeftIsNoFailure() async throws {
        let monitor = try Monitor(requestsPerSecond: 100, isOfAFleet: true)
        try await monitor.signIn("ann")
        monitor.clock.advance(by: .days(2))
        monitor.own(1)
        let handler = monitor.refreshHandler
        let work = try await handler.claim(upTo: 8)
        monitor.endpoint.answer(.unavailable("withheld"))
        monitor.endpoint.holdAnswers()
        async let settlements = handler.resolve(work[0])
        try await monitor.endpoint.call(1)
        monitor.clock.advance(by: .seconds(5))
        monitor.endpoint.releaseAnswers()
        #expect(await settlements.isEmpty)
        #expect(monitor.budget.rate(at: monitor.clock.now) == 100)
        #expect(monitor.refreshes("unavailable") == 0)
    }

    @Test func aCodeIsNotSentAfterTheThawAndCountsAsUnsent() async throws {
        let monitor = try Monitor(isOfAFleet: true)
        monitor.own(1)
        try await monitor.code("c", "ann")
        let handler = monitor.codeHandler
        let work = try await handler.claim(upTo: 8)
        #expect(work.count == 1)
        monitor.clock.advance(by: .seconds(5))
        try await monitor.writer.submit(handler.resolve(work[0]))
        #expect(monitor.endpoint.exchanges.isEmpty)

        monitor.clock.advance(by: .seconds(6))
        monitor.own(3)
        monitor.endpoint.answerCodes(.refused(.codeUsed, detail: "used"))
        try await monitor.settle(monitor.codeHandler)
        #expect(try await monitor.grantLog() == ["rejected code_used"], "not lost here")
    }

    /// A late code needs a result, and any replica can write it.
    @Test func aCodeThatIsNotToBeSentNeedsNoLane() async throws {
        let monitor = try Monitor(isOfAFleet: true)
        try await monitor.code("c", "ann")
        #expect(try await monitor.settle(monitor.codeHandler) == 0)
        try await monitor.settle(monitor.codeHandler, after: .minutes(6))
        #expect(try await monitor.grantLog() == ["rejected code_expired"])
    }

    @Test func aTokenIsNotRevokedAfterTheThaw() async throws {
        let monitor = try Monitor(isOfAFleet: true)
        try await monitor.signIn("ann")
        try await monitor.requestRevocation("ann")
        // Opening a request asks Apple nothing.
        #expect(try await monitor.settle(monitor.revocationHandler) == 1)
        monitor.own(1)
        let handler = monitor.revocationHandler
        let work = try await handler.claim(upTo: 8)
        #expect(work.count == 1)
        monitor.clock.advance(by: .seconds(5))
        #expect(await handler.resolve(work[0]).isEmpty)
        #expect(try await handler.claim(upTo: 8).isEmpty)
        #expect(monitor.endpoint.calls.isEmpty)
    }
}

extension Monitor {
    func own(_ epoch: Int64) {
        _ = lease.renew(epoch, askedAt: clock.uptime, answeredAt: clock.uptime, for: .seconds(3))
        clock.advance(by: .seconds(1))
    }
}
