// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import CredentialTesting
import Logging
import ServiceLifecycle
import Testing

@testable import CredentialMonitor
@testable import SQLiteStore

struct LaneKeeperTests {
    private static let lane = FleetLane.app(Monitor.app)

    private let monitor: Monitor
    private let fleet: ScriptedFleet
    private let log = LogRecorder()
    private let keys = ScriptedKeys()
    private let keeper: LaneKeeper
    private let fleetClock: FleetClock

    init() throws {
        monitor = try Monitor(isOfAFleet: true)
        let (clock, log) = (monitor.clock, log)
        fleet = ScriptedFleet(clock: clock, lease: monitor.lease)
        fleetClock = FleetClock(local: clock.wallClock) { clock.uptime }
        keeper = LaneKeeper(
            fleet,
            as: Replica(host: "h", processID: 1, version: "1"),
            leases: [Self.lane: monitor.lease],
            clients: [Self.lane: [Monitor.clients[0]]],
            clock: fleetClock,
            uptime: { clock.uptime },
            breakers: monitor.writer.breakers,
            keys: keys,
            reader: monitor.store,
            telemetry: Telemetry(logger: Logger(label: "test") { _ in log }, factory: monitor.metrics, pseudonym: { $0 })
        )
    }

    private func renew(after duration: Duration = .zero) async {
        monitor.clock.advance(by: duration)
        await keeper.renew()
    }

    @Test func aLaneIsTakenKeptAndLost() async throws {
        await renew()
        #expect(!monitor.lease.holds)
        for _ in 1...5 {
            await renew(after: .seconds(1))
            #expect(monitor.lease.holds)
        }
        fleet.epoch = nil
        await renew(after: .seconds(1))
        #expect(!monitor.lease.holds, "another one may have it")
        #expect(log.events == ["lane_taken", "lane_lost"])
    }

    /// While another replica asked, Apple may have rejected all tokens. Earlier normal answers say nothing about that time.
    @Test func answersFromBeforeAnotherOwnerProveNothing() async throws {
        let breakers = monitor.writer.breakers
        func isProven() -> Bool { breakers.isProven(clientID: Monitor.clients[0], keyID: "KEY", at: monitor.clock.now) }
        await renew()
        let identity = ClientIdentity(clientID: Monitor.clients[0], keyID: "KEY")
        breakers.recordAccepted(by: identity, isProof: true, at: monitor.clock.now)
        await renew(after: .seconds(1))
        #expect(isProven())
        fleet.epoch = 2
        await renew(after: .seconds(1))
        #expect(!isProven())
    }

    /// Each would reject for good the work that the other serves.
    @Test func whoCameLaterWithAnotherConfigurationEnds() async throws {
        fleet.elder = Replica(host: "elder", processID: 2, version: "1")
        await renew()
        await renew(after: .seconds(1))
        #expect(monitor.lease.holds, "one that agrees is no reason")
        fleet.elder?.configuration = "another"
        await #expect { try await keeper.run() } throws: { ($0 as? LaneKeeper.OtherConfiguration)?.elder.host == "elder" }
        #expect(!monitor.lease.holds)
        #expect(fleet.releases == [false])
    }

    /// Otherwise another replica could not open what this one seals.
    @Test func othersHearOfTheKeysAndShareTheirs() async throws {
        fleet.elder = Replica(host: "elder", processID: 2, version: "1")
        fleet.elder?.keyIDs = ["old"]
        fleet.junior = fleet.elder
        fleet.junior?.keyIDs = ["new", "old"]
        await renew()
        #expect(keys.others == [["old"], ["new", "old"]])
        #expect(fleet.told?.keyIDs == ["new", "old"] && fleet.told?.sealingKeyID == "new")
        await renew(after: .seconds(1))
        #expect(fleet.told?.sealingKeyID == "old", "the elder lacks the new key")
    }

    @Test func whoLacksAnEldersSealingKeyEnds() async throws {
        fleet.elder = Replica(host: "elder", processID: 2, version: "1")
        fleet.elder?.keyIDs = ["newest", "new"]
        fleet.elder?.sealingKeyID = "new"
        await renew()
        await renew(after: .seconds(1))
        #expect(monitor.lease.holds)
        fleet.elder?.sealingKeyID = "newest"
        await #expect { try await keeper.run() } throws: { ($0 as? LaneKeeper.OtherConfiguration)?.missingKey == "newest" }
        #expect(fleet.releases == [false])
    }

