// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Testing

/// An undo on a server, while another process has locked a row that decides about it.
@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(5))) struct ImportUndoLockTests: ConformanceSuite {
    private static let later = Timestamp.start + .hours(1)

    /// An import that waits in the queue.
    init() async throws { #expect(try await store.ports.append(Self.batch("a", of: "ann"), at: .start) != nil) }

    private static func batch(_ key: String, after: String? = nil, of user: String) -> ImportBatch {
        let signIn = ToldSignIn(clientID: "app", userID: user, proof: .refreshToken(Secret("r.\(user)")), signedInAt: .start)
        return ImportBatch(importID: "one", key: key, after: after, signIns: [signIn])
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
        let undone = try await store.race("UPDATE credential SET imported_by = NULL", in: "credential") { try await undo() }
        #expect(undone.removed == 0 && !undone.isDone)
        #expect(try await store.count("credential") == 1)
    }

    /// Otherwise siwatch would settle a row that the undo counts as gone.
    @Test func anUndoWaitsForAClaimOfItsRow() async throws {
        let claim = "UPDATE grant_queue SET claimed_by = 'other', due_at = \(Timestamp.legal.upperBound.milliseconds)"
        let undone = try await store.race(claim, in: "grant_queue") { try await undo() }
        #expect(undone.claimed == 1 && undone.taken == 0)
        #expect(try await store.count("grant_queue") == 1)
    }

    /// Otherwise a batch could be committed after the undo has looked for the last time.
    @Test func aBatchWaitsForTheUndoOfTheBatchBefore() async throws {
        let undo = """
            WITH undone AS MATERIALIZED (SELECT id FROM import FOR UPDATE)
            DELETE FROM request_key WHERE client = '\(ImportBatch.owner(of: "one"))' AND EXISTS (SELECT 1 FROM undone)
            """
        let told = try await store.race(undo, in: "import") {
            try await store.ports.append(Self.batch("b", after: "a", of: "bob"), at: .start)
        }
        #expect(told == nil)
        #expect(try await store.count("grant_queue") == 1)
        #expect(try await store.ports.toldImports().map(\.signIns) == [1])
    }
}
