// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

/// A sign-in makes a credential.
@Suite struct GrantTests {
    @Test(arguments: StoreKind.allCases)
    func authorizes(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let grantedAt = Timestamp.start - .minutes(5)
        #expect(try await store.signIn(token: "r", at: grantedAt, now: .start) == .grant(.applied, nil))

        let id = CredentialID(clientID: "app", userID: "user")
        let due = StoreUnderTest.policy.firstCheck(grantedAt: grantedAt, answeredAt: nil, of: id, now: .start)
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
        #expect(due.failures == 0)
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

    /// At most one answer a day, whatever a backlog of old sign-ins brings.
    @Test(arguments: StoreKind.allCases)
    func aTokenThatComesLateWaitsForTheDayAfterTheLastAnswer(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(token: "old", at: .start - .days(10), now: .start)
        let answeredAt = Timestamp.start + .days(1)
        try await store.refresh(.valid, at: answeredAt)
        try await store.signIn(token: "newer", at: .start - .days(5), now: answeredAt + .hours(1))
        let next = try #require(try await store.column("SELECT next_check_at FROM credential_state")[0].integer)
        #expect(next >= (answeredAt + .days(1)).milliseconds)
    }
}
