// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

/// What `siwatch import` asks of a store, and how an import is undone.
@Suite(.timeLimit(.minutes(10))) struct ImportDeskTests {
    private static func signIn(_ user: String, client: String = "app", token: String? = nil, at time: Timestamp = .start) -> ToldSignIn {
        ToldSignIn(clientID: client, userID: user, proof: token.map { .refreshToken(Secret($0)) }, signedInAt: time)
    }

    private static func batch(_ key: String, _ signIns: [ToldSignIn]) -> ImportBatch {
        ImportBatch(importID: "one", key: key, signIns: signIns)
    }

    /// Undoes all batches, as the command does.
    private static func undo(_ store: StoreUnderTest, at now: Timestamp = .start) async throws -> ImportUndo {
        var total = ImportUndo()
        while true {
            let answer = try await store.ask(.undoImport(id: "one", after: total.key ?? ""), at: now)
            guard case .importUndone(let undo) = answer else {
                Issue.record("\(answer.debugDescription)")
                return total
            }
            guard let key = undo.key else { return total }
            total.key = key
            total.removed += undo.removed
            total.forgotten += undo.forgotten
            total.kept += undo.kept
            total.busy += undo.busy
        }
    }

    @Test(arguments: StoreKind.allCases) func aBatchIsToldOnceForThirtyDays(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let address = EmailAddress("é\"@example.com", isPrivate: false)
        var ann = Self.signIn("ann", token: #"r\"1"#)
        ann.address = address
        let batch = Self.batch("a", [ann, Self.signIn("bob", client: "web", at: .start - .days(900))])
        #expect(try await store.ports.append(batch, at: .start) == ToldBatch(rows: [1, 2], isKnown: false))
        #expect(try await store.ports.append(batch, at: .start) == ToldBatch(rows: [1, 2], isKnown: true))
        let columns = "client_id, user_id, refresh_token, email, email_is_private, granted_at, due_at"
        #expect(
            try await store.rows("SELECT \(columns) FROM grant_queue ORDER BY id") == [
                ["app", "ann", #"r\"1"#, "é\"@example.com", 0, .at(.start), 0], ["web", "bob", nil, nil, nil, .at(.start - .days(900)), 0],
            ]
        )
        try await store.ports.forget(at: .start + .days(30), naming: PlainSealer())
        #expect(try await store.ports.append(batch, at: .start).isKnown)
        try await store.ports.forget(at: .start + .days(30) + .milliseconds(1), naming: PlainSealer())
        #expect(try await !store.ports.append(batch, at: .start).isKnown)
    }

    @Test(arguments: StoreKind.allCases) func theAnswersAreThoseOfTheTokens(_ kind: StoreKind) async throws {
        let store = try kind.make()
        _ = try await store.ports.append(Self.batch("a", [Self.signIn("ann", token: "r")]), at: .start)
        let asked = [CredentialID(clientID: "app", userID: "ann"), CredentialID(clientID: "web", userID: "ann")]
        #expect(try await store.ports.importedTokens(of: asked) == [nil, nil])
        try await store.settleGrants(at: .start)
        let unasked = ImportedToken(grantedAt: .start, answer: nil, hasFailed: false)
        #expect(try await store.ports.importedTokens(of: asked) == [unasked, nil])
        try await store.reject("ann", at: .start + .hours(1))
        #expect(try await store.ports.importedTokens(of: asked)[0]?.answer == .rejected)
    }

    @Test(arguments: StoreKind.allCases) func anUndoRemovesWhatWaitsAndWhatAppleHasNotAccepted(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn("known", token: "k", at: .start - .days(9), now: .start)
        let first = [
            Self.signIn("ann", token: "a"), Self.signIn("bob", token: "b"), Self.signIn("known", token: "n"),
            // At another client than the one that siwatch knows.
            Self.signIn("known", client: "web", token: "w"),
            // Two sign-ins of one user.
            Self.signIn("eve", token: "e1", at: .start - .days(3)), Self.signIn("eve", token: "e2"), Self.signIn("tom"),
        ]
        _ = try await store.ports.append(Self.batch("a", first), at: .start)
        try await store.settleGrants(at: .start)
        try await store.accept("bob")
        _ = try await store.ports.append(Self.batch("b", [Self.signIn("late", token: "l"), Self.signIn("later", token: "l")]), at: .start)
        let live = try await store.ports.append([.signIn(Self.signIn("today", token: "t"), key: nil)], at: .start)
        #expect(live.count == 1)

        let undo = try await Self.undo(store)
        // ann, eve, tom, and known at web are gone. bob is accepted, and of known at app more is known.
        #expect([undo.removed, undo.forgotten, undo.kept, undo.busy] == [2, 4, 2, 0])
        #expect(try await store.column("SELECT user_id FROM grant_queue") == ["today"])
        #expect(try await store.column("SELECT user_id FROM credential ORDER BY user_id") == ["bob", "known"])
        #expect(try await store.column("SELECT CAST(SUM(count) AS BIGINT) FROM credential_count") == [2])
        #expect(try await store.ports.queues().first { $0.queue == "grant" }?.depth == 1)
        #expect(try await store.count("request_key") == 0)

        // The right file tells them anew.
        _ = try await store.ports.append(Self.batch("a", first), at: .start)
        try await store.settleGrants(at: .start)
        #expect(try await store.column("SELECT COUNT(*) FROM user_state WHERE user_id = 'ann' AND state = 'authorized'") == [1])
    }

    @Test(arguments: StoreKind.allCases) func aClaimedRowIsLeftForARepeatedUndo(_ kind: StoreKind) async throws {
        let store = try kind.make()
        _ = try await store.ports.append(Self.batch("a", [Self.signIn("ann", token: "a"), Self.signIn("bob", token: "b")]), at: .start)
        let claimed = try await store.claimGrants(upTo: 1)
        let undo = try await Self.undo(store)
        #expect([undo.removed, undo.forgotten, undo.busy] == [1, 0, 1])
        _ = try await store.settle(claimed.map { .grant($0, .acceptance(of: $0)) })
        let again = try await Self.undo(store)
        #expect([again.removed, again.forgotten, again.busy] == [0, 1, 0])
        #expect(try await store.count("credential") == 0)
        #expect(try await Self.undo(store).key == nil)
    }
}
