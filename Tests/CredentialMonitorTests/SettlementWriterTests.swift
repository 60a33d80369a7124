// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTables
import CredentialTesting
import DaemonHarness
import NIOConcurrencyHelpers
import SQLiteStore
import Testing

struct SettlementWriterTests {
    /// Submits handfuls of sign-ins, one after another, during the commit of the first, which lasts so long.
    private func submit(
        _ sizes: [Int],
        lastIsUrgent: Bool = false,
        through gate: TroubledStore.Trouble,
        lasting duration: Duration = .zero,
        then check: (Monitor) async throws -> Void = { _ in }
    ) async throws {
        let monitor = try Monitor(store: { TroubledStore($0, gate) })
        for user in 1...sizes.reduce(0, +) { try await monitor.grant("user\(user)") }
        gate.hold()
        let grants = try await monitor.store.claimGrants(upTo: 8, at: monitor.clock.now, lease: .seconds(60))
        try await withThrowingDiscardingTaskGroup { group in
            for (number, size) in sizes.enumerated() {
                let handful = Array(grants.dropFirst(sizes.prefix(number).reduce(0, +)).prefix(size))
                let isUrgent = lastIsUrgent && number == sizes.count - 1
                group.addTask { try await monitor.writer.submit(monitor.grantHandler.resolve(handful), isUrgent: isUrgent) }
                if number == 0 { try await gate.commitStarted() }
                try await eventually { monitor.writer.waiting >= number }
            }
            monitor.clock.advance(by: duration)
            gate.release()
            try await check(monitor)
        }
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_state") == sizes.reduce(0, +))
    }

    @Test func whoArrivesDuringACommitGoesIntoTheNextOne() async throws {
        let gate = TroubledStore.Trouble()
        try await submit([1, 1, 1], through: gate)
        #expect(gate.batches == [1, 2])
    }

    /// A task waits for it, so the writer commits it before earlier settlements, in a commit of its own.
    @Test func whatIsUrgentIsCommittedFirst() async throws {
        let gate = TroubledStore.Trouble()
        try await submit([1, 3, 1], lastIsUrgent: true, through: gate)
        #expect(gate.batches == [1, 1, 3])
    }

    /// A connection that waits for SQLite's lock retries every 100 ms at worst. PostgreSQL needs no such wait.
    @Test(.timeLimit(.minutes(5)), arguments: [true, false])
    func afterTwoSecondsOfCommitsOthersGetTheirTurn(_ holdsBackendsUp: Bool) async throws {
        let gate = TroubledStore.Trouble(holdsBackendsUp: holdsBackendsUp)
        try await submit([1, 1], through: gate, lasting: .milliseconds(2001)) { monitor in
            guard holdsBackendsUp else { return }
            let end = try await monitor.clock.sleeper()
            #expect(end == monitor.clock.now.advanced(by: .milliseconds(110)))
            #expect(gate.batches == [1])
            monitor.clock.advance(by: .milliseconds(110))
        }
        #expect(gate.batches == [1, 1])
    }

    @Test func aRushIsCommitsThatFollowOneAnother() {
        let start = Timestamp(milliseconds: 1_750_000_000_000)
        func moment(_ milliseconds: Int) -> Timestamp { start.advanced(by: .milliseconds(milliseconds)) }
        func isLong(_ commits: [(start: Int, end: Int)]) -> Bool {
            var burst = CommitBurst(at: start)
            return commits.reduce(false) { _, commit in
                burst.begin(at: moment(commit.start))
                return burst.isLong(at: moment(commit.end))
            }
        }
        #expect(!isLong([(0, 2000)]))
        #expect(isLong([(0, 2001)]))
        #expect(isLong([(0, 1000), (1049, 2001)]))
        #expect(!isLong([(0, 1000), (1050, 3050)]), "others had time to look")
        #expect(isLong([(0, 1000), (1050, 3051)]))
        // A step back of the clock by an hour begins anew.
        #expect(!isLong([(0, 1000), (-3_599_000, -3_597_000)]))
        #expect(isLong([(0, 1000), (-3_599_000, -3_597_000), (-3_597_000, -3_596_999)]))
    }

