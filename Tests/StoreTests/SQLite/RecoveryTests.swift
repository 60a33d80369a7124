// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

@Suite(.eachStore, .on(.file)) struct RecoveryTests: ConformanceSuite {
    @Test func whatWasCommittedIsThere() async throws {
        let file = try TemporaryFile()
        let first = try SQLiteStore.open(DatabaseFile(path: file.path))
        try first.register([AppClients(name: "example", clientIDs: ["app", "web"])])
        let secret = try first.sealedSecret(named: "fingerprint") { [1, 2, 3] }
        let key = SigningKeyRecord(keyID: "k", jwk: "{}", lastSeenAt: .start)
        try await first.remember([key], forgetting: [])
        try first.close()

        let second = try StoreUnderTest(file)
        #expect(secret == [1, 2, 3])
        #expect(
            try second.sqlite.sealedSecret(named: "fingerprint") {
                Issue.record("made twice"); return []
            } == secret
        )
        #expect(try SQLiteStore.hasSealedRows(in: DatabaseFile(path: file.path)))
        #expect(try await second.sqlite.signingKeys() == [key])
        #expect(try await second.signIn(client: "web") == .grant(.applied, nil))
    }

    @Test func aNewFileHoldsNothingSealed() throws {
        #expect(try SQLiteStore.hasSealedRows(in: DatabaseFile(path: store.file.path)) == false)
    }

    /// A starting daemon holds the only lock on the database, so it knows that every claim is void.
    @Test func voidClaimsAreDueAtOnce() async throws {
        try await store.receive(2)
        try await store.grant()
        try await store.signIn("another", token: "r")
        let due = Timestamp.start + .days(2)
        let work = try await store.claimNotifications(at: due)
        _ = try await store.claimGrants(at: due)
        _ = try await store.claimCredentials(at: due)
        _ = try await store.settle(.notification(work[1], .postponed(until: due + .minutes(1))), at: due)

        try store.sqlite.recover()
        #expect(try await store.claimNotifications(at: due).map(\.claim) == [Claim(owner: work[0].claim.owner, attempts: 2)])
        // siwatch may have asked Apple, so a credential waits for the end of its lease.
        #expect(try await store.claimCredentials(at: due).isEmpty)
        #expect(try await store.settle(.notification(work[0], .event(.consentRevoked)), at: due) == .superseded)
    }

    /// Rows that died with a process have an attempt, and no others have.
    @Test func onlyWhatWasUnderWayIsSuspected() async throws {
        try await store.receive(3)
        let work = try await store.claimNotifications(upTo: 2)
        _ = try await store.settle(.notification(work[0], .postponed(until: .start + .minutes(1))))
        for _ in 1...2 {
            try store.sqlite.recover()
            #expect(try await store.claimNotifications(upTo: 1).map(\.id) == [2])
        }
        #expect(try await store.column("SELECT attempts FROM notification_queue ORDER BY id") == [0, 3, 0])

        try store.sqlite.recover()
        #expect(try await store.claimNotifications().map(\.id) == [2])
        #expect(try await store.claimNotifications().map(\.id) == [3])
        #expect(try await store.claimNotifications(at: .start + .minutes(1)).map(\.claim.attempts) == [1])
    }

    @Test func theQueuesAreCountedAnew() async throws {
        try await store.receive(5)
        try await store.run("DELETE FROM notification_queue WHERE id = 2")
        #expect(try await store.sqlite.queues().map(\.depth) == [5, 0, 0])
        try await store.run("INSERT INTO revocation_queue (client_id, user_id) VALUES ('app', 'user')")
        try store.sqlite.recover()
        #expect(try await store.sqlite.queues().map(\.depth) == [4, 0, 1])
    }

    /// An operator who empties the quarantine by hand makes room in the ring.
    @Test func theRingIsCountedAnew() async throws {
        func reject(_ count: Int) async throws -> Int {
            try await store.receive(count)
            let work = try await store.claimNotifications(upTo: count)
            return try await store.settle(work.map { .notification($0, .rejected(.malformed, detail: "")) }).evicted
        }
        #expect(try await reject(10_000) == 0)
        try await store.run("DELETE FROM notification_quarantine WHERE id % 2 = 0")
        try store.sqlite.recover()
        #expect(try await reject(5_000) == 0)
        #expect(try await reject(1) == 1)
    }

    @Test func whoOnlyLooksSeesTheSame() async throws {
        try await store.signIn()
        try await store.grant("another")
        let reader = try SQLiteStore.openForReading(DatabaseFile(path: store.file.path))
        #expect(try await reader.queues() == store.sqlite.queues())
        #expect(try await reader.credentialCounts() == [CredentialCount(app: "example", state: "authorized", count: 1)])
        await #expect(throws: StoreError.self) { try await reader.claimGrants(upTo: 1, at: .start, lease: .seconds(1)) }
        try reader.close()
    }

    // MARK: Ids that begin anew

    /// siwatch has settled nine notifications. A person resets `sqlite_sequence`, as people do who empty tables.
    private func reset() async throws {
        try await store.receive(9)
        let work = try await store.claimNotifications()
        _ = try await store.settle(work.map { .notification($0, .rejected(.expired, detail: "")) })
        try await store.run("DELETE FROM sqlite_sequence")
    }

    private func depth() async throws -> Int? { try await store.ports.queues().first { $0.queue == "notification" }?.depth }

    @Test func ofIdsThatBeginAnewEveryRowIsTaken() async throws {
        try await reset()
        try await store.receive(3)
        #expect(try await store.claimNotifications().map(\.id) == [1, 2, 3])
        #expect(try await depth() == 3)
        try await store.receive("later")
        #expect(try await store.claimNotifications().map(\.text) == ["later"])
        #expect(try await depth() == 4)
        #expect(try await store.column("SELECT MAX(id) FROM notification_queue") == [10])
    }

    /// The new ids pass the mark before siwatch looks.
    @Test(arguments: [Duration.zero, StoreUnderTest.lease]) func alsoWhereTheyAreAboveTheMarkAlready(_ later: Duration) async throws {
        try await reset()
        try await store.receive(10)
        let now = Timestamp.start + later
        var ids: [Int64] = []
        for _ in 1...4 { ids += try await store.claimNotifications(at: now).map(\.id) }
        // While a claim of the old ids has its lease, the new ids up to the mark look like its rows.
        #expect(ids.sorted() == (later == .zero ? [10] : Array(1...10)))
        for _ in 1...4 { ids += try await store.claimNotifications(at: .start + StoreUnderTest.lease).map(\.id) }
        #expect(Set(ids) == Set(1...10))
    }

    /// A reset loses no claim under way.
    @Test func aResetVoidsNoClaim() async throws {
        try await store.receive(2)
        let work = try await store.claimNotifications(upTo: 1)
        try await store.run("DELETE FROM sqlite_sequence")
        try await store.receive("third")
        #expect(try await store.claimNotifications().map(\.id) == [2, 3])
        #expect(try await store.settle(.notification(work[0], .rejected(.expired, detail: ""))) == .quarantined(.expired))
    }

    // MARK: The file

    @Test func aFileThatIsMovedOrReplacedIsSeen() async throws {
        let (path, moved) = (store.file.path, store.file.path + ".moved")
        #expect(store.sqlite.displacement(from: path) == nil)
        try FileManager.default.moveItem(atPath: path, toPath: moved)
        #expect(store.sqlite.displacement(from: path) == "\(path) is gone, and siwatch has its file still open")
        try Data().write(to: store.file.url)
        #expect(store.sqlite.displacement(from: path) == "\(path) is not the file any more that siwatch has open")
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.moveItem(atPath: moved, toPath: path)
        #expect(store.sqlite.displacement(from: path) == nil)
        #expect(try SQLiteStore.inMemory().displacement(from: path) == nil)
    }
}

@Suite(.eachStore, .on(.file)) struct DurabilityTests: ConformanceSuite {
    @Test(
        arguments: [
            // A commit is on disk, and checkpoints are ours to time.
            ("synchronous", 2), ("wal_autocheckpoint", 0),
            // What is deleted is overwritten.
            ("secure_delete", 1), ("temp_store", 2),
            ("foreign_keys", 1), ("busy_timeout", 5000), ("application_id", 0x5349_5741),
            ("user_version", FrozenDatabases.versions.upperBound),
        ]
    )
    func everySettingIsAsItShouldBe(_ pragma: String, _ value: Int) async throws {
        #expect(try await store.pragma(pragma) == value)
        #expect(try await store.column("PRAGMA journal_mode") == ["wal"])
    }
}
