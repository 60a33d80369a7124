// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import DaemonHarness
import NIOConcurrencyHelpers
import Testing

@testable import PostgresStore

/// Several siwatch on one schema. A test lets time pass by making the rows of the tables older.
@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(5))) struct FleetTests: ConformanceSuite {
    /// Far longer than a test takes on a busy machine, and shorter than the hour after which siwatch forgets replicas.
    private static let lease = Duration.minutes(30)
    private static let apps: Set<FleetLane> = [.app("a"), .app("b"), .app("c")]
    private static let all = apps.union([.maintenance])

    private let replicas: [PostgresStore]

    init() throws {
        let first = EachStore.store.postgres
        replicas = [first] + (try (1...3).map { _ in try PostgresStore.open(first.address) })
    }

    private func renew(_ number: Int, _ lanes: Set<FleetLane> = all, lease: Duration = Self.lease) async throws -> [FleetLane: Int64] {
        let replica = Replica(host: "host-\(number)", processID: 7, version: "1", clockSkew: .milliseconds(number))
        return try await replicas[number].renew(replica, lanes: lanes, lease: lease).epochs
    }

    private func pass(_ duration: Duration) async throws {
        for column in ["lane SET until = until", "replica SET seen_at = seen_at"] {
            try await store.run("UPDATE \(column) - ?", [.integer(duration.milliseconds)])
        }
    }

    @Test func aLaneIsNobodyElsesUntilItsLeaseEnds() async throws {
        #expect(try await renew(0) == [.app("a"): 1, .app("b"): 1, .app("c"): 1, .maintenance: 1])
        #expect(try await renew(1, [.maintenance]).isEmpty)
        try await pass(.minutes(20))
        #expect(try await renew(1, [.maintenance]).isEmpty)
        try await pass(.minutes(10))
        #expect(try await renew(1, [.maintenance]) == [.maintenance: 2])
        #expect(try await renew(0) == [.app("a"): 2, .app("b"): 2, .app("c"): 2], "its own have ended as well")
    }

    @Test func aRenewedLeaseGoesOn() async throws {
        for _ in 1...5 {
            #expect(try await renew(0, [.maintenance]) == [.maintenance: 1])
            try await pass(.minutes(20))
            #expect(try await renew(1, [.maintenance]).isEmpty)
        }
    }

    @Test func whoLeavesHandsOverAtOnce() async throws {
        _ = try await renew(0)
        _ = try await renew(1)
        try await replicas[0].release()
        #expect(try await renew(1).count == 4)
        #expect(try await replicas[2].replicas().map(\.replica.host) == ["host-1"])
    }

    @Test func appsAreSharedAndFallToThoseWhoStay() async throws {
        #expect(try await renew(0).count == 4)
        var owned: [[FleetLane: Int64]] = [[:], [:]]
        for _ in 1...8 {
            for number in 0...1 { owned[number] = try await renew(number) }
            try await pass(.minutes(10))
        }
        #expect(Set(owned[0].keys) == [.app("a"), .app("b"), .maintenance] && Set(owned[1].keys) == [.app("c")])
        for _ in 1...4 {
            try await pass(.minutes(10))
            owned[1] = try await renew(1)
        }
        #expect(Set(owned[1].keys) == Self.all)
    }

    /// A replica that does not know an app does not keep the lane from the one that does.
    @Test func whatOneAloneKnowsIsItsOwn() async throws {
        _ = try await renew(0)
        for _ in 1...5 {
            #expect(try await renew(0).count == 4)
            #expect(try await renew(1, [.app("d")]) == [.app("d"): 1])
            try await pass(.minutes(10))
        }
    }

    @Test func whoIsThereAndOwnsWhatIsSeen() async throws {
        let before = try await replicas[0].time
        _ = try await renew(0, Self.apps)
        _ = try await renew(1)
        let seen = try await replicas[2].replicas()
        #expect(seen.map(\.replica.host) == ["host-0", "host-1"])
        #expect(seen.map(\.replica.clockSkew) == [.zero, .milliseconds(1)])
        #expect(seen.map(\.apps) == [["a", "b", "c"], []])
        #expect(seen.map(\.keepsHouse) == [false, true])
        #expect(seen.map(\.name) == replicas[0...1].map(\.owner))
        #expect(seen.allSatisfy { before <= $0.startedAt && $0.startedAt <= $0.seenAt })
        try await pass(.minutes(61))
        _ = try await renew(0, Self.apps)
        #expect(try await replicas[2].replicas().map(\.replica.host) == ["host-0"])
    }

    /// Neither under a working replica, nor under one that comes while the rename looks for replicas.
    @Test func anAppIsNotRenamedUnderAReplica() async throws {
        _ = try await renew(0)
        await #expect(throws: AppRenameError.inUse) { try await replicas[1].renameApp("example", to: "renamed") }
        try await replicas[0].release()

        let coming = ConnectionThread(replicas[0].address, label: "coming")
        try await coming.begin(
            """
            INSERT INTO replica (owner, started_at, seen_at, replica, lanes)
            SELECT 'coming', now, now, '{}', '[]' FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) n
            """
        )
        let renaming = Task { [replicas] in try await replicas[1].renameApp("example", to: "renamed") }
        try await eventually {
            try await store.column("SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'replica'::regclass") == [1]
        }
        try await coming.commit()
        await #expect(throws: AppRenameError.inUse) { try await renaming.value }
        #expect(try await store.column("SELECT name FROM app ORDER BY id") == ["example", "other"])
        await coming.close()

        try await store.run("DELETE FROM replica")
        try await replicas[1].renameApp("example", to: "renamed")
        #expect(try await store.column("SELECT name FROM app ORDER BY id") == ["renamed", "other"])
    }

    /// The replica was frozen while its app got another name. Its claims are not lost, and it writes nothing under the old name.
    @Test func aReplicaThatDoesNotKnowANameReadsItBeforeItSettles() async throws {
        try await store.grant("ann", token: "r")
        let claimed = try await store.claimGrants()
        try await replicas[1].renameApp("example", to: "renamed")
        await #expect(throws: StoreError.self) { try await store.settle(.grant(claimed[0], .acceptance(of: claimed[0]))) }
        #expect(try await store.count("grant_queue") == 1)
        #expect(try await store.settle(.grant(claimed[0], .acceptance(of: claimed[0]))) == .grant(.applied, nil))
        #expect(try await store.column("SELECT app FROM credential_change") == ["renamed"])
        #expect(try await store.column("SELECT count FROM credential_count") == [1])
    }

    /// Leases end and replicas come at any time. No replica takes another's lane, and in each epoch a lane has one owner.
    @Test func noTwoEverOwnOneLane() async throws {
        try await store.run("CREATE FUNCTION rob() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''robbed''; END'")
        try await store.run(
            """
            CREATE TRIGGER rob BEFORE UPDATE ON lane FOR EACH ROW
              WHEN (NEW.owner <> OLD.owner AND OLD.until > extract(epoch FROM clock_timestamp()) * 1000) EXECUTE FUNCTION rob()
            """
        )
        let owners = NIOLockedValueBox<[FleetLane: [Int64: Set<Int>]]>([:])
        /// An owner that renews before the others come keeps its epoch, so how many rounds this takes depends on the machine.
        @Sendable func haveChanged() -> Bool {
            owners.withLockedValue { owners in Self.all.allSatisfy { owners[$0, default: [:]].count > 10 } }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in replicas.indices {
                group.addTask {
                    for round in 1...1000 where round <= 40 || !haveChanged() {
                        for (lane, epoch) in try await renew(number, lease: .seconds(3)) {
                            owners.withLockedValue { _ = $0[lane, default: [:]][epoch, default: []].insert(number) }
                        }
                        try await store.run("UPDATE lane SET until = 0 WHERE app = ?", [.text(["a", "b", "c", ""].randomElement()!)])
                    }
                }
            }
            try await group.waitForAll()
        }
        let epochs = owners.withLockedValue { $0 }
        #expect(Set(epochs.keys) == Self.all)
        #expect(epochs.values.allSatisfy { $0.values.allSatisfy { $0.count == 1 } })
        #expect(haveChanged())
    }

    /// A claim that was held up for an hour carries the time of an hour ago.
    @Test func aClaimThatWasHeldUpTakesNothing() async throws {
        try await store.grant()
        let late = PostgresStore(replicas[0].address, longestClaimWait: .zero)
        #expect(await storeFailure { try await late.claimGrants(upTo: 1, at: .start, lease: StoreUnderTest.lease) } == "retry")
        #expect(try await store.column("SELECT attempts FROM grant_queue") == [.integer(0)])
    }

    /// A dead replica, last seen in a time that is now in the future, neither owns a lane nor counts while the clock catches up.
    @Test func aServerClockThatIsSetBackKeepsNoDeadAlive() async throws {
        #expect(try await renew(0).count == 4)
        // To the next reader, an hour less.
        try await pass(.hours(-1))
        #expect(try await renew(1).isEmpty)
        try await pass(Self.lease)
        #expect(try await renew(1).count == 4)
        #expect(try await renew(0) == [:])
    }

    /// A new replica sees all working ones. A working replica sees none that came later.
    @Test func whoCameBeforeIsTold() async throws {
        func elders(_ number: Int) async throws -> [String] {
            let replica = Replica(host: "host-\(number)", processID: 7, version: "1")
            return try await replicas[number].renew(replica, lanes: Self.all, lease: Self.lease).elders.map(\.host)
        }
        #expect(try await elders(0) == [])
        #expect(try await elders(1) == ["host-0"])
        #expect(try await elders(0) == [])
        #expect(try await elders(2) == ["host-0", "host-1"])
        #expect(try await elders(1) == ["host-0"])
        // A replica that was frozen or cut off finds newer replicas, perhaps with another configuration. It must treat them as earlier.
        let age = "UPDATE replica SET seen_at = seen_at - ? WHERE owner = ?"
        try await store.run(age, [.integer(Self.lease.milliseconds), .text(replicas[0].owner)])
        #expect(try await elders(0) == ["host-1", "host-2"])
        #expect(try await elders(1) == [])
        #expect(try await elders(0) == ["host-1", "host-2"])
        try await pass(Self.lease)
        #expect(try await elders(1) == [], "nobody else lives")
    }

    /// So that no replica seals under a key that another lacks.
    @Test func everyOtherIsToldWithItsKeys() async throws {
        func others(_ number: Int) async throws -> [String] {
            var replica = Replica(host: "host-\(number)", processID: 7, version: "1")
            (replica.keyIDs, replica.sealingKeyID) = (["key-\(number)"], "key-\(number)")
            return try await replicas[number].renew(replica, lanes: Self.all, lease: Self.lease).others.flatMap { $0.keyIDs ?? [] }
        }
        #expect(try await others(0) == [])
        #expect(try await others(1) == ["key-0"])
        #expect(try await others(0) == ["key-1"])
        #expect(try await others(2) == ["key-0", "key-1"])
        #expect(try await others(1) == ["key-0", "key-2"])
        #expect(try await replicas[0].replicas().map(\.replica.sealingKeyID) == ["key-0", "key-1", "key-2"])
    }

    @Test func aRenewalWaitsForNoCommit() async throws {
        let open = ConnectionThread(replicas[0].address, label: "open")
        try await store.signIn()
        try await open.begin("UPDATE settled_batch SET number = number")
        #expect(try await renew(0).count == 4)
        await open.close()
    }
}
