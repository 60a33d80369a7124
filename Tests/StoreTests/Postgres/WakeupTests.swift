// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import DaemonHarness
import NIOConcurrencyHelpers
import Testing

@testable import PostgresStore

/// The gate that wakes siwatch after inserts. Each test ends when it sees one, and hangs if none comes.
@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(5))) struct WakeupTests: ConformanceSuite {
    @Test func seesEveryInsert() async throws {
        var commits = store.postgres.commits().makeAsyncIterator()
        for _ in 1...20 {
            try await store.receive()
            await commits.next()
        }
    }

    @Test func seesTheFirstInsertAfterAPause() async throws {
        var commits = store.postgres.commits().makeAsyncIterator()
        await commits.next()
        for queue in ["grant_queue", "revocation_queue"] {
            // Until the gates are open again, and siwatch sleeps.
            while try await store.column("SELECT last_value FROM grant_queue_quiet") != [0] { try Task.checkCancellation() }
            try await store.run("INSERT INTO \(queue) (client_id, user_id) VALUES ('app', 'ann')")
            await commits.next()
        }
    }

    /// When siwatch no longer polls, only the server's notification can wake it.
    @Test func theServerWakesWhoSleeps() async throws {
        let address = store.postgres.address
        let sleeper = "sleeper_\(address.schema)"
        try await store.run("CREATE ROLE \(sleeper) LOGIN SUPERUSER")
        var commits = CommitListener(try PostgresUnderTest.address(address, as: sleeper)).commits().makeAsyncIterator()
        await commits.next()
        let sleepers = """
            SELECT COUNT(*) FROM pg_stat_activity
             WHERE usename = '\(sleeper)' AND state = 'idle' AND state_change < clock_timestamp() - INTERVAL '700 milliseconds'
            """
        while try await store.column(sleepers) != [1] { try Task.checkCancellation() }
        try await store.receive()
        await commits.next()
    }

    /// Of a hundred inserts in one moment, only the first notifies.
    @Test func aBusyQueueIsNotToldOfAgain() async throws {
        let listener = ConnectionThread(store.postgres.address, label: "listener")
        try await listener.run { connection in
            let channel = try connection.rows("SELECT \(sql: Schema.channel)").first?.text(at: 0) ?? ""
            try connection.run("LISTEN \(channel)")
        }
        func told() async throws -> Int64 { try await listener.run { try Int64($0.rows("SELECT 1").count + $0.notifications().count) } - 1 }
        var end: Int64
        var toldOfShutGate: Int64
        repeat {
            try Task.checkCancellation()
            end = try await time(of: store, plus: 900)
            try await store.run("SELECT setval('notification_queue_quiet', ?)", [.integer(end)])
            for _ in 1...10 { try await store.receive() }
            toldOfShutGate = try await told()
            // A slow machine may find the gate open again before the last of ten inserts. Try again then.
        } while try await time(of: store) > end
        #expect(toldOfShutGate == 0)
        let begin = try await time(of: store)
        try await store.run("SELECT setval('notification_queue_quiet', 0)")
        for _ in 1...10 { try await store.receive() }
        let toldOfOpenGate = try await told()
        // Each notification shuts the gate for a while, by the server's clock.
        let most = try await 1 + (time(of: store) - begin) / Int64(Schema.quiet)
        #expect(toldOfOpenGate >= 1 && toldOfOpenGate <= most)
    }

    /// By the server's clock, in milliseconds.
    private func time(of store: StoreUnderTest, plus milliseconds: Int64 = 0) async throws -> Int64 {
        let time = try await store.column("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")[0].integer
        return try #require(time) + milliseconds
    }

    /// Anybody who may connect may notify, as often as they like, and with pauses in which siwatch looks in vain.
    @Test(arguments: [(notifications: 3000, pause: 0.0), (100, 0.03)])
    func aFloodOfNotificationsWakesSeldom(notifications: Int, pause: Double) async throws {
        let address = store.postgres.address
        let role = "flooder_\(address.schema)"
        try await store.run("CREATE ROLE \(role) LOGIN")
        let flooder = ConnectionThread(try PostgresUnderTest.address(address, as: role), label: "flooder")
        let channel = try #require(try await store.rows("SELECT \(Schema.channel)")[0][0].text)
        let listener = CommitListener(address)
        let wakes = NIOLockedValueBox(0)
        let counting = Task { for await _ in listener.commits() { wakes.withLockedValue { $0 += 1 } } }
        try await eventually { wakes.withLockedValue(\.self) > 0 }
        let begin = ContinuousClock.now
        for _ in 1...notifications {
            try await flooder.run { connection in
                try connection.run("NOTIFY \(channel)")
                if pause > 0 { try connection.run("SELECT pg_sleep(\(pause))") }
            }
        }
        let seconds = begin.duration(to: .now) / .seconds(1)
        #expect(Double(wakes.withLockedValue(\.self)) <= 10 + 2 * seconds, "\(seconds) s")
        try await store.receive()
        counting.cancel()
    }

    /// An open transaction delays no other's notification.
    @Test func anOpenTransactionSilencesNobody() async throws {
        let open = ConnectionThread(store.postgres.address, label: "open")
        var commits = store.postgres.commits().makeAsyncIterator()
        await commits.next()
        try await open.begin("INSERT INTO notification_queue (payload) VALUES ('long')")
        let isShut = "SELECT last_value > extract(epoch FROM clock_timestamp()) * 1000 FROM notification_queue_quiet"
        while try await store.column(isShut) == [1] { try Task.checkCancellation() }
        try await store.receive("short")
        await commits.next()
        #expect(try await store.count("notification_queue") == 1)
        await open.close()
    }
}
