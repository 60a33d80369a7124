// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import DaemonHarness
import NIOConcurrencyHelpers
import Testing

@testable import PostgresStore

/// Several siwatch on one database. A follower of the feed by `id > :last_seen` misses nothing, and no fact is lost.
@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(5))) struct FeedOrderTests: ConformanceSuite {
    private static let replicas = 4
    private static let rounds = 15
    private static let users = 12
    private let isSettled = NIOLockedValueBox(false)

    /// Another siwatch on the same schema.
    private func replica() throws -> StoreUnderTest { try StoreUnderTest(PostgresStore.open(store.postgres.address)) }

    @Test func aReaderMissesNothingOfFourWriters() async throws {
        let replicas = try (1...Self.replicas).map { _ in try replica() }
        let seen = try await withThrowingTaskGroup(of: Void.self) { writers in
            for (number, replica) in replicas.enumerated() {
                writers.addTask {
                    for round in 0..<Self.rounds {
                        for user in 0..<Self.users { try await replica.grant("user-\(number)-\(round)-\(user)") }
                        try await settleAll(of: replica)
                    }
                }
            }
            let reader = Task { try await follow(store) }
            try await writers.waitForAll()
            reader.cancel()
            return try await reader.value
        }
        #expect(seen.count == Self.replicas * Self.rounds * Self.users)
        #expect(try await store.column("SELECT id FROM credential_change ORDER BY id").compactMap(\.integer) == seen)
    }

    /// A writer takes ids under one lock until its commit. So no writer numbers a change while another's is not yet visible.
    @Test func theTailIsOnesAtATime() async throws {
        let other = ConnectionThread(store.postgres.address, label: "other")
        try await other.begin(SettlementLock.lock.text)
        let settling = Task {
            defer { isSettled.withLockedValue { $0 = true } }
            return try await store.signIn()
        }
        let waiting = """
            SELECT COUNT(*) FROM pg_locks held JOIN pg_locks waits ON waits.transactionid = held.transactionid AND NOT waits.granted
             WHERE held.granted AND held.pid IN (SELECT pid FROM pg_locks WHERE relation = 'schema_version'::regclass)
            """
        try await eventually {
            let isAlone = try await store.column(waiting) == [0]
            return !isAlone || isSettled.withLockedValue { $0 }
        }
        #expect(!isSettled.withLockedValue { $0 })
        await other.close()
        #expect(try await settling.value == .grant(.applied, nil))
    }

    /// Anybody who may connect may hold every advisory lock of the database, by any number that the sources give away.
    @Test func nobodyElseHoldsUpASettlement() async throws {
        let address = store.postgres.address
        let role = "stranger_\(address.schema)"
        try await store.run("CREATE ROLE \(role) LOGIN")
        let feed = try #require(try await store.column("SELECT 'credential_change'::regclass::oid::bigint")[0].integer)
        let stranger = ConnectionThread(try PostgresUnderTest.address(address, as: role), label: "stranger")
        try await stranger.begin("SELECT pg_advisory_xact_lock(1397315393, \(feed))")
        #expect(try await store.signIn() == .grant(.applied, nil))
        await stranger.close()
    }

    /// An administrator may lock what backends may not. The error says who it is.
    @Test func whoHoldsALockIsNamed() async throws {
        let address = store.postgres.address
        let role = "locker_\(address.schema)"
        try await store.run("CREATE ROLE \(role) LOGIN SUPERUSER")
        let locker = ConnectionThread(try PostgresUnderTest.address(address, as: role), label: "locker")
        try await locker.begin("LOCK TABLE \(address.quotedSchema).grant_log IN EXCLUSIVE MODE")
        let writer = ConnectionThread(address, SessionKind(longestLockWait: .milliseconds(50)), label: "writer")
        await #expect {
            try await writer.transaction { _ = try $0.send("LOCK TABLE grant_log IN ROW EXCLUSIVE MODE") }
        } throws: {
            if case StoreError.retry(let reason) = $0 { reason.hasPrefix("55P03") && reason.hasSuffix(" of \(role)") } else { false }
        }
        await locker.close()
    }

    /// An event also ends sign-ins of a client that another replica has added since.
    @Test func aClientThatIsNewElsewhereIsNotOverlooked() async throws {
        let old = try replica()
        try store.register("example", ["app", "web", "new"])
        #expect(try await store.signIn() == .grant(.applied, nil))
        #expect(try await store.signIn(client: "new") == .grant(.applied, nil))
        try await store.run("INSERT INTO notification_queue (payload) VALUES (CAST(? AS TEXT))", [.text("x")])
        let later = Timestamp.start + .hours(1)
        let work = try #require(try await old.claimNotifications(at: later).first)
        let event = Settlement.notification(work, .event(.consentRevoked, at: later))
        await #expect(throws: StoreError.self) { try await old.settle(event, at: later) }
        #expect(try await old.settle(event, at: later) == .notification(.applied))
        #expect(try await store.column("SELECT COUNT(*) FROM credential_state WHERE reason = 'consent_revoked'") == [2])
    }

    /// First facts about the same users in four places at once, in any order. Each register keeps its greatest value, and no writer waits
    /// for ever.
    @Test func factsAboutTheSameUsersAreAllKept() async throws {
        let replicas = try (1...Self.replicas).map { _ in try replica() }
        for second in 0..<Self.rounds {
            for user in (0..<Self.users).shuffled() {
                try await store.grant("user-\(user)", client: second.isMultiple(of: 2) ? "app" : "web", at: .start + .seconds(second))
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { writers in
            for replica in replicas { writers.addTask { try await settleAll(of: replica, upTo: 7) } }
            try await writers.waitForAll()
        }
        #expect(try await store.count("grant_log") == Int64(Self.rounds * Self.users))
        let found = try await store.rows("SELECT client_id, changed_at, COUNT(*) FROM credential_state GROUP BY 1, 2 ORDER BY client_id")
        let (newest, count) = (Timestamp.start + .seconds(Self.rounds - 1), SQLValue.integer(Int64(Self.users)))
        #expect(found == [["app", .at(newest), count], ["web", .at(newest - .seconds(1)), count]])
        #expect(try await store.ports.credentialCounts().map(\.count) == [2 * Self.users])
    }

    private func settleAll(of store: StoreUnderTest, upTo limit: Int = 100) async throws {
        let now = Timestamp.start + .minutes(1)
        while case let work = try await store.claimGrants(upTo: limit, at: now), !work.isEmpty {
            let results = try await store.settle(work.map { .grant($0, .acceptance(of: $0)) }, at: now).results
            #expect(!results.contains(.superseded))
        }
    }

    /// The ids that a following backend sees, until it is cancelled and has looked once more.
    private func follow(_ store: StoreUnderTest) async throws -> [Int64] {
        var seen: [Int64] = []
        while true {
            let isLast = Task.isCancelled
            let query = "SELECT id FROM credential_change WHERE id > ? ORDER BY id"
            seen += try await store.column(query, [.integer(seen.last ?? 0)]).compactMap(\.integer)
            if isLast { return seen }
        }
    }
}

/// One replica settles a fact about a user while another replica forgets the user.
@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(5))) struct ForgottenMeanwhileTests: ConformanceSuite {
    /// The row that both lock is gone when the settlement gets the lock. Without another try, the fact would be written nowhere.
    @Test func noFactIsLost() async throws {
        try await store.signIn(token: "r")
        try await store.receive(at: .start + .hours(1))
        let work = try await store.claimNotifications(at: .start + .hours(1))
        let event = Settlement.notification(work[0], .event(.consentRevoked, "user", at: .start + .hours(1)))
        let deletions = ["DELETE FROM credential", "DELETE FROM user_event"]
        await #expect(throws: StoreError.self) {
            try await store.race("SELECT * FROM user_event FOR UPDATE", in: "user_event", andThen: deletions) {
                try await store.settle([event], at: .start + .hours(1)).results
            }
        }
        #expect(try await store.settle([event], at: .start + .hours(1)).results == [.notification(.applied)])
        #expect(try await store.rows("SELECT state, reason FROM user_state") == [["revoked", "consent_revoked"]])
    }
}
