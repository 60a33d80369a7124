// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Testing

@testable import PostgresStore

/// The findings of `siwatch doctor --before-start` about a server, and siwatch's view of other sessions on it.
@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(10))) struct ExaminationTests: ConformanceSuite {
    private var postgres: PostgresStore { store.postgres }
    private var address: PostgresAddress { postgres.address }

    private func examine(as user: String? = nil, clockOffset: Duration = .zero) async throws -> ServerExamination {
        let address = try user.map { try PostgresUnderTest.address(postgres.address, as: $0) } ?? postgres.address
        let now = try await postgres.time.advanced(by: clockOffset)
        return try PostgresStore.examine(address, clock: WallClock(now: { now }, sleep: { _, _ in }), clockSkew: .minutes(5))
    }

    /// Makes a role without rights beside the roles of other tests.
    private func makeRole(_ name: String, _ rights: [String]) async throws -> String {
        let role = "\(name)_\(address.schema)"
        try await store.run("CREATE ROLE \(role) LOGIN")
        for right in rights { try await store.run("GRANT \(right) TO \(role)") }
        return role
    }

    private static func reading(_ schema: String) -> [String] { ["USAGE ON SCHEMA \(schema)", "SELECT ON ALL TABLES IN SCHEMA \(schema)"] }

    @Test func nothingKeepsTheOwnerFromWorking() async throws {
        let found = try await examine()
        #expect(found.obstacles == [])
        #expect(!found.warnings.contains { $0.contains("clock") || $0.contains("pg_read_all_stats") || $0.contains("pooler") })
    }

    /// Each right is needed. One of them is not enough.
    @Test func whoMayOnlyReadIsNotToRunIt() async throws {
        let role = try await makeRole("looker", Self.reading(address.schema))
        let obstacle = try #require(try await examine(as: role).obstacles.first)
        #expect(obstacle.contains("this user may not write") && obstacle.contains("notification_queue"), "\(obstacle)")
    }

    @Test func whoHasNoRightsIsTold() async throws {
        let obstacle = try #require(try await examine(as: makeRole("nobody", [])).obstacles.first)
        #expect(obstacle.contains("may not use the schema \(address.schema)"), "\(obstacle)")
    }

    /// The tests' servers need not survive a crash of their host.
    @Test func settingsThatLoseCommitsAreNamed() async throws {
        #expect(try await examine().warnings.contains { $0.hasPrefix("fsync is off: ") })
    }

    /// By default the server logs the parameters of a successful statement that is slow.
    @Test(arguments: [
        ("log_min_duration_statement = '500ms'", "log_min_duration_statement is 500ms"),
        ("log_min_duration_statement = 0", "statement is 0"),
        ("log_statement = 'mod'", "log_statement is mod"), ("log_transaction_sample_rate = 0.1", "rate is 0.1"),
        ("log_parameter_max_length_on_error = 64", "log_parameter_max_length_on_error is 64"),
    ])
    func aLogThatQuotesWhatIsBoundIsNamed(_ setting: String, _ words: String) async throws {
        func warning(as user: String? = nil) async throws -> String? {
            try await examine(as: user).warnings.first { $0.contains("its token too") && $0.contains("log_parameter_max_length") }
        }
        #expect(try await warning() == nil)
        // For siwatch's own sessions, and for another role that inserts.
        let role = try await makeRole("logged", Self.reading(address.schema))
        try await store.run("ALTER ROLE \(role) SET \(setting)")
        #expect(try await warning(as: role)?.contains(words) == true)
        #expect(try await warning() == nil)
        try await store.run("GRANT INSERT (refresh_token) ON grant_queue TO \(role)")
        #expect(try await warning()?.contains("\(words) for \(role)") == true)
        // A setting that hides the parameters for only one of them is not enough.
        try await store.run("ALTER ROLE \(role) SET log_parameter_max_length = 0")
        #expect(try await warning()?.contains("\(words) for \(role)") == true)
        #expect(try await warning(as: role) != nil)
    }

    @Test func whoElseHasTheTokensIsNamed() async throws {
        #expect(try await !examine().warnings.contains { $0.contains("grant_queue") })
        let role = try await makeRole("reports", ["SELECT ON grant_queue"])
        let member = try await makeRole("boss", [role])
        try await store.run("CREATE PUBLICATION copies_\(address.schema) FOR TABLE grant_queue")
        let warnings = try await examine().warnings
        let rights = "\(member), \(role) may read the tokens and codes that stand in grant_queue"
        #expect(warnings.contains { $0.hasPrefix(rights) }, "\(warnings)")
        let copies = "the publication copies_\(address.schema) sends its subscribers the tokens"
        #expect(warnings.contains { $0.hasPrefix(copies) }, "\(warnings)")
    }

    @Test func aClockThatIsOffIsNamed() async throws {
        let begin = ContinuousClock.now
        let warnings = try await examine(clockOffset: .minutes(-10)).warnings
        // The wrong clock stands still while siwatch asks the server.
        let most = 601 + begin.duration(to: .now).components.seconds
        let apart = warnings.compactMap { $0.firstMatch(of: /are ([0-9]+) s apart/).flatMap { Int64($0.output.1) } }
        #expect(apart.count == 1 && apart.allSatisfy { (600...most).contains($0) }, "\(warnings)")
    }

    @Test func whoDoesNotSeeOthersSnapshotsIsTold() async throws {
        let blind = try await makeRole("blind", Self.reading(address.schema))
        #expect(try await examine(as: blind).warnings.contains { $0.contains("GRANT pg_read_all_stats TO \(blind)") })
        let seeing = try await makeRole("seeing", Self.reading(address.schema) + ["pg_read_all_stats"])
        #expect(try await !examine(as: seeing).warnings.contains { $0.contains("pg_read_all_stats") })
    }

    /// The session that pins dead rows is mostly a report or a backup of another user.
    @Test func aSnapshotOfAnotherUserIsSeen() async throws {
        let role = try await makeRole("watcher", ["pg_read_all_stats"])
        let watcher = PostgresStore(try PostgresUnderTest.address(address, as: role))
        let report = ConnectionThread(address, label: "report")
        try await report.begin("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        let begin = try await report.run { try $0.rows("SELECT (floor(extract(epoch FROM now()) * 1000))::bigint").first?.time(at: 0) }
        // Other tests hold snapshots too, for the length of a statement.
        let since = try #require(try await watcher.oldestSnapshot(heldFor: .zero))
        #expect(try since <= #require(begin))
        await report.close()
        try await watcher.close()
    }
}

/// Whether backends can insert.
@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(10))) struct InsertObstacleTests: ConformanceSuite {
    private var postgres: PostgresStore { store.postgres }

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
