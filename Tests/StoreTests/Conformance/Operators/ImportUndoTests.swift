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

    /// Undoes every batch of an import, with the search that the command makes.
    ///
    /// - Parameter searches: whether the search finds the rows. Otherwise the transaction has to.
    private func undo(
        _ name: String = "one",
        of store: StoreUnderTest,
        isRehearsal: Bool = false,
        searches: Bool = true,
        at now: Timestamp = Self.later
    ) async throws -> ImportUndo.Result {
        var total = ImportUndo.Result()
        for batch in try await store.ports.toldImports() where batch.importID == name {
            var undo = ImportUndo(importID: name, batch: batch.batch, isRehearsal: isRehearsal)
            undo.erasedBefore = try await store.ports.erasedSignIns()
            for log in UserLog.allCases where searches {
                undo.found[log.rawValue] = try await store.ports.loggedUsers(in: log, after: 0, upTo: 1000).map(\.id)
                // Beyond every row, so that the transaction finds none by itself.
                undo.searchedUpTo[log.rawValue] = 1_000_000
            }
            guard case .importUndone(let result) = try await store.ask(.undoImport(undo), at: now) else {
                Issue.record("no answer")
                continue
            }
            total.removed += result.removed
            total.taken += result.taken
            total.claimed += result.claimed
            total.kept.merge(result.kept) { $0 + $1 }
        }
        return total
    }

    private func users(of store: StoreUnderTest) async throws -> [SQLValue] {
        try await store.column("SELECT user_id FROM credential_state ORDER BY user_id, client_id")
    }

    @Test(arguments: StoreKind.allCases) func aWrongImportLeavesNoRow(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann", "bob")
        try await store.signIn("cat", token: "c")
        let result = try await undo(of: store)
        #expect(result.removed == 2 && result.taken == 0 && result.kept == [:] && result.claimed == 0)
        #expect(try await users(of: store) == ["cat"])
        for table in ["credential", "user_event", "grant_log", "credential_change"] {
            #expect(try await store.count("\(table) WHERE user_id IN ('ann', 'bob')") == 0, "\(table)")
        }
        #expect(try await store.count("user_event WHERE email IS NOT NULL") == 0)
        #expect(try await store.rows("SELECT state, count FROM credential_count WHERE count <> 0") == [["authorized", 1]])
        #expect(try await undo(of: store) == ImportUndo.Result(), "a second undo finds nothing")
        #expect(try await store.ports.toldImports().map(\.importID) == ["one"])
    }

    @Test(arguments: StoreKind.allCases) func aRehearsalChangesNothing(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann")
        try await tell([Self.signIn("bob")], key: "b", to: store)
        let result = try await undo(of: store, isRehearsal: true)
        #expect(result.removed == 1 && result.taken == 1)
        #expect(try await users(of: store) == ["ann"])
        #expect(try await store.count("grant_queue") == 1)
        #expect(try await store.count("grant_log") == 1)
        #expect(try await store.count("user_event WHERE user_id = 'bob'") == 0)
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

    /// The batch of the first row decides about the user, and may have done so before the second row came.
    @Test(arguments: StoreKind.allCases) func aClaimedRowOfAUserWhoStaysIsWaitedForToo(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn("ann", token: "r.ann")
        try await tell([Self.signIn("ann")], to: store)
        try await store.settleGrants(at: .start)
        try await tell([Self.signIn("ann", token: nil)], key: "b", to: store)
        let work = try await store.claimGrants(at: Self.later)[0]
        let batch = try #require(try await store.ports.toldImports().last)
        let request = OperatorRequest.undoImport(ImportUndo(importID: "one", batch: batch.batch, isRehearsal: false))
        for expected in [1, 0] {
            guard case .importUndone(let result)? = try await store.ask(request, at: Self.later) else {
                Issue.record("no answer")
                return
            }
            #expect(result.claimed == expected && result.kept == [:] && result.taken == 0)
            if expected == 1 { _ = try await store.settle(.grant(work, .acceptance(of: work)), at: Self.later) }
        }
        #expect(try await users(of: store) == ["ann"])
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

    @Test(arguments: StoreKind.allCases, [true, false])
    func whatABackendToldBetweenOrAfterStays(_ kind: StoreKind, _ searches: Bool) async throws {
        let store = try kind.make()
        try await tell(["same", "other", "untold"].map { Self.signIn($0) }, to: store)
        // Before the daemon takes the import, a backend tells the same sign-in, a newer token, and nothing.
        try await store.grant("same", token: "r.same")
        try await store.grant("other", token: "new", at: .start + .minutes(1))
        try await store.settleGrants(at: Self.later)
        let result = try await undo(of: store, searches: searches)
        #expect(result.removed == 1 && result.kept == ["other_sign_in": 2])
        #expect(try await users(of: store) == ["other", "same"])
        #expect(try await store.sealedTokens == 2)
    }

    /// A row of a backend that waits counts like a settled one, and so does a rejected one.
    @Test(arguments: StoreKind.allCases) func aWaitingOrRejectedRowOfABackendKeepsTheUser(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "waits", "rejected")
        try await store.grant("rejected", at: Self.later)
        try await store.settleGrants(at: Self.later) { _ in .rejected(.malformed) }
        try await store.grant("waits", at: Self.later)
        #expect(try await undo(of: store).kept == ["other_sign_in": 2])
        #expect(try await store.count("grant_queue") == 1)
    }

    /// The log of the sign-in may be gone, and then the ledger tells.
    @Test(arguments: StoreKind.allCases) func whomABackendToldBeforeStays(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn("ann", token: "r.ann")
        try await store.signIn("bob", token: "old", at: .start - .days(1))
        try await store.run("DELETE FROM grant_log")
        try await tell(["ann", "bob", "cat"].map { Self.signIn($0) }, to: store)
        try await store.settleGrants(at: .start)
        let result = try await undo(of: store)
        #expect(result.removed == 1 && result.kept == ["known_before": 2])
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
        #expect(result.removed == 2 && result.kept == [:])
        #expect(try await users(of: store) == [])
        #expect(try await store.count("grant_log") == 0)
    }

    @Test(arguments: StoreKind.allCases, [true, false])
    func whatAppleToldStays(_ kind: StoreKind, _ searches: Bool) async throws {
        let store = try await imported(kind, "old", "new", "mail", "none")
        try await store.notify(.consentRevoked, "old", at: .start - .days(1), now: Self.later)
        try await store.notify(.consentRevoked, "new", at: .start + .minutes(1), now: Self.later)
        try await store.notify(.emailDisabled(nil), "mail", at: .start + .minutes(1), now: Self.later)
        let result = try await undo(of: store, searches: searches)
        #expect(result.removed == 1 && result.kept == ["notification": 3])
        #expect(try await store.column("SELECT state FROM user_state WHERE user_id = 'new'") == ["revoked"])
    }

    @Test(arguments: StoreKind.allCases) func aRequestToRevokeKeepsTheUser(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "waits", "opened", "none")
        try await store.requestRevocation("opened", at: Self.later)
        for request in try await store.ports.claimRevocationRequests(upTo: 1, at: Self.later, lease: StoreUnderTest.lease) {
            _ = try await store.settle(.revocationRequest(request, .accepted(at: Self.later)), at: Self.later)
        }
        try await store.requestRevocation("waits", at: Self.later)
        let result = try await undo(of: store)
        #expect(result.removed == 1 && result.kept == ["revocation": 2])
        #expect(try await store.count("revocation") == 1)
        #expect(try await users(of: store) == ["opened", "waits"])
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

    /// Two batches name the user, and each counts its own waiting row.
    @Test(arguments: StoreKind.allCases) func aRehearsalCountsAWaitingRowOnce(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await tell([Self.signIn("ann")], to: store)
        try await tell([Self.signIn("ann", token: nil, at: .start + .minutes(1))], key: "b", to: store)
        #expect(try await undo(of: store, isRehearsal: true).taken == 2)
        #expect(try await undo(of: store).taken == 2)
    }

    @Test(arguments: StoreKind.allCases) func anotherImportOfTheUserKeepsIt(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann", "bob")
        try await tell([Self.signIn("ann")], as: "two", to: store)
        try await store.settleGrants(at: Self.later)
        let result = try await undo(of: store)
        #expect(result.removed == 1 && result.kept == ["other_sign_in": 1])
        #expect(try await undo("two", of: store).kept == ["known_before": 1])
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

    /// A backend's row may get the id of an erased one.
    @Test(arguments: StoreKind.allCases) func theAnswerNamesTheNewestRowThatIsLeft(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn("bob")
        try await tell([Self.signIn("ann")], to: store)
        try await store.settleGrants(at: .start)
        let batch = try #require(try await store.ports.toldImports().first)
        let request = ImportUndo(importID: "one", batch: batch.batch, isRehearsal: false)
        guard case .importUndone(let result) = try await store.ask(.undoImport(request), at: Self.later) else {
            Issue.record("no answer")
            return
        }
        #expect(result.newestGrant == 1)
    }

    /// On a server, a row with a lesser id may be committed after the search.
    @Test(arguments: StoreKind.allCases) func aRowThatTheSearchHasMissedKeepsTheUser(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann")
        try await store.signIn("ann", token: "r.ann")
        let batch = try #require(try await store.ports.toldImports().first)
        var request = ImportUndo(importID: "one", batch: batch.batch, isRehearsal: false)
        for log in UserLog.allCases { request.searchedUpTo[log.rawValue] = try await store.ports.greatestID(of: log) }
        guard case .importUndone(let result)? = try await store.ask(.undoImport(request), at: Self.later) else {
            Issue.record("no answer")
            return
        }
        #expect(result.kept == ["other_sign_in": 1])
        #expect(try await users(of: store) == ["ann"])
    }

    /// A backend's row may have the id of a row that the other undo has erased, and the search of this one would have missed it.
    @Test(arguments: StoreKind.allCases) func anUndoEndsTheSearchesOfOthers(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann")
        try await tell([Self.signIn("bob")], as: "two", to: store)
        try await store.settleGrants(at: .start)
        let told = try await store.ports.toldImports().filter { $0.importID == "two" }
        let undos = try await ImportSearch(store.ports).undos(of: told, isRehearsal: false)
        #expect(try await undo(of: store).removed == 1)
        guard case .importUndone(let late)? = try await store.ask(.undoImport(undos[0]), at: Self.later) else {
            Issue.record("no answer")
            return
        }
        #expect(late.isOutdated && late.removed == 0 && late.erased == 1)
        #expect(try await users(of: store) == ["bob"])
        var progress = UndoProgress()
        progress.add(try await ImportSearch(store.ports).undos(of: told, isRehearsal: false))
        let next = try #require(progress.next)
        guard case .importUndone(let last)? = try await store.ask(.undoImport(next), at: Self.later) else {
            Issue.record("no answer")
            return
        }
        let isTaken = progress.take(last)
        #expect(isTaken && progress.removed == 1 && last.erased == 2)
        #expect(try await users(of: store) == [])
    }

    /// The search finds the rows that nobody but the search can find.
    @Test(arguments: StoreKind.allCases) func theSearchFindsWhatElseWasTold(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann", "bob")
        try await store.signIn("bob", token: "r.bob")
        try await store.signIn("cat", token: "c")
        try await store.notify(.consentRevoked, "ann", at: .start - .days(1), now: Self.later)
        let told = try await store.ports.toldImports()
        let undo = try #require(try await ImportSearch(store.ports).undos(of: told, isRehearsal: false).first)
        let logged = try await store.column("SELECT id FROM grant_log WHERE grant_id = 3").compactMap(\.integer)
        #expect(undo.found["grant_log"] == logged && undo.searchedUpTo["grant_log"] == 4)
        #expect(undo.found["notification_log"]?.count == 1 && undo.searchedUpTo["notification_log"] == 1)
        let changes = try await store.column("SELECT id FROM credential_change WHERE user_id IN ('ann', 'bob') ORDER BY id")
        #expect(undo.found["credential_change"] == changes.compactMap(\.integer))
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
        #expect(try await store.count("request_key") == 2, "two ledgers and no key")
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

    /// Without the ledger nobody can tell the import's rows from others, so it goes before the rows.
    @Test(arguments: StoreKind.allCases) func anOldImportIsNotUndone(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann")
        try await store.ports.forget(at: .start + .days(90) - .hours(1), naming: PlainSealer())
        #expect(try await store.ports.toldImports().count == 1)
        try await store.ports.forget(at: .start + .days(90) - .hours(1) + .milliseconds(1), naming: PlainSealer())
        #expect(try await store.ports.toldImports().isEmpty)
        #expect(try await store.count("grant_log") == 1)
        #expect(try await undo(of: store) == ImportUndo.Result())
        #expect(try await users(of: store) == ["ann"])
    }

    /// A file has other writers.
    @Test(arguments: StoreKind.allCases) func aLedgerThatSomebodyWroteUndoesNothing(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann")
        for text in ["{", "{\"ends\":[1,9223372036854775807],\"known\":[]}", "{\"ends\":[-5,5],\"known\":[]}"] {
            try await store.run("UPDATE request_key SET digest = ? WHERE client = ?", [.bytes(Array(text.utf8)), .text("\timported one")])
            #expect(try await undo(of: store) == ImportUndo.Result())
        }
        #expect(try await users(of: store) == ["ann"])
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

    /// A follower sees by the newest row that older ones are gone.
    @Test(arguments: StoreKind.allCases) func theNewestChangeStaysWithoutAName(_ kind: StoreKind) async throws {
        let store = try await imported(kind, "ann", "bob")
        let newest = try await store.column("SELECT MAX(id) FROM credential_change")
        _ = try await undo(of: store)
        #expect(try await store.column("SELECT id FROM credential_change") == newest)
        #expect(try await store.column("SELECT user_id FROM credential_change") == [.text(ImportUndo.nobody)])
    }
}
