// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct ImportUndoTests: ImportUndoSuite {
    @Test func aWrongImportLeavesNoUser() async throws {
        try await imported("ann", "bob")
        try await store.signIn("cat", token: "c")
        let result = try await undo()
        #expect(result.removed == 2 && result.taken == 0 && result.stayed == 0 && result.claimed == 0)
        #expect(try await users() == ["cat"])
        for table in ["credential", "user_event"] {
            #expect(try await store.count("\(table) WHERE user_id IN ('ann', 'bob')") == 0, "\(table)")
        }
        #expect(try await store.count("user_event WHERE email IS NOT NULL") == 0)
        #expect(try await store.rows("SELECT state, count FROM credential_count WHERE count <> 0") == [["authorized", 1]])
        // The logs are history, and nothing is told.
        #expect(try await store.count("grant_log") == 3)
        #expect(try await store.count("credential_change WHERE kind = 'state'") == 3)
        #expect(try await undo() == UndoneImport(), "a second undo finds nothing")
        #expect(try await store.ports.toldImports().map(\.signIns) == [0])
    }

    @Test func aRehearsalChangesNothing() async throws {
        try await imported("ann", "cat")
        try await store.signIn("cat", at: Self.later)
        // Two rows of one user, of which the undo takes the waiting one first.
        try await tell([Self.signIn("bob"), Self.signIn("ann", token: nil, at: .start + .minutes(1))], key: "b")
        let result = try await store.ports.rehearseUndo(of: "one", at: Self.later)
        #expect(result.removed == 1 && result.taken == 2 && result.stayed == 1 && result.isDone)
        #expect(try await users() == ["ann", "cat"])
        #expect(try await store.count("grant_queue") == 2)
        let undone = try await undo()
        #expect(undone.removed == 1 && undone.taken == 2 && undone.stayed == 1)
        #expect(try await store.ports.rehearseUndo(of: "none", at: Self.later) == UndoneImport())
    }

    @Test func waitingRowsLeaveTheQueue() async throws {
        try await tell([Self.signIn("ann"), Self.signIn("bob", client: "nowhere")])
        #expect(try await undo().taken == 2)
        #expect(try await store.count("grant_queue") == 0)
        #expect(try await store.column("SELECT value FROM counter WHERE name = 'grant_queue_removed'") == [2])
    }

    /// The daemon settles the row, and the repeated undo judges the credential.
    @Test func aClaimedRowIsLeftForTheNextTry() async throws {
        try await tell([Self.signIn("ann")])
        let work = try await store.claimGrants(at: Self.later)[0]
        let first = try await undo()
        #expect(first.claimed == 1 && first.removed == 0 && first.taken == 0)
        #expect(try await store.settle(.grant(work, .acceptance(of: work)), at: Self.later) == .grant(.applied, nil))
        #expect(try await undo().removed == 1)
        #expect(try await users() == [])
    }

    /// One transaction holds up settlements only briefly.
    @Test func anUndoGoesInPortions() async throws {
        try await tell((1...510).map { Self.signIn("settled\($0)") })
        while try await !store.settleGrants(at: .start).isEmpty {}
        try await tell((1...505).map { Self.signIn("waiting\($0)") }, key: "b")
        var portions: [[Int]] = []
        while portions.last != [0, 0] {
            guard case .importUndone(let undone)? = try await store.ask(.undoImport("one"), at: Self.later) else { break }
            portions.append([undone.taken, undone.removed])
            #expect(undone.isDone == (portions.last == [0, 0]))
        }
        #expect(portions == [[500, 0], [5, 0], [0, 500], [0, 10], [0, 0]])
        #expect(try await store.count("credential") == 0)
    }

    /// The lease has ended, and the process that held it wakes up after the undo.
    @Test func aLateSettlementBringsNobodyBack() async throws {
        try await tell([Self.signIn("ann")])
        let work = try await store.claimGrants(at: .start)[0]
        #expect(try await undo().taken == 1)
        #expect(try await store.settle(.grant(work, .acceptance(of: work)), at: Self.later) == .superseded)
        #expect(try await users() == [])
    }

    /// The form that the pages advise: the token, and a later sign-in without one. The second row finds the credential of the first.
    @Test func severalLinesOfAUserAreOneImport() async throws {
        try await tell([Self.signIn("ann"), Self.signIn("bob")], settledAt: .start)
        try await tell([Self.signIn("ann", token: nil, at: .start + .minutes(1))], key: "b", settledAt: Self.later)
        let result = try await undo()
        // The third line removed nothing by itself.
        #expect(result.removed == 2 && result.stayed == 1)
        #expect(try await users() == [])
    }

    /// The import's sign-in at a wrong client made the user count as signed in, so a follower that heard of the end kept the session.
    @Test func anEndThatTheImportHidIsToldAgain() async throws {
        try await store.signIn("ann", token: "a")
        try await tell([Self.signIn("ann", client: "web")], settledAt: Self.later)
        try await store.run(
            """
            UPDATE credential SET state = 'revoked', reason = 'token_rejected', changed_at = granted_at + 2, verified_at = granted_at + 2,
                   rejected_at = granted_at + 3
             WHERE user_id = 'ann' AND client = (SELECT id FROM client WHERE client_id = 'app')
            """
        )
        try await store.run("UPDATE credential_count SET count = 1 WHERE state = 'authorized'")
        #expect(try await store.column("SELECT state FROM user_state") == ["authorized"])
        #expect(try await undo().removed == 1)
        #expect(try await store.column("SELECT state FROM user_state") == ["revoked"])
        let columns = "client_id, from_state, to_state, reason, source"
        let last = try await store.rows("SELECT \(columns) FROM credential_change ORDER BY id DESC LIMIT 1")
        #expect(last == [["app", "revoked", "revoked", "token_rejected", "refresh"]])
    }

    /// Nothing stays that the right import would be stale against.
    @Test func theSameUsersCanBeImportedAgain() async throws {
        try await imported("ann")
        _ = try await undo()
        try await tell([Self.signIn("ann")])
        #expect(try await store.settleGrants(at: Self.later) == [.grant(.applied, nil)])
        #expect(try await users() == ["ann"])
        #expect(try await undo().removed == 1)
    }

    @Test func anImportThatIsTakenBackTellsNoFurtherBatch() async throws {
        func batch(_ key: String, after: String?, _ user: String) -> ImportBatch {
            ImportBatch(importID: "one", key: key, after: after, signIns: [Self.signIn(user)])
        }
        #expect(try await store.ports.append(batch("a", after: nil, "ann"), at: .start) != nil)
        #expect(try await store.ports.append(batch("b", after: "a", "bob"), at: .start) != nil)
        #expect(try await undo().taken == 2)
        #expect(try await store.ports.append(batch("c", after: "b", "cat"), at: .start) == nil)
        #expect(try await store.count("grant_queue") == 0)
        #expect(try await store.count("request_key") == 0)
        // The same command once more.
        #expect(try await store.ports.append(batch("a", after: nil, "ann"), at: .start)?.isKnown == false)
        #expect(try await store.ports.append(batch("a", after: nil, "ann"), at: .start)?.isKnown == true)
        #expect(try await store.count("grant_queue") == 1)
    }

    @Test func canariesAndAdmittedRejectionsGoWithTheirCredential() async throws {
        try await imported("ann", "bob")
        try await store.signIn("ann", client: "web", token: "w")
        try await store.signIn("bob", at: Self.later)
        try await store.run("INSERT INTO canary (user_id, client, asked_at) SELECT user_id, client, 1 FROM credential")
        try await store.run(
            """
            INSERT INTO admitted_rejection (app, client, user_id, granted_at, rejected_at, admitted_at)
            SELECT app, client, user_id, 1, 2, 3 FROM credential
            """
        )
        #expect(try await store.count("admitted_rejection") == 3)
        #expect(try await undo().removed == 1)
        for table in ["canary", "admitted_rejection"] {
            let credentials = "\(table) t JOIN client ON client.id = t.client"
            let left = try await store.rows("SELECT t.user_id, client.client_id FROM \(credentials) ORDER BY t.user_id")
            #expect(left == [["ann", "web"], ["bob", "app"]], "\(table)")
        }
    }

    @Test func theCountsOfTheAppForgetTheCredential() async throws {
        try await imported("ann", "bob")
        try await store.signIn("bob", at: Self.later)
        try await store.run(
            """
            UPDATE credential
               SET unverified = TRUE, never_accepted = TRUE, answer = 'another_user', answered_at = granted_at,
                   pending_since = granted_at, pending_asked_at = granted_at, pending_key = 'KEY'
            """
        )
        try await store.run("UPDATE app SET unverified = 2, pending = 2, never_accepted = 2, foreign_tokens = 2 WHERE name = 'example'")
        #expect(try await undo().removed == 1)
        let counts = try await store.rows("SELECT unverified, pending, never_accepted, foreign_tokens FROM app WHERE name = 'example'")
        #expect(counts == [[1, 1, 1, 1]])
    }

    @Test func anOldImportIsUndoneToo() async throws {
        try await imported("ann", "bob")
        try await store.signIn("bob", at: Self.later)
        let now = Timestamp.start + .days(800)
        try await store.ports.forget(at: now, naming: PlainSealer())
        #expect(try await store.count("grant_log") == 0)
        #expect(try await undo(at: now).removed == 1)
        #expect(try await users() == ["bob"])
    }

    @Test func anAnswerUnderWayBringsNobodyBack() async throws {
        try await imported("ann")
        let now = Timestamp.start + .days(2)
        let due = try await store.claimCredentials(at: now)[0]
        #expect(try await undo(at: now).removed == 1)
        #expect(try await store.settle(.refresh(due, .valid(at: now)), at: now) == .superseded)
        #expect(try await store.count("credential") == 0)
        #expect(try await store.count("user_event") == 0)
    }
}
