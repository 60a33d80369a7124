// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import DaemonHarness
import Testing

@testable import PostgresStore

/// A road that swallows all bytes, as a firewall does or a dead host. Neither end learns that the connection has ended.
@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(5))) struct DarkRoadTests: ConformanceSuite {
    private let road: RoadToServer
    private let address: PostgresAddress

    init() throws { (road, address) = try PostgresUnderTest.road(to: EachStore.store.postgres.address) }

    /// Each attempt to connect takes seconds. Eight loops that waited one after the other would look as if they hung.
    @Test func allWhoWaitHearOfItAtOnce() async throws {
        road.condition = .dark
        defer { road.condition = .closed }
        var visits = 0
        // On a stalling machine a loop may come after the others got their error, and rightly tries anew. Try again then.
        for _ in 1...5 where visits != 1 {
            let thread = ConnectionThread(address, label: "dark")
            let before = road.visits
            await withTaskGroup { group in
                for _ in 1...8 {
                    group.addTask { #expect(await storeFailure { try await thread.run { try $0.run("SELECT 1") } } == "unavailable") }
                }
            }
            visits = road.visits - before
        }
        #expect(visits == 1)
    }

    /// A frozen server is as silent, and its host keeps the connection alive.
    @Test func whoSaysNothingIsGivenUp() throws {
        let connection = try Connection(address)
        #expect(try connection.fetchInt("SELECT 7") == 7)
        // Only now, because the first answer may take long on a busy machine.
        connection.longestSilence = .milliseconds(100)
        road.condition = .dark
        defer { road.condition = .closed }
        #expect { try connection.rows("SELECT 7") } throws: { ($0 as? PostgresError)?.endsConnection == true }
    }

    /// Clients of the door wait for seconds, and not for each other's turns. An append may be written yet.
    @Test func aPatientCallEndsInTimeForAllWhoWait() async throws {
        let thread = ConnectionThread(address, patience: .seconds(2), label: "door")
        #expect(try await thread.run { try $0.fetchInt("SELECT 7") } == 7)
        road.condition = .dark
        defer { road.condition = .closed }
        let start = ContinuousClock.now
        let errors = await withTaskGroup(of: (any Error)?.self, returning: [any Error].self) { group in
            for _ in 1...8 {
                group.addTask {
                    do {
                        try await thread.transaction(since: .now) { connection in _ = try connection.send("SELECT 7") }
                        return nil
                    } catch {
                        return error
                    }
                }
            }
            return await group.reduce(into: []) { errors, error in if let error { errors.append(error) } }
        }
        // One after the other would be sixteen seconds.
        #expect(start.duration(to: .now) < .seconds(10))
        #expect(errors.count == 8)
        let unknown = errors.count { if case StoreError.outcomeUnknown = $0 { true } else { false } }
        let unavailable = errors.count { if case StoreError.unavailable = $0 { true } else { false } }
        #expect(unknown >= 1 && unknown + unavailable == 8, "\(errors)")
    }

    /// A renewal reads other replicas' verdicts. A count of millions of rows must not cost it its lanes.
    @Test func aLongCountHoldsUpNoRenewal() async throws {
        let server = store.postgres
        let gate = ConnectionThread(server.address, label: "gate")
        try await gate.begin("SELECT pg_advisory_xact_lock(8)")
        async let count = server.reader.run { connection in
            // The lock waits for as long as the others need, however slow the machine is.
            try connection.run("SET lock_timeout = 0")
            return try connection.rows("SELECT COUNT(*), pg_advisory_xact_lock(8) FROM credential").count
        }
        try await eventually { try await waiting != 0 }
        _ = try await server.breakers()
        _ = try await server.apps()
        #expect(try await waiting == 1)
        await gate.close()
        #expect(try await count == 1)
    }

    private var waiting: Int64? {
        get async throws {
            let count = "SELECT COUNT(*) FROM pg_stat_activity WHERE query LIKE 'SELECT COUNT%pg_advisory_xact_lock(8)%'"
            return try await store.column("\(count) AND wait_event = 'advisory'")[0].integer
        }
    }
}