    @Test func whoIsNotHeardOwnsNothingAfterTheLease() async throws {
        await renew()
        await renew(after: .seconds(1))
        #expect(monitor.lease.holds)
        fleet.isAway = true
        await renew(after: .seconds(2))
        #expect(monitor.lease.holds)
        await renew(after: .milliseconds(750))
        #expect(!monitor.lease.holds)
        #expect(log.events == ["lane_taken", "renewal_failed", "lane_lost"])
    }

    @Test func aLateAnswerGivesNothing() async throws {
        await renew()
        await renew(after: .seconds(1))
        fleet.delay = .seconds(10)
        await renew()
        #expect(!monitor.lease.holds)
    }

    @Test func aStopGivesTheLanesBackWhenNothingIsSentAnyMore() async throws {
        await renew()
        monitor.clock.advance(by: .seconds(1))
        let group = ServiceGroup(of: keeper)
        async let running: Void = group.run()
        try await fleet.renewals(2)
        #expect(monitor.lease.holds)
        await group.triggerGracefulShutdown()
        try await running
        #expect(fleet.releases == [false])
    }

    /// The owner knows another replica's verdict before its first request.
    @Test func theBreakersAreThoseOfTheStore() async throws {
        try await monitor.signIn("ann")
        monitor.clock.advance(by: .days(2))
        let due = try await monitor.store.claimDueCredentials(
            of: Monitor.app,
            upTo: 1,
            firstChecks: 1,
            at: monitor.clock.now,
            policy: monitor.policy,
            preferring: [],
            quotas: [:]
        )
        let blame = RefreshVerdict.failed(.misconfigured, at: monitor.clock.now)
        _ = try await monitor.store.settle([.refresh(due[0], blame)], under: monitor.rules, at: monitor.clock.now)
        #expect(!monitor.writer.breakers.breaker(of: Monitor.app).isOpen)
        await renew()
        #expect(monitor.writer.breakers.breaker(of: Monitor.app).isOpen)
    }

    // MARK: The clock

    @Test func theSharedClockIsCarriedOn() async throws {
        let clock = monitor.clock
        let shared = fleetClock.wallClock
        #expect(shared.now == clock.now)
        fleet.ahead = .seconds(400)
        try await fleetClock.look(at: fleet)
        #expect(shared.now == clock.now.advanced(by: .seconds(400)))
        #expect(fleetClock.skew == .seconds(-400))
        #expect(fleetClock.isOff(by: .seconds(300)) && !fleetClock.isOff(by: .seconds(400)))

        // A step of the host's clock does not change the fleet's clock.
        let before = shared.now
        clock.set(to: clock.now.advanced(by: .hours(-1)))
        #expect(shared.now == before)
        clock.advance(by: .seconds(1))
        #expect(shared.now == before.advanced(by: .seconds(1)))
        #expect(fleetClock.skew == .seconds(-4000))
    }

    /// A replica that was frozen or cut off does not know whether others use another configuration by now. Nor does one that has just
    /// learnt it.
    @Test func othersAreHeardOfForALease() async throws {
        try await fleetClock.look(at: fleet)
        func isHeard() -> Bool { fleetClock.hearsOthers(within: LaneKeeper.lease) }
        #expect(!isHeard())
        await renew()
        #expect(isHeard())
        await renew(after: LaneKeeper.lease - .seconds(1))
        monitor.clock.advance(by: LaneKeeper.lease - .milliseconds(1))
        #expect(isHeard())
        fleet.isAway = true
        await renew(after: .milliseconds(1))
        #expect(!isHeard())
        fleet.isAway = false
        fleet.elder = Replica(host: "elder", processID: 1, version: "1", configuration: "another")
        await renew()
        #expect(!isHeard())
        fleet.elder = nil
        await renew()
        #expect(isHeard())
    }

    /// An answer that took a second may be from any moment of it. The host's clock stays while it may be right.
    @Test func whatMayBeRightStays() {
        let clock = TestClock()
        let fleetClock = FleetClock(local: clock.wallClock) { clock.uptime }
        let shared = fleetClock.wallClock
        let askedAt = clock.uptime
        clock.advance(by: .seconds(1))
        let before = shared.now
        for millisecond in [0, 300, 999] {
            fleetClock.observe(before.advanced(by: .milliseconds(-millisecond)), askedAt: askedAt, answeredAt: clock.uptime)
            #expect(shared.now == before)
        }
        fleetClock.observe(before.advanced(by: .milliseconds(-1200)), askedAt: askedAt, answeredAt: clock.uptime)
        #expect(shared.now == before.advanced(by: .milliseconds(-200)))
    }
}
