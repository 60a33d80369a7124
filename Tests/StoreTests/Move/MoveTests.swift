// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Testing

@testable import PostgresStore
@testable import SQLiteStore
@testable import siwatch

/// Moves every row from a file to PostgreSQL and back, with a proof. At no moment do two databases accept work.
@Suite(.timeLimit(.minutes(10))) struct MoveTests {
    private let scene: MoveScene

    init() async throws { scene = try await MoveScene() }

    // MARK: The copy

    @Test func everythingMovesAndComesBack() async throws {
        let there = try await scene.move().run(id: "1", at: .start)
        for table in there.tables { #expect(table.source.rows > 0 && table.isEqual, "\(table.name)") }
        #expect(there.states.count > 20)

        let file = try TemporaryFile.migrated()
        defer { file.remove() }
        let again = try await scene.back(to: file).run(id: "2", at: .start)
        #expect(again.tables.map(\.destination) == there.tables.map(\.source))
        // The result is a working store.
        let store = try SQLiteStore.open(DatabaseFile(path: file.path))
        try store.recover()
        #expect(try await store.queues().map(\.depth) == scene.store.sqlite.queues().map(\.depth))
        try store.close()
    }

    @Test func itGoesOnWhereItWas() async throws {
        let last = try await scene.store.column("SELECT seq FROM sqlite_sequence WHERE name = 'credential_change'")[0].integer ?? 0
        let depths = try await scene.store.sqlite.queues()
        _ = try await scene.move().run(id: "1", at: .start)

        let store = try StoreUnderTest(PostgresStore.open(scene.address))
        #expect(try await store.ports.queues().map(\.depth) == depths.map(\.depth))
        #expect(try await store.ports.queues().map(\.settled) == depths.map(\.settled))
        let now = Timestamp.start + .days(2)
        try await store.grant("new", token: "n", at: now)
        for work in try await store.claimGrants(at: now) where work.content?.credential.userID == "new" {
            _ = try await store.settle(.grant(work, .acceptance(of: work)), at: now)
        }
        let ids = try await store.column("SELECT id FROM credential_change WHERE user_id = 'new'")
        #expect(ids.first?.integer == last + 1)
        // A lockable breaker row for each app.
        #expect(try await store.column("SELECT app FROM breaker ORDER BY app") == store.column("SELECT id FROM app ORDER BY id"))
        // SQLite keeps its claims there.
        #expect(try await store.rows("SELECT name FROM counter WHERE name LIKE '%claimed%'").isEmpty)
        // Rows that an earlier process had claimed are due, and rows that were set aside come first.
        #expect(try await store.claimNotifications(at: now).count == 5)
    }

    @Test func aTableOfEitherStoreIsMovedOrItsOwn() async throws {
        let moved = Dictionary(uniqueKeysWithValues: StoredTable.all.map { ($0.name, $0.columns.map(\.name).sorted()) })
        #expect(try await TableContents.columns(ofFile: scene.store.door) == moved)
        // The running processes and their work have no meaning in another database.
        let own = ["replica", "lane", "settled_batch"]
        let onServer = try await TableContents.columns(ofServer: PostgresDoor(scene.address))
        #expect(onServer.filter { !own.contains($0.key) } == moved)
    }

    @Test func textThatIsNoneWaitsInNoQueue() async throws {
        try await scene.store.run("INSERT INTO grant_queue (client_id, user_id) VALUES ('app', CAST(x'ff' AS TEXT))")
        let id = try await scene.store.column("SELECT MAX(id) FROM grant_queue")[0].integer ?? 0
        await #expect(throws: MoveRefusal.unreadable(table: "grant_queue", column: "user_id", id: id)) {
            try await scene.move().run(id: "1", at: .start)
        }
        #expect(try scene.departure() == nil)
        // A settled row is in a log, and siwatch does not judge by logs.
        for work in try await scene.store.claimGrants(at: .start + .days(3)) {
            _ = try await scene.store.settle(.grant(work, work.content == nil ? .rejected(.malformed) : .unknownClient(lookedAt: .start)))
        }
        _ = try await scene.move().run(id: "1", at: .start)
        let door = PostgresDoor(scene.address)
        #expect(try await door.rows("SELECT user_id FROM grant_log WHERE user_id LIKE '%\u{FFFD}%'", []) == [["\u{FFFD}"]])
        #expect(try await door.rows("SELECT 1 FROM notification_quarantine WHERE detail = 'not yours: \u{FFFD}'", []) == [[1]])
    }

    /// A file bounds no text that a backend inserts, and siwatch puts it into a log when it rejects the row.
    @Test func textThatIsTooLongIsCut() async throws {
        for text in [String(repeating: "x", count: 9_999), String(repeating: "€", count: 9_999)] {
            try await scene.store.run("INSERT INTO revocation_queue (client_id, user_id) VALUES ('app', ?)", [.text(text)])
        }
        let now = Timestamp.start + .days(3)
        let requests = try await scene.store.claimRevocationRequests(at: now)
        for work in requests where work.credential == nil {
            _ = try await scene.store.settle(.revocationRequest(work, .rejected(.malformed)), at: now)
        }
        _ = try await scene.move().run(id: "1", at: .start)
        let long = "reason = 'malformed' AND octet_length(user_id) > 512"
        let lengths = "SELECT octet_length(user_id)::bigint FROM revocation_log WHERE \(long) ORDER BY 1"
        let rows = try await PostgresDoor(scene.address).rows(lengths, [])
        #expect(rows == [[2046], [2048]], "no character is cut in two")
    }

    // MARK: The proof

    @Test(
        arguments: [
            ("credential", "UPDATE credential SET answered_at = 1 WHERE user_id = 'person 7'"),
            ("credential_change", "DELETE FROM credential_change WHERE id = (SELECT MIN(id) FROM credential_change)"),
            ("notification_queue", "UPDATE notification_queue SET payload = '\\x00' WHERE payload = '\\x7bff007d'"),
            ("secret", "UPDATE secret SET sealed = '\\x00'"),
            ("operator_request", "SELECT nextval(pg_get_serial_sequence('operator_request', 'id'))"),
        ]
    )
    func aCopyThatIsNotTheSameIsNotCommitted(_ table: String, _ damage: String) async throws {
        let move = try scene.move()
        try await move.copy()
        try await #require(move.destination as? PostgresContents).damage(damage)
        await #expect {
            try await move.prove()
        } throws: {
            guard case StoreMove.Failure.notProved(let proof) = $0 else { return false }
            return proof.tables.filter { !$0.isEqual }.map(\.name) == [table]
        }
        await move.rollBack()
        #expect(try scene.departure() == nil)
        try await scene.store.receive()
        for table in StoredTable.all {
            #expect(try await PostgresDoor(scene.address).rows("SELECT COUNT(*) FROM \(table.name)", []) == [[0]], "\(table.name)")
        }
    }

    @Test func aStateThatDoesNotFollowIsFound() async throws {
        try await scene.store.publish("revoked", "consent_revoked", changedAt: 1, "person 7", client: "app")
        await #expect {
            try await scene.move().run(id: "1", at: .start)
        } throws: {
            guard case StoreMove.Failure.notProved(let proof) = $0 else { return false }
            return proof.tables.allSatisfy(\.isEqual) && proof.states.different == 1
        }
        #expect(try scene.departure() == nil)
    }

    // MARK: The source afterwards

    @Test func aFileThatWasLeftIsLeft() async throws {
        let move = try scene.move()
        _ = try await move.run(id: "1", at: .start)
        let departure = try scene.departure()
        #expect(departure == Departure(id: "1", destination: move.destination.place, at: .start, isComplete: true))
        #expect(throws: DatabaseFile.Unusable.self) { try SQLiteStore.open(scene.full.database) }
        await #expect {
            try await scene.store.receive()
        } throws: {
            "\($0)".contains("siwatch has moved to postgresql://")
        }
        await #expect(throws: (any Error).self) { try await scene.store.grant() }
        await #expect(throws: (any Error).self) { try await scene.store.requestRevocation() }
    }

    @Test func aSchemaThatWasLeftIsLeft() async throws {
        _ = try await scene.move().run(id: "1", at: .start)
        // A process that was at work, and has slept since.
        let old = try StoreUnderTest(PostgresStore.open(scene.address))
        let file = try TemporaryFile.migrated()
        defer { file.remove() }
        _ = try await scene.back(to: file).run(id: "2", at: .start)

        #expect(throws: StoreOpenError.self) { try PostgresStore.open(scene.address) }
        await #expect(throws: StoreError.self) { try await old.receive() }
        await #expect(throws: StoreError.self) { try await old.claimNotifications(at: .start + .days(9)) }
        await #expect(throws: StoreError.self) { try await old.claimCredentials(at: .start + .days(9)) }
        let left = try PostgresContents(scene.address)
        #expect(left.departure == Departure(id: "2", destination: file.path, at: .start, isComplete: true))
    }

    @Test func onlyAnEmptyStoreIsMovedTo() async throws {
        let store = try StoreUnderTest(PostgresStore.open(scene.address))
        try await store.receive()
        await #expect {
            try await scene.move().run(id: "1", at: .start)
        } throws: {
            if case MoveRefusal.notEmpty(_, let tables) = $0 { tables == ["notification_queue"] } else { false }
        }
        #expect(try scene.departure() == nil)
        // Rows that a first start made give way, among them the test's apps.
        try await store.run("DELETE FROM notification_queue")
        _ = try await scene.move().run(id: "1", at: .start)
    }

    @Test func nobodyIsAtWorkMeanwhile() async throws {
        let door = PostgresDoor(scene.address)
        let contents = try PostgresContents(scene.address)
        try await door.run(
            """
            INSERT INTO replica (owner, started_at, seen_at, replica, lanes)
            SELECT 'me', 0, extract(epoch FROM clock_timestamp()) * 1000 + 3600000, '{}', '[]'
            """,
            []
        )
        await #expect(throws: MoveRefusal.inUse(place: contents.place)) { try await contents.begin() }
        try await contents.rollBack()
        try await door.run("UPDATE replica SET seen_at = seen_at - 7200000", [])
        try await contents.begin()
    }

    /// A backend that still uses the file waits for the end, and then gets an error.
    @Test func nothingIsInsertedMeanwhile() async throws {
        let move = try scene.move()
        try await scene.store.run("PRAGMA busy_timeout = 0")
        try await move.copy()
        await #expect(throws: (any Error).self) { try await scene.store.receive() }
        await move.rollBack()
        try await scene.store.receive()
    }
}

extension PostgresContents {
    /// Runs inside the move's transaction.
    fileprivate func damage(_ sql: String) throws { try onConnection { try $0.run(sql) } }
}