    @Test func newTokensAreAnnouncedByApp() async throws {
        let monitor = try Monitor()
        let heard = NIOLockedValueBox<[Set<String>]>([])
        let (clock, telemetry) = (monitor.clock.wallClock, monitor.telemetry)
        let writer = SettlementWriter(store: monitor.store, rules: monitor.rules, clock: clock, telemetry: telemetry) { batch in
            if !batch.replenished.isEmpty { heard.withLockedValue { $0.append(batch.replenished) } }
        }
        func settle() async throws {
            for work in try await monitor.grantHandler.claim(upTo: 1) { try await writer.settle(monitor.grantHandler.resolve(work)) }
        }
        try await monitor.grant("ann")
        try await settle()
        #expect(heard.withLockedValue { $0 } == [[Monitor.app]])
        try await monitor.grant("ann")
        try await monitor.grant("bob", token: nil)
        try await settle()
        #expect(heard.withLockedValue { $0.count } == 1)
    }

    @Test func aBusyDatabaseIsTriedAgain() async throws {
        let trouble = TroubledStore.Trouble(failing: [.busy, .full(), .outcomeUnknown("I/O error")])
        let monitor = try Monitor(store: { TroubledStore($0, trouble) })
        try await monitor.grant("ann")
        #expect(try await monitor.settle(monitor.grantHandler, through: 3, of: .seconds(5)) == 1)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
    }

    /// The second try finds no claim any more, so it changes nothing. It must still report the breaker, or the lane would go on as if it
    /// were closed.
    @Test func aBreakerIsKnownAlthoughTheAnswerToItsCommitWasLost() async throws {
        let trouble = TroubledStore.Trouble()
        let monitor = try Monitor(store: { TroubledStore($0, trouble) })
        try await monitor.signIn("ann", isAccepted: true)
        monitor.clock.advance(by: .seconds(2 * 86_400))
        monitor.endpoint.answer(.misconfigured("invalid_client"))
        trouble.loseNextAnswer()
        try await monitor.settle(monitor.refreshHandler, through: 1, of: .seconds(5))
        #expect(try await monitor.storedBreaker?.isOpen == true)
        #expect(monitor.writer.breakers.breaker(of: Monitor.app).isOpen)
    }

    @Test func aDatabaseThatStaysBrokenEndsTheWriter() async throws {
        let trouble = TroubledStore.Trouble(failing: Array(repeating: .outcomeUnknown("I/O error"), count: 100))
        let monitor = try Monitor(store: { TroubledStore($0, trouble) })
        try await monitor.grant("ann")
        await #expect(throws: StoreError.self) { try await monitor.settle(monitor.grantHandler, through: 12, of: .seconds(5)) }
        #expect(try await monitor.count("SELECT COUNT(*) FROM grant_queue") == 1, "nothing is lost")
    }

    /// A full disk, a server that is away, a conflict with other transactions.
    @Test(arguments: [StoreError.full(), .unavailable("57P01"), .retry("40P01")])
    func whatEndsByItselfIsWaitedFor(_ error: StoreError) async throws {
        let trouble = TroubledStore.Trouble(failing: Array(repeating: error, count: 40))
        let monitor = try Monitor(store: { TroubledStore($0, trouble) })
        try await monitor.grant("ann")
        #expect(try await monitor.settle(monitor.grantHandler, through: 40, of: .seconds(5)) == 1)
    }

    @Test func aRefusalAfterTroubleEndsTheTrouble() async throws {
        let trouble = TroubledStore.Trouble(failing: [.busy], refusing: "bob")
        let monitor = try Monitor(store: { TroubledStore($0, trouble) })
        try await monitor.grant("bob")
        async let round = monitor.loop(monitor.grantHandler).round()
        try await monitor.clock.sleeper()
        #expect(monitor.writer.trouble != nil)
        monitor.clock.advance(by: .seconds(5))
        _ = try await round
        #expect(monitor.writer.trouble == nil, "or nobody would claim again, ever")
    }

    @Test func aSettlementThatIsRefusedDoesNotHoldUpTheOthers() async throws {
        let trouble = TroubledStore.Trouble(refusing: "bob")
        let monitor = try Monitor(store: { TroubledStore($0, trouble) })
        for user in ["ann", "bob", "eve"] { try await monitor.grant(user) }
        _ = try await monitor.loop(monitor.grantHandler).round()
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_state") == 2)
        #expect(try await monitor.count("SELECT COUNT(*) FROM grant_queue WHERE user_id = 'bob' AND attempts = 1") == 1)
    }
}
