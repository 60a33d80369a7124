// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import CredentialTesting
import Testing

/// `siwatch import --undo` removes what only the import has told.
@Suite(.schemas, .timeLimit(.minutes(10))) struct ImportUndoTests {
    private static let later = Timestamp.start + .hours(1)

    private static func signIn(_ user: String, client: String = "app", token: String? = "r", at time: Timestamp = .start) -> ToldSignIn {
        ToldSignIn(
            clientID: client,
            userID: user,
            proof: token.map { .refreshToken(Secret("\($0).\(user)")) },
            address: EmailAddress("\(user)@example.com"),
            signedInAt: time
        )
    }

    private func tell(_ signIns: [ToldSignIn], as name: String = "one", key: String = "a", to store: StoreUnderTest) async throws {
        _ = try await store.ports.append(ImportBatch(importID: name, key: key, signIns: signIns), at: .start)
    }

    /// An import of these users, settled.
    private func imported(_ kind: StoreKind, _ users: String...) async throws -> StoreUnderTest {
        let store = try kind.make()
        try await tell(users.map { Self.signIn($0) }, to: store)
        try await store.settleGrants(at: .start)
        return store
    }

    /// Undoes an import, portion by portion.
    private func undo(
        _ name: String = "one",
        of store: StoreUnderTest,
        at now: Timestamp = Self.later
    ) async throws -> UndoneImport {
        var total = UndoneImport()
        while true {
            guard case .importUndone(let undone)? = try await store.ask(.undoImport(name), at: now) else {
                Issue.record("no answer")
                return total
            }
            (total.removed, total.taken) = (total.removed + undone.removed, total.taken + undone.taken)
            (total.claimed, total.stayed) = (undone.claimed, undone.stayed)
            if undone.isDone { return total }
        }
    }

    private func users(of store: StoreUnderTest) async throws -> [SQLValue] {
        try await store.column("SELECT user_id FROM credential_state ORDER BY user_id, client_id")
    }

    @Test(arguments: StoreKind.allCases) func aWrongImportLeavesNoUser(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann", "bob")
        try await store.signIn("cat", token: "c")
        let result = try await undo(of: store)
        #expect(result.removed == 2 && result.taken == 0 && result.stayed == 0 && result.claimed == 0)
        #expect(try await users(of: store) == ["cat"])
        for table in ["credential", "user_event"] {
            #expect(try await store.count("\(table) WHERE user_id IN ('ann', 'bob')") == 0, "\(table)")
        }
        #expect(try await store.count("user_event WHERE email IS NOT NULL") == 0)
        #expect(try await store.rows("SELECT state, count FROM credential_count WHERE count <> 0") == [["authorized", 1]])
        // The logs are history, and nothing is told.
        #expect(try await store.count("grant_log") == 3)
        #expect(try await store.count("credential_change WHERE kind = 'state'") == 3)
        #expect(try await undo(of: store) == UndoneImport(), "a second undo finds nothing")
        #expect(try await store.ports.toldImports().map(\.signIns) == [0])
    }

    @Test(arguments: StoreKind.allCases) func aRehearsalChangesNothing(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann", "cat")
        try await store.signIn("cat", at: Self.later)
        // Two rows of one user, of which the undo takes the waiting one first.
        try await tell([Self.signIn("bob"), Self.signIn("ann", token: nil, at: .start + .minutes(1))], key: "b", to: store)
        let result = try await store.ports.rehearseUndo(of: "one", at: Self.later)
        #expect(result.removed == 1 && result.taken == 2 && result.stayed == 1 && result.isDone)
        #expect(try await users(of: store) == ["ann", "cat"])
        #expect(try await store.count("grant_queue") == 2)
        let undone = try await undo(of: store)
        #expect(undone.removed == 1 && undone.taken == 2 && undone.stayed == 1)
        #expect(try await store.ports.rehearseUndo(of: "none", at: Self.later) == UndoneImport())
    }

    @Test(arguments: StoreKind.allCases) func waitingRowsLeaveTheQueue(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await tell([Self.signIn("ann"), Self.signIn("bob", client: "nowhere")], to: store)
        #expect(try await undo(of: store).taken == 2)
        #expect(try await store.count("grant_queue") == 0)
        #expect(try await store.column("SELECT value FROM counter WHERE name = 'grant_queue_removed'") == [2])
    }

    /// The daemon settles the row, and the repeated undo judges the credential.
    @Test(arguments: StoreKind.allCases) func aClaimedRowIsLeftForTheNextTry(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await tell([Self.signIn("ann")], to: store)
        let work = try await store.claimGrants(at: Self.later)[0]
        let first = try await undo(of: store)
        #expect(first.claimed == 1 && first.removed == 0 && first.taken == 0)
        #expect(try await store.settle(.grant(work, .acceptance(of: work)), at: Self.later) == .grant(.applied, nil))
        #expect(try await undo(of: store).removed == 1)
        #expect(try await users(of: store) == [])
    }

    /// One transaction holds up settlements only briefly.
    @Test(arguments: StoreKind.allCases) func anUndoGoesInPortions(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await tell((1...510).map { Self.signIn("settled\($0)") }, to: store)
        while try await !store.settleGrants(at: .start).isEmpty {}
        try await tell((1...505).map { Self.signIn("waiting\($0)") }, key: "b", to: store)
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
    @Test(arguments: StoreKind.allCases) func aLateSettlementBringsNobodyBack(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await tell([Self.signIn("ann")], to: store)
        let work = try await store.claimGrants(at: .start)[0]
        #expect(try await undo(of: store).taken == 1)
        #expect(try await store.settle(.grant(work, .acceptance(of: work)), at: Self.later) == .superseded)
        #expect(try await users(of: store) == [])
    }

    @Test(arguments: StoreKind.allCases) func whatABackendToldBetweenOrAfterStays(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await tell(["same", "other", "untold"].map { Self.signIn($0) }, to: store)
        // Before the daemon takes the import, a backend tells the same sign-in, a newer token, and nothing.
        try await store.grant("same", token: "r.same")
        try await store.grant("other", token: "new", at: .start + .minutes(1))
        try await store.settleGrants(at: Self.later)
        let result = try await undo(of: store)
        #expect(result.removed == 1 && result.stayed == 2)
        #expect(try await users(of: store) == ["other", "same"])
        #expect(try await store.sealedTokens == 2)
    }

    /// A rejected row tells nothing.
    @Test(arguments: StoreKind.allCases) func aWaitingRowOfABackendKeepsTheUser(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "waits", "rejected")
        try await store.grant("rejected", at: Self.later)
        try await store.settleGrants(at: Self.later) { _ in .rejected(.malformed) }
        try await store.grant("waits", at: Self.later)
        let result = try await undo(of: store)
        #expect(result.removed == 1 && result.stayed == 1)
        #expect(try await users(of: store) == ["waits"])
        #expect(try await store.count("grant_queue") == 1)
    }

    /// The log of the sign-in may be gone.
    @Test(arguments: StoreKind.allCases) func whomABackendToldBeforeStays(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn("ann", token: "r.ann")
        try await store.signIn("bob", token: "old", at: .start - .days(1))
        try await store.run("DELETE FROM grant_log")
        try await tell(["ann", "bob", "cat"].map { Self.signIn($0) }, to: store)
        try await store.settleGrants(at: .start)
        let result = try await undo(of: store)
        #expect(result.removed == 1 && result.stayed == 2)
        #expect(try await users(of: store) == ["ann", "bob"])
    }

    /// The form that the pages advise: the token, and a later sign-in without one. The second row finds the credential of the first.
    @Test(arguments: StoreKind.allCases) func severalLinesOfAUserAreOneImport(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await tell([Self.signIn("ann"), Self.signIn("bob")], to: store)
        try await store.settleGrants(at: .start)
        try await tell([Self.signIn("ann", token: nil, at: .start + .minutes(1))], key: "b", to: store)
        try await store.settleGrants(at: Self.later)
        let result = try await undo(of: store)
        // The third line removed nothing by itself.
        #expect(result.removed == 2 && result.stayed == 1)
        #expect(try await users(of: store) == [])
    }

    @Test(arguments: StoreKind.allCases) func whatAppleToldStays(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.notify(.consentRevoked, "first", at: .start - .days(1), now: .start)
        try await tell(["first", "old", "new", "mail", "none", "rejected"].map { Self.signIn($0) }, to: store)
        try await store.settleGrants(at: .start)
        try await store.notify(.consentRevoked, "old", at: .start - .days(1), now: Self.later)
        try await store.notify(.consentRevoked, "new", at: .start + .minutes(1), now: Self.later)
        try await store.notify(.emailDisabled(nil), "mail", at: .start + .minutes(1), now: Self.later)
        // An answer about the token keeps nobody: the tokens of a wrong import are those that Apple rejects.
        try await store.reject("rejected", at: Self.later)
        let result = try await undo(of: store, at: Self.later + .hours(1))
        #expect(result.removed == 2 && result.stayed == 4)
        #expect(try await users(of: store) == ["first", "mail", "new", "old"])
        #expect(try await store.column("SELECT state FROM user_state WHERE user_id = 'new'") == ["revoked"])
    }

    @Test(arguments: StoreKind.allCases) func aRequestToRevokeKeepsTheUser(_ kind: StoreKind) async throws {
        let store = try kind.make()
        func settleRequests(at now: Timestamp) async throws {
            for request in try await store.ports.claimRevocationRequests(upTo: 1, at: now, lease: StoreUnderTest.lease) {
                _ = try await store.settle(.revocationRequest(request, .accepted(at: now)), at: now)
            }
        }
        try await store.requestRevocation("answered", at: .start - .hours(1))
        try await settleRequests(at: .start)
        #expect(try await store.count("revocation_log") == 1)
        try await tell(["answered", "waits", "opened", "none"].map { Self.signIn($0) }, to: store)
        try await store.settleGrants(at: .start)
        try await store.requestRevocation("opened", at: Self.later)
        try await settleRequests(at: Self.later)
        try await store.requestRevocation("waits", at: Self.later)
        let result = try await undo(of: store)
        #expect(result.removed == 1 && result.stayed == 3)
        #expect(try await store.count("revocation") == 1)
        #expect(try await users(of: store) == ["answered", "opened", "waits"])
    }

    /// A wrong `--client-id`: the users are known at the right client.
    @Test(arguments: StoreKind.allCases) func theOtherClientOfTheUserStays(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn("ann", token: "a", email: EmailAddress("mine@example.com"), at: .start + .minutes(1))
        try await tell([Self.signIn("ann", client: "web")], to: store)
        try await store.settleGrants(at: Self.later)
        #expect(try await undo(of: store).removed == 1)
        #expect(
            try await store.rows("SELECT client_id, state, email FROM credential_state") == [["app", "authorized", "mine@example.com"]]
        )
        #expect(try await store.rows("SELECT state, count FROM credential_count WHERE count <> 0") == [["authorized", 1]])
    }

    /// The import's sign-in at a wrong client made the user count as signed in, so a follower that heard of the end kept the session.
    @Test(arguments: StoreKind.allCases) func anEndThatTheImportHidIsToldAgain(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn("ann", token: "a")
        try await tell([Self.signIn("ann", client: "web")], to: store)
        try await store.settleGrants(at: Self.later)
        try await store.run(
            """
            UPDATE credential SET state = 'revoked', reason = 'token_rejected', changed_at = granted_at + 2, verified_at = granted_at + 2,
                   rejected_at = granted_at + 3
             WHERE user_id = 'ann' AND client = (SELECT id FROM client WHERE client_id = 'app')
            """
        )
        try await store.run("UPDATE credential_count SET count = 1 WHERE state = 'authorized'")
        #expect(try await store.column("SELECT state FROM user_state") == ["authorized"])
        #expect(try await undo(of: store).removed == 1)
        #expect(try await store.column("SELECT state FROM user_state") == ["revoked"])
        let last = try await store.rows(
            "SELECT client_id, from_state, to_state, reason, source FROM credential_change ORDER BY id DESC LIMIT 1"
        )
        #expect(last == [["app", "revoked", "revoked", "token_rejected", "refresh"]])
    }

    @Test(arguments: StoreKind.allCases) func anotherImportOfTheUserKeepsIt(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann", "bob")
        try await tell([Self.signIn("ann")], as: "two", to: store)
        try await store.settleGrants(at: Self.later)
        let result = try await undo(of: store)
        #expect(result.removed == 1 && result.stayed == 1)
        let other = try await undo("two", of: store)
        #expect(other.removed == 0 && other.stayed == 1)
    }

    /// Nothing stays that the right import would be stale against.
    @Test(arguments: StoreKind.allCases) func theSameUsersCanBeImportedAgain(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann")
        _ = try await undo(of: store)
        try await tell([Self.signIn("ann")], to: store)
        #expect(try await store.settleGrants(at: Self.later) == [.grant(.applied, nil)])
        #expect(try await users(of: store) == ["ann"])
        #expect(try await undo(of: store).removed == 1)
    }

    /// The import goes on while an operator takes it back.
    @Test(arguments: StoreKind.allCases) func anImportThatIsTakenBackTellsNoFurtherBatch(_ kind: StoreKind) async throws {
        let store = try kind.make()
        func batch(_ key: String, after: String?, _ user: String) -> ImportBatch {
            ImportBatch(importID: "one", key: key, after: after, signIns: [Self.signIn(user)])
        }
        #expect(try await store.ports.append(batch("a", after: nil, "ann"), at: .start) != nil)
        #expect(try await store.ports.append(batch("b", after: "a", "bob"), at: .start) != nil)
        #expect(try await undo(of: store).taken == 2)
        #expect(try await store.ports.append(batch("c", after: "b", "cat"), at: .start) == nil)
        #expect(try await store.count("grant_queue") == 0)
        #expect(try await store.count("request_key") == 0)
        // The same command once more.
        #expect(try await store.ports.append(batch("a", after: nil, "ann"), at: .start)?.isKnown == false)
        #expect(try await store.ports.append(batch("a", after: nil, "ann"), at: .start)?.isKnown == true)
        #expect(try await store.count("grant_queue") == 1)
    }

    @Test(arguments: StoreKind.allCases) func canariesAndAdmittedRejectionsGoWithTheirCredential(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann", "bob")
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
        #expect(try await undo(of: store).removed == 1)
        for table in ["canary", "admitted_rejection"] {
            let left = try await store.rows(
                "SELECT t.user_id, client.client_id FROM \(table) t JOIN client ON client.id = t.client ORDER BY t.user_id"
            )
            #expect(left == [["ann", "web"], ["bob", "app"]], "\(table)")
        }
    }

    @Test(arguments: StoreKind.allCases) func theCountsOfTheAppForgetTheCredential(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann", "bob")
        try await store.signIn("bob", at: Self.later)
        try await store.run(
            """
            UPDATE credential
               SET unverified = TRUE, never_accepted = TRUE, answer = 'another_user', answered_at = granted_at,
                   pending_since = granted_at, pending_asked_at = granted_at, pending_key = 'KEY'
            """
        )
        try await store.run("UPDATE app SET unverified = 2, pending = 2, never_accepted = 2, foreign_tokens = 2 WHERE name = 'example'")
        #expect(try await undo(of: store).removed == 1)
        let counts = try await store.rows("SELECT unverified, pending, never_accepted, foreign_tokens FROM app WHERE name = 'example'")
        #expect(counts == [[1, 1, 1, 1]])
    }

    /// No log decides.
    @Test(arguments: StoreKind.allCases) func anOldImportIsUndoneToo(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann", "bob")
        try await store.signIn("bob", at: Self.later)
        let now = Timestamp.start + .days(800)
        try await store.ports.forget(at: now, naming: PlainSealer())
        #expect(try await store.count("grant_log") == 0)
        #expect(try await undo(of: store, at: now).removed == 1)
        #expect(try await users(of: store) == ["bob"])
    }

    /// An answer of Apple's about a token that is gone.
    @Test(arguments: StoreKind.allCases) func anAnswerUnderWayBringsNobodyBack(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann")
        let now = Timestamp.start + .days(2)
        let due = try await store.claimCredentials(at: now)[0]
        #expect(try await undo(of: store, at: now).removed == 1)
        #expect(try await store.settle(.refresh(due, .valid(at: now)), at: now) == .superseded)
        #expect(try await store.count("credential") == 0)
        #expect(try await store.count("user_event") == 0)
    }
}
