// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import NIOConcurrencyHelpers
import Testing

@testable import PostgresStore

/// An undo on a server, while another process has locked a row that decides about it.
@Suite(.timeLimit(.minutes(5))) struct ImportUndoLockTests {
    private static let later = Timestamp.start + .hours(1)

    private let store: StoreUnderTest
    private let other: ConnectionThread
    private let isDone = NIOLockedValueBox(false)

    /// An import that waits in the queue.
    init() async throws {
        store = try StoreKind.postgres.make()
        #expect(try await store.ports.append(Self.batch("a", of: "ann"), at: .start) != nil)
        other = ConnectionThread(try #require(store.ports as? PostgresStore).address, label: "other")
    }

    private static func batch(_ key: String, after: String? = nil, of user: String) -> ImportBatch {
        let signIn = ToldSignIn(clientID: "app", userID: user, proof: .refreshToken(Secret("r.\(user)")), signedInAt: .start)
        return ImportBatch(importID: "one", key: key, after: after, signIns: [signIn])
    }

    private func race<Value: Sendable>(
        _ change: String,
        in table: String,
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await other.begin(change)
        let task = Task { [isDone] in
            defer { isDone.withLockedValue { $0 = true } }
            return try await body()
        }
        // In this schema only, because other tests wait for locks of their own.
        let waiting = """
            SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_locks WHERE relation = '\(table)'::regclass)
            """
        while try await store.column(waiting) == [0], !isDone.withLockedValue({ $0 }) { try Task.checkCancellation() }
        #expect(!isDone.withLockedValue { $0 })
        try await other.run { connection in
            try connection.send("COMMIT")
            try connection.flush()
        }
        let value = try await task.value
        await other.close()
        return value
    }

    private func undo() async throws -> UndoneImport {
        guard case .importUndone(let undone)? = try await store.ask(.undoImport("one"), at: Self.later) else {
            throw StoreError.retry("no answer")
        }
        return undone
    }

    /// Otherwise the undo would take a user whose sign-in a backend has told.
    @Test func anUndoWaitsForASettlementOfItsUser() async throws {
        try await store.settleGrants(at: .start)
        let undone = try await race("UPDATE credential SET imported_by = NULL", in: "credential") { try await undo() }
        #expect(undone.removed == 0 && !undone.isDone)
        #expect(try await store.count("credential") == 1)
    }

    /// Otherwise siwatch would settle a row that the undo counts as gone.
    @Test func anUndoWaitsForAClaimOfItsRow() async throws {
        let claim = "UPDATE grant_queue SET claimed_by = 'other', due_at = \(Timestamp.legal.upperBound.milliseconds)"
        let undone = try await race(claim, in: "grant_queue") { try await undo() }
        #expect(undone.claimed == 1 && undone.taken == 0)
        #expect(try await store.count("grant_queue") == 1)
    }

    /// Otherwise a batch could be committed after the undo has looked for the last time.
    @Test func aBatchWaitsForTheUndoOfTheBatchBefore() async throws {
        let undo = """
            WITH undone AS MATERIALIZED (SELECT id FROM import FOR UPDATE)
            DELETE FROM request_key WHERE client = '\(ImportBatch.owner(of: "one"))' AND EXISTS (SELECT 1 FROM undone)
            """
        let told = try await race(undo, in: "import") { [store] in
            try await store.ports.append(Self.batch("b", after: "a", of: "bob"), at: .start)
        }
        #expect(told == nil)
        #expect(try await store.count("grant_queue") == 1)
        #expect(try await store.ports.toldImports().map(\.signIns) == [1])
    }
}
