// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

/// A sign-in makes a credential.
@Suite(.schemas, .timeLimit(.minutes(10))) struct GrantTests {
    @Test(arguments: StoreKind.allCases)
    func authorizes(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let grantedAt = Timestamp.start - .minutes(5)
        #expect(try await store.signIn(token: "r", at: grantedAt, now: .start) == .grant(.applied, nil))

        let id = CredentialID(clientID: "app", userID: "user")
        let due = StoreUnderTest.policy.firstCheck(grantedAt: grantedAt, of: id, now: .start)
        #expect(
            try await store.rows(
                "SELECT app, client_id, user_id, state, reason, changed_at, verified_at, next_check_at FROM credential_state"
            )
                == [["example", "app", "user", "authorized", "granted", .at(grantedAt), nil, .at(due)]]
        )
        #expect(
            try await store.rows("SELECT client_id, user_id, granted_at, settled_at, outcome, reason FROM grant_log")
                == [["app", "user", .at(grantedAt), .at(.start), "applied", nil]]
        )
        #expect(try await store.count("grant_queue") == 0)
    }

    @Test(arguments: StoreKind.allCases)
    func keepsTheTokenSealed(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(token: "r.secret")
        let due = try #require(try await store.claimCredentials(at: .start + .days(2)).first)
        #expect(due.id == CredentialID(clientID: "app", userID: "user"))
        #expect(due.token == RefreshToken.sealed(Secret("r.secret"), for: due.id, grantedAt: .start).key)
        #expect(try PlainSealer().open(due.sealed, for: due.id, grantedAt: .start) == Secret("r.secret"))
    }

    @Test(arguments: StoreKind.allCases)
    func isNeverCheckedWithoutAToken(_ kind: StoreKind) async throws {
        let store = try kind.make()
        #expect(try await store.signIn() == .grant(.applied, nil))
        #expect(try await store.rows("SELECT state, next_check_at FROM credential_state") == [["authorized", nil]])
        #expect(try await store.claimCredentials(at: .start + .days(400)).isEmpty)
    }

    @Test(arguments: StoreKind.allCases)
    func aNewerTokenTakesThePlaceOfTheOld(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(token: "old")
        try await store.refresh(.valid, at: .start + .days(2))
        let again = Timestamp.start + .days(2) + .hours(1)
        try await store.signIn(token: "new", at: again)
        #expect(
            try await store.rows("SELECT state, changed_at, verified_at FROM credential_state") == [["authorized", .at(again), nil]]
        )
        let due = try await store.claimCredentials(at: again + .days(2))
        #expect(due.map(\.token.grantedAt) == [again])
        #expect(try PlainSealer().open(due[0].sealed, for: due[0].id, grantedAt: again) == Secret("new"))
    }

    @Test(arguments: StoreKind.allCases)
    func aNewerSignInWithoutATokenLeavesTheTokenInUse(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(token: "r")
        try await store.signIn(at: .start + .hours(1))
        #expect(try await store.column("SELECT changed_at FROM credential_state") == [.at(.start + .hours(1))])
        #expect(try await store.claimCredentials(at: .start + .days(2)).map(\.token.grantedAt) == [.start])
    }

    /// Both inserts of an import: the token at its own time, the newest sign-in without one.
    @Test(arguments: StoreKind.allCases)
    func anImportWithADeadTokenEndsNobody(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let (first, last) = (Timestamp.start - .days(700), Timestamp.start - .days(3))
        try await store.grant(token: "first", at: first)
        try await store.grant(at: last)
        #expect(try await store.settleGrants(at: .start) == [.grant(.applied, nil), .grant(.applied, nil)])
        let now = Timestamp.start + .days(1)
        try await store.refresh(.rejected, at: now)
        #expect(
            try await store.rows("SELECT state, changed_at, next_check_at FROM credential_state") == [["authorized", .at(last), nil]]
        )
    }

    /// A living token watches the newest sign-in too.
    @Test(arguments: StoreKind.allCases)
    func anImportWithALivingTokenFindsTheEnd(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant(token: "first", at: .start - .days(700))
        try await store.grant(at: .start - .days(3))
        try await store.settleGrants(at: .start)
        try await store.refresh(.valid, at: .start + .days(1))
        try await store.refresh(.rejected, at: .start + .days(3))
        #expect(
            try await store.rows("SELECT state, reason, changed_at FROM credential_state")
                == [["revoked", "token_rejected", .at(.start + .days(1))]]
        )
    }

    /// A user signed in again after the restored backup. The old token's end leaves the new session alone.
    @Test(arguments: StoreKind.allCases)
    func aRestoredDatabaseEndsNoNewerSession(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(token: "r", at: .start)
        try await store.refresh(.valid, at: .start + .days(1))
        let sessionSince = Timestamp.start + .days(1) + .hours(1)
        try await store.refresh(.rejected, at: .start + .days(3))
        #expect(try await store.rows("SELECT 1 FROM user_state WHERE changed_at > ?", [.at(sessionSince)]).isEmpty)
        #expect(try await store.rows("SELECT 1 FROM credential_change WHERE occurred_at > ?", [.at(sessionSince)]).isEmpty)
        #expect(try await store.column("SELECT state FROM user_state") == ["revoked"])
    }

    /// Anybody who may tell sign-ins can undo what Apple has signed. siwatch counts the sign-ins that nothing at Apple proves.
    @Test(arguments: StoreKind.allCases)
    func whatUndoesASignedEndIsCountedUntilAppleProvesIt(_ kind: StoreKind) async throws {
        let store = try kind.make()
        func counts() async throws -> [Int] {
            let app = try #require(try await store.ports.apps().first { $0.app == "example" })
            return [app.ended, app.unproven]
        }
        for user in ["ann", "bob"] { try await store.signIn(user, token: "r-\(user)") }
        #expect(try await counts() == [0, 0])
        for user in ["ann", "bob"] { try await store.notify(.consentRevoked, user, at: .start + .minutes(1), tokenID: user) }
        #expect(try await counts() == [2, 0])
        let again = Timestamp.start + .minutes(2)
        try await store.signIn("ann", at: again)
        #expect(try await counts() == [2, 1])
        // A token that Apple has not judged yet may be good.
        try await store.signIn("bob", token: "new", at: again)
        #expect(try await counts() == [2, 1])
        try await store.signIn("ann", token: "proof", at: again + .minutes(1))
        #expect(try await counts() == [2, 0])
        try await store.notify(.accountDeleted, "ann", at: again + .minutes(2), tokenID: "deleted")
        #expect(try await counts() == [2, 0])
    }
}
