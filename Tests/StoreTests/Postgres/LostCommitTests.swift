// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import DaemonHarness
import Dispatch
import NIOConcurrencyHelpers
import Testing

@testable import PostgresStore

/// The answer to a COMMIT is lost on the way. The store finds out whether it happened, and reports that.
@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(5))) struct LostCommitTests: ConformanceSuite {
    private struct Site {
        let store: StoreUnderTest
        /// Its first COMMIT passes by as text. Later ones pass by the name of a prepared statement.
        let distant: PostgresStore
        let road: RoadToServer
        let settlement: Settlement
        private let isSettled = NIOLockedValueBox(false)

        init(_ store: StoreUnderTest) async throws {
            self.store = store
            let address: PostgresAddress
            (road, address) = try PostgresUnderTest.road(to: store.postgres.address)
            distant = try PostgresStore.open(address)
            try await store.grant()
            let work = try await distant.claimGrants(upTo: 1, at: .start, lease: StoreUnderTest.lease)[0]
            settlement = .grant(work, .acceptance(of: work))
        }

        func settle() async throws -> [Settled] {
            defer { isSettled.withLockedValue { $0 = true } }
            return try await distant.settle([settlement], under: StoreUnderTest.rules, at: .start).results
        }

        var grantLog: Int64? { get async throws { try await store.count("grant_log") } }

        /// Or until the commit is done, or has failed. Only sessions that hold locks in this schema count, because all tests share the server.
        func untilSomebodyWaits(_ condition: String) async throws {
            let query = """
                SELECT COUNT(*) FROM pg_stat_activity WHERE state = 'active' AND \(condition) AND pid IN (
                    SELECT pid FROM pg_locks JOIN pg_class c ON c.oid = relation WHERE c.relnamespace = current_schema()::regnamespace
                )
                """
            while try await store.column(query) == [0], !isSettled.withLockedValue({ $0 }) { try Task.checkCancellation() }
        }
    }

    @Test(arguments: [0, 1]) func whatWasCommittedIsNoFailure(refusals: Int) async throws {
        let site = try await Site(store)
        site.road.cut(.beforeTheClientHears("COMMIT\0"), refusals: refusals)
        #expect(try await site.settle() == [.grant(.applied, nil)])
        #expect(try await site.grantLog == 1)
        #expect(try await site.settle() == [.superseded])
    }

    @Test func whatWasNotCommittedIsTriedAgain() async throws {
        let site = try await Site(store)
        site.road.cut(.beforeTheServerHears("COMMIT\0"))
        #expect(await storeFailure { try await site.settle() } == "retry")
        #expect(try await site.grantLog == 0)
        #expect(try await site.settle() == [.grant(.applied, nil)])
        #expect(try await site.grantLog == 1)
    }

    /// The server is still committing. The store waits for the result.
    @Test func aCommitThatIsUnderWayIsWaitedFor() async throws {
        let site = try await Site(store)
        try await store.run(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END'"
        )
        try await store.run(
            "CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON grant_log DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()"
        )
        let waits = "query = 'COMMIT' AND wait_event = 'advisory'"
        try await expectOneSettlement(at: site, cutWhile: waits, behind: "SELECT pg_advisory_xact_lock(7)")
    }

    /// - Parameters:
    ///   - condition: what holds of the session that settles when its connection is cut.
    ///   - gate: a lock that the session then waits for.
    private func expectOneSettlement(at site: Site, cutWhile condition: String, behind gate: String) async throws {
        let holder = ConnectionThread(store.postgres.address, label: "gate")
        try await holder.begin(gate)
        async let settled = site.settle()
        try await site.untilSomebodyWaits(condition)
        site.road.cut()
        try await site.untilSomebodyWaits("query LIKE '%settled_batch%FOR UPDATE' AND wait_event_type = 'Lock'")
        await holder.close()
        #expect(try await settled == [.grant(.applied, nil)])
        #expect(try await site.grantLog == 1)
    }

    /// Wherever it waits: the server has all of it and carries it out.
    @Test func whatStandsBehindOthersIsWaitedForToo() async throws {
        let site = try await Site(store)
        let tail = "SELECT pid FROM pg_locks WHERE relation = 'schema_version'::regclass"
        let waits = "pid IN (\(tail)) AND wait_event_type = 'Lock'"
        try await expectOneSettlement(at: site, cutWhile: waits, behind: SettlementLock.lock.text)
    }

    /// A process freezes while it sends. The server holds the process's lock on the tail, and waits for the rest.
    @Test func whoStopsInTheMiddleOfAFlightHoldsUpNobody() async throws {
        let stalled = ConnectionThread(store.postgres.address, label: "stalled")
        let thaw = DispatchSemaphore(value: 0)
        let frozen = Task {
            try await stalled.transaction { connection in
                try connection.send("INSERT INTO settled_batch (owner, number, settled_at) VALUES ('frozen', 1, 1)")
                try connection.send(SettlementLock.lock)
                // libpq sends whole blocks of 8 KiB, and keeps the rest.
                try connection.send("SELECT length(\([UInt8](repeating: 7, count: 20_000)))")
                thaw.wait()
            }
        }
        let holders = """
            SELECT COUNT(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE wait_event = 'ClientRead' AND state = 'active'
               AND granted AND relation = 'schema_version'::regclass
            """
        while try await store.column(holders) != [1] { try Task.checkCancellation() }
        try await store.grant()
        let settlements = try await store.claimGrants().map { Settlement.grant($0, .acceptance(of: $0)) }
        var results: [Settled] = []
        while results.isEmpty {
            do { results = try await store.settle(settlements).results } catch StoreError.retry {}
        }
        #expect(results == [.grant(.applied, nil)])
        thaw.signal()
        await #expect(throws: StoreError.self) { try await frozen.value }
        #expect(try await store.column("SELECT COUNT(*) FROM settled_batch WHERE owner = 'frozen'") == [.integer(0)])
    }

    /// The server commits a statement without a BEGIN at the end of its flight, after its rows have come.
    @Test func whatFailsAtTheEndOfAFlightIsNotTakenForDone() async throws {
        try await store.run("CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'")
        for queue in ["grant_queue", "notification_queue"] {
            try await store.run(
                """
                CREATE CONSTRAINT TRIGGER fail AFTER UPDATE OR INSERT ON \(queue) DEFERRABLE INITIALLY DEFERRED
                   FOR EACH ROW EXECUTE FUNCTION fail()
                """
            )
        }
        await #expect(throws: StoreError.self) { try await store.ports.append([.notification([1])], at: .start) }
        try await store.run("ALTER TABLE grant_queue DISABLE TRIGGER fail")
        try await store.grant()
        try await store.run("ALTER TABLE grant_queue ENABLE TRIGGER fail")
        await #expect(throws: StoreError.self) { try await store.claimGrants() }
        #expect(try await store.column("SELECT attempts FROM grant_queue") == [.integer(0)])
        try await store.run("ALTER TABLE grant_queue DISABLE TRIGGER fail")
        #expect(try await store.claimGrants().count == 1)
    }

    /// An operator's DISCARD, or a migration, drops prepared statements. The next try uses a connection of its own.
    @Test func whatTheServerHasForgottenIsPreparedAnew() async throws {
        let number = ConnectionThread(store.postgres.address, label: "number")
        func seven() async throws -> Int { try await number.run { try $0.fetchInt("SELECT 7") } }
        #expect(try await seven() == 7)
        _ = try await number.run { try $0.run("DEALLOCATE ALL") }
        #expect(await storeFailure { try await seven() } == "retry")
        #expect(try await seven() == 7)
    }
}
