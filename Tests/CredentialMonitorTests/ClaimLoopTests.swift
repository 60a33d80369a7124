// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import CredentialTesting
import Foundation
import GRDB
import Logging
import NIOConcurrencyHelpers
import SQLiteStore
import ServiceLifecycle
import Testing

@testable import CredentialMonitor

struct ClaimLoopTests {
    private let monitor = try! Monitor()

    @Test func stopsOnlyWhenWhatIsInFlightIsWritten() async throws {
        let group = try await lane(withDue: 40)
        async let running: Void = group.run()
        try await monitor.endpoint.call(40)
        await group.triggerGracefulShutdown()
        monitor.endpoint.releaseAnswers()
        try await running

        #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL") == 40)
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE claimed_by IS NOT NULL") == 0)
    }

    /// Other replicas may use another configuration by now. Each hint wakes the loop, which asks again.
    @Test func claimsNothingWhileOthersAreNotHeardOf() async throws {
        try await monitor.grant("user")
        let (questions, question) = AsyncStream.makeStream(of: Void.self)
        let isHeard = NIOLockedValueBox(false)
        let wakeups = Wakeups(every: .seconds(3600))
        let loop = monitor.loop(monitor.grantHandler, wakeups: wakeups) {
            question.yield()
            return isHeard.withLockedValue { $0 }
        }
        let group = ServiceGroup(of: loop)
        async let running: Void = group.run()
        var asked = questions.makeAsyncIterator()
        await asked.next()
        wakeups.hint()
        await asked.next()
        #expect(try await monitor.count("SELECT attempts FROM grant_queue") == 0)
        isHeard.withLockedValue { $0 = true }
        wakeups.hint()
        await asked.next()
        await group.triggerGracefulShutdown()
        try await running
        #expect(try await monitor.count("SELECT COUNT(*) FROM grant_log") == 1)
    }

    /// A lane of refreshes with this many due credentials. Apple answers none of them yet.
    private func lane(withDue count: Int, isImpatient: Bool = false) async throws -> ServiceGroup {
        try await monitor.signIn(users: 1...count)
        monitor.clock.advance(by: .seconds(2 * 86_400))
        monitor.endpoint.holdAnswers()
        let loop: any Service = isImpatient ? monitor.loop(Impatient(base: monitor.refreshHandler)) : monitor.loop(monitor.refreshHandler)
        return ServiceGroup(of: loop)
    }

    private struct Impatient: WorkHandler {
        var base: RefreshHandler

        var lane: Lane { base.lane }
        var width: Int { base.width }
        var reserve: (most: Int, longestWait: Duration)? { base.reserve.map { ($0.most, .zero) } }
        func claim(upTo slots: Int) async throws -> [DueCredential] { try await base.claim(upTo: slots) }
        func resolve(_ work: DueCredential) async -> [Settlement] { await base.resolve(work) }
    }

    /// A lane of refreshes with 64 hands, all busy, and up to 64 more pieces of work in reserve.
    private func withReserve(
        due: Int = 100,
        isImpatient: Bool = false,
        _ body: (Monitor) async throws -> Void
    ) async throws -> (asked: Int, verified: Int, claimed: Int) {
        let group = try await lane(withDue: due, isImpatient: isImpatient)
        async let running: Void = group.run()
        try await monitor.endpoint.call(64)
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE claimed_by IS NOT NULL") == min(due, 128))
        #expect(monitor.endpoint.calls.count == 64)
        try await body(monitor)
        monitor.endpoint.releaseAnswers()
        await group.triggerGracefulShutdown()
        try await running
        return (
            monitor.endpoint.calls.count,
            try await monitor.count("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL"),
            try await monitor.count("SELECT COUNT(*) FROM credential WHERE claimed_by IS NOT NULL")
        )
    }

    /// A pause, or too long a wait, leaves what is in reserve to its lease.
    @Test(arguments: [
        ("nothing", false), ("a pause of Apple's", true), ("an open breaker", true), ("an operator's pause", true),
        ("the end of an operator's pause", false), ("a wait that is too long", true),
    ])
    func handsTakeUpWhatIsInReserveUnlessSomebodyPauses(comesBetween what: String, leavesIt: Bool) async throws {
        let counts = try await withReserve(isImpatient: what == "a wait that is too long") { monitor in
            switch what {
            case "a pause of Apple's": monitor.budget.pause(for: .hours(1), at: monitor.clock.now)
            case "an open breaker": try await openBreaker()
            case "an operator's pause": _ = try await monitor.ask(.pause(app: Monitor.app))
            case "the end of an operator's pause":
                _ = try await monitor.ask(.pause(app: Monitor.app))
                #expect(try await monitor.ask(.resume(app: Monitor.app)) == .resumed(wasPaused: true))
            default: break
            }
        }
        #expect(counts == (leavesIt ? (asked: 64, verified: 64, claimed: 36) : (asked: 100, verified: 100, claimed: 0)))
    }

    /// One of the two credentials that were not claimed before.
    @Test(.timeLimit(.minutes(5))) func asksOneWhileTheBreakerIsOpenAndNothingOfTheReserve() async throws {
        let counts = try await withReserve(due: 130) { monitor in
            #expect(monitor.refreshHandler.reserve?.most == 512)
            try await openBreaker()
            #expect(monitor.refreshHandler.reserve?.most == 0, "a probe that waited would be taken for what was claimed before")
            monitor.endpoint.releaseAnswers()
            try await monitor.endpoint.call(65)
        }
        #expect(counts == (asked: 65, verified: 65, claimed: 64))
    }

    /// Apple blames a client, but not the client of the due credentials, and the claimers of these have not heard of it.
    private func openBreaker() async throws {
        let state = try JSONEncoder().encode(RejectionBreaker.distrustful(since: monitor.clock.now))
        let breaker = "INSERT OR REPLACE INTO breaker (app, state) SELECT id, ? FROM app WHERE name = ?"
        try await monitor.execute(breaker, [String(decoding: state, as: UTF8.self), Monitor.app])
        // As another process, which wrote it.
        monitor.store.trust(PlainSealer(), since: .earliest, nil)
        try await monitor.writer.breakers.load(from: monitor.store)
        #expect(try await monitor.storedBreaker?.isOpen == true)
    }

    @Test func throughputIsWhatWasDoneLately() {
        let start = ContinuousClock.now
        func moment(_ milliseconds: Int) -> ContinuousClock.Instant { start + .milliseconds(milliseconds) }
        var throughput = Throughput(at: start)
        #expect(throughput.perSecond(at: start) == 0)
        for time in 0..<300 { throughput.add(at: moment(time)) }
        #expect(throughput.perSecond(at: moment(300)) == 600)
        // The half second that has just ended counts, until the next one has ended.
        #expect(throughput.perSecond(at: moment(500)) == 600)
        throughput.add(at: moment(999))
        #expect(throughput.perSecond(at: moment(999)) == 600)
        #expect(throughput.perSecond(at: moment(1000)) == 2)
        // Work before a standstill does not count.
        #expect(throughput.perSecond(at: moment(2000)) == 0)
    }

    @Test func aLoopThatNeverTurnedIsStalled() async throws {
        #expect(monitor.progress.stalled == ["grants", "notifications", "refreshes of example"])
    }
}

extension ServiceGroup {
    init(of service: any Service) {
        self.init(configuration: ServiceGroupConfiguration(services: [.init(service: service)], logger: .init(label: "test")))
    }
}
