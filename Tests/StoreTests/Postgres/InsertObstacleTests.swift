// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import PostgresStore

/// Whether backends can insert.
@Suite(.timeLimit(.minutes(10))) struct InsertObstacleTests {
    private let store: StoreUnderTest
    private let postgres: PostgresStore

    init() throws {
        store = try StoreKind.postgres.make()
        postgres = try #require(store.ports as? PostgresStore)
    }

    @Test func aLockedQueueIsNamedWithItsSession() async throws {
        #expect(try await postgres.insertObstacle() == nil)
        let role = "locker_\(postgres.address.schema)"
        try await store.run("CREATE ROLE \(role) LOGIN SUPERUSER")
        let locker = ConnectionThread(try PostgresUnderTest.address(postgres.address, as: role), label: "locker")
        try await locker.begin("LOCK TABLE \(postgres.address.quotedSchema).revocation_queue IN SHARE MODE")
        let obstacle = try #require(try await postgres.insertObstacle())
        #expect(obstacle.contains("session ") && obstacle.hasSuffix(" of \(role)"), "\(obstacle)")
        await locker.close()
        #expect(try await postgres.insertObstacle() == nil)
    }

    /// A role counts that somebody uses.
    @Test func aRightThatWasTakenAwayIsNamed() async throws {
        // The role is the whole server's, and other tests change it at the same time.
        try await store.run("DO $$ BEGIN PERFORM pg_advisory_xact_lock(1); ALTER ROLE siwatch_grants LOGIN; END $$")
        try await store.run("REVOKE INSERT ON grant_queue FROM siwatch_grants")
        #expect(try await postgres.insertObstacle() == "siwatch_grants may not insert into grant_queue")
        try await store.run("REVOKE USAGE ON SCHEMA \(postgres.address.quotedSchema) FROM siwatch_grants")
        #expect(try await postgres.insertObstacle() == "siwatch_grants may not insert into grant_queue")
        try await store.run("GRANT USAGE ON SCHEMA \(postgres.address.quotedSchema) TO siwatch_grants")
        try await store.run("GRANT INSERT (client_id) ON grant_queue TO siwatch_grants")
        #expect(try await postgres.insertObstacle() == nil)
    }
}
