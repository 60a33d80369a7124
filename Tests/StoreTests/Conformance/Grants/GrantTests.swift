// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct GrantTests: ConformanceSuite {
    @Test func authorizes() async throws {
        let grantedAt = Timestamp.start - .minutes(5)
        #expect(try await store.signIn(token: "r", at: grantedAt, now: .start) == .grant(.applied, nil))

        let id = CredentialID(clientID: "app", userID: "user")
        let due = StoreUnderTest.policy.firstCheck(grantedAt: grantedAt, of: id, now: .start)
        let columns = "app, client_id, user_id, state, reason, changed_at, verified_at, next_check_at"
        let states = try await store.rows("SELECT \(columns) FROM credential_state")
        #expect(states == [["example", "app", "user", "authorized", "granted", .at(grantedAt), nil, .at(due)]])
        let log = try await store.rows("SELECT client_id, user_id, granted_at, settled_at, outcome, reason FROM grant_log")
        #expect(log == [["app", "user", .at(grantedAt), .at(.start), "applied", nil]])
        #expect(try await store.count("grant_queue") == 0)
    }

    @Test func keepsTheTokenSealed() async throws {
        try await store.signIn(token: "r.secret")
        let due = try #require(try await store.claimCredentials(at: .start + .days(2)).first)
        #expect(due.id == CredentialID(clientID: "app", userID: "user"))
        #expect(due.token == RefreshToken.sealed(Secret("r.secret"), for: due.id, grantedAt: .start).key)
        #expect(try PlainSealer().open(due.sealed, for: due.id, grantedAt: .start) == Secret("r.secret"))
    }

    @Test func isNeverCheckedWithoutAToken() async throws {
        #expect(try await store.signIn() == .grant(.applied, nil))
        #expect(try await store.rows("SELECT state, next_check_at FROM credential_state") == [["authorized", nil]])
        #expect(try await store.claimCredentials(at: .start + .days(400)).isEmpty)
    }

    @Test func aNewerTokenTakesThePlaceOfTheOld() async throws {
        try await store.signIn(token: "old")
        try await store.refresh(.valid, at: .start + .days(2))
        let again = Timestamp.start + .days(2) + .hours(1)
        try await store.signIn(token: "new", at: again)
        #expect(try await store.rows("SELECT state, changed_at, verified_at FROM credential_state") == [["authorized", .at(again), nil]])
        let due = try await store.claimCredentials(at: again + .days(2))
        #expect(due.map(\.token.grantedAt) == [again])
        #expect(try PlainSealer().open(due[0].sealed, for: due[0].id, grantedAt: again) == Secret("new"))
    }

    @Test func aNewerSignInWithoutATokenLeavesTheTokenInUse() async throws {
        try await store.signIn(token: "r")
        try await store.signIn(at: .start + .hours(1))
        #expect(try await store.column("SELECT changed_at FROM credential_state") == [.at(.start + .hours(1))])
        #expect(try await store.claimCredentials(at: .start + .days(2)).map(\.token.grantedAt) == [.start])
    }

    /// Both inserts of an import: the token at its own time, the newest sign-in without one.
    @Test func anImportWithADeadTokenEndsNobody() async throws {
        let (first, last) = (Timestamp.start - .days(700), Timestamp.start - .days(3))
        try await store.grant(token: "first", at: first)
        try await store.grant(at: last)
        #expect(try await store.settleGrants(at: .start) == [.grant(.applied, nil), .grant(.applied, nil)])
        let now = Timestamp.start + .days(1)
        try await store.refresh(.rejected, at: now)
        #expect(try await store.rows("SELECT state, changed_at, next_check_at FROM credential_state") == [["authorized", .at(last), nil]])
    }

    @Test func anImportWithALivingTokenFindsTheEnd() async throws {
        try await store.grant(token: "first", at: .start - .days(700))
        try await store.grant(at: .start - .days(3))
        try await store.settleGrants(at: .start)
        try await store.refresh(.valid, at: .start + .days(1))
        try await store.refresh(.rejected, at: .start + .days(3))
        let states = try await store.rows("SELECT state, reason, changed_at FROM credential_state")
        #expect(states == [["revoked", "token_rejected", .at(.start + .days(1))]])
    }

    /// A user signed in again after the restored backup. The old token's end leaves the new session alone.
    @Test func aRestoredDatabaseEndsNoNewerSession() async throws {
        try await store.signIn(token: "r", at: .start)
        try await store.refresh(.valid, at: .start + .days(1))
        let sessionSince = Timestamp.start + .days(1) + .hours(1)
        try await store.refresh(.rejected, at: .start + .days(3))
        #expect(try await store.rows("SELECT 1 FROM user_state WHERE changed_at > ?", [.at(sessionSince)]).isEmpty)
        #expect(try await store.rows("SELECT 1 FROM credential_change WHERE occurred_at > ?", [.at(sessionSince)]).isEmpty)
        #expect(try await store.column("SELECT state FROM user_state") == ["revoked"])
    }

    /// Anybody who may tell sign-ins can undo what Apple has signed. siwatch counts the sign-ins that nothing at Apple proves.
    @Test func whatUndoesASignedEndIsCountedUntilAppleProvesIt() async throws {
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

@Suite(.eachStore, .timeLimit(.minutes(10))) struct GrantOutcomeTests: ConformanceSuite {
    private let sealed = PlainSealer().deliver(Secret("r"), for: CredentialID(clientID: "app", userID: "user"), at: .start)

    @Test func aSealedTokenComesAsItWasWritten() async throws {
        try await store.grant(sealed: sealed)
        #expect(try await store.settleGrants(at: .start) == [.grant(.applied, nil)])
        #expect(try await store.claimCredentials(at: .start + .days(2)).count == 1)
    }

    /// The user has signed in again, whatever the fate of the token.
    @Test func aSignInWhoseTokenDoesNotOpenCounts() async throws {
        try await store.signIn(token: "old")
        try await store.notify(.consentRevoked, at: .start + .hours(1))
        let again = Timestamp.start + .hours(2)
        try await store.grant(sealed: sealed, at: again)
        let settled = try await store.settleGrants(at: again) { work in
            .accepted(Grant(grantedAt: work.grantedAt, token: nil, address: nil), work.content!.credential, lost: .unknownKey(id: "key"))
        }
        #expect(settled == [.grant(.rejected, .unknownTokenKey)])
        #expect(try await store.rows("SELECT state, changed_at FROM user_state") == [["authorized", .at(again)]])
        #expect(try await store.column("SELECT reason FROM grant_log WHERE outcome = 'rejected'") == ["unknown_token_key"])
        #expect(try await store.claimCredentials(at: .start + .days(3)).isEmpty)
    }

    @Test func anAddressThatIsTooLongCostsNoSignIn() async throws {
        let address = EmailAddress(String(repeating: "a", count: 1025), isPrivate: true)
        #expect(try await store.signIn(token: "r", email: address) == .grant(.applied, nil))
        #expect(try await store.rows("SELECT state, email FROM user_state") == [["authorized", nil]])
        #expect(try await store.sealedTokens == 1)
    }

    private func log() async throws -> [[SQLValue]] { try await store.rows("SELECT outcome, reason FROM grant_log ORDER BY id") }

    @Test func toldTwiceIsADuplicate() async throws {
        let address = EmailAddress("a@example.com")
        #expect(try await store.signIn(token: "r", email: address) == .grant(.applied, nil))
        #expect(try await store.signIn(token: "r", email: address) == .grant(.duplicate, nil))
        #expect(try await store.signIn() == .grant(.duplicate, nil))
        #expect(try await log() == [["applied", nil], ["duplicate", nil], ["duplicate", nil]])
        #expect(try await store.count("credential_change") == 2)
    }

    @Test func whatIsOlderIsStale() async throws {
        try await store.signIn(token: "r")
        let before = try await store.rows("SELECT * FROM credential_state")
        #expect(try await store.signIn(token: "older", at: .start - .hours(1), now: .start) == .grant(.stale, nil))
        #expect(try await log().last == ["stale", nil])
        #expect(try await store.rows("SELECT * FROM credential_state") == before)
    }

    @Test func anOlderTokenIsNewsWhereThereWasNone() async throws {
        try await store.signIn()
        #expect(try await store.signIn(token: "r", at: .start - .hours(1), now: .start) == .grant(.applied, nil))
        #expect(try await store.column("SELECT changed_at FROM credential_state") == [.at(.start)])
        #expect(try await store.claimCredentials(at: .start + .days(2)).count == 1)
    }

    /// The token stays in its row until its time comes. siwatch looks sooner, because not the date but the clock may be wrong.
    @Test func theFutureIsWaitedFor() async throws {
        try await store.grant(token: "r", at: .start + .hours(1))
        let due = Timestamp.start + .minutes(55)
        #expect(try await store.settleGrants(at: .start) { _ in .inFuture(due: due, lookedAt: .start) } == [.postponed])
        let look = Timestamp.start + .minutes(10)
        #expect(try await store.rows("SELECT refresh_token, due_at, claimed_by FROM grant_queue") == [["r", .at(look), nil]])
        #expect(try await store.settleGrants(at: look - .milliseconds(1)) == [])
        let soon = look + .minutes(9)
        #expect(try await store.settleGrants(at: look) { _ in .inFuture(due: soon, lookedAt: look) } == [.postponed])
        #expect(try await store.settleGrants(at: soon - .milliseconds(1)) == [])
        #expect(try await store.settleGrants(at: soon) == [.grant(.applied, nil)])
    }

    /// A backend dates in microseconds, for example. After a week siwatch rejects the row, if the clock is right.
    @Test func forAWeek() async throws {
        let due = Timestamp.start + .days(3000)
        try await store.grant(token: "r", at: due)
        func look(_ now: Timestamp, isTrusted: Bool = true) async throws -> [Settled] {
            try await store.settleGrants(at: now) { _ in .inFuture(due: due, lookedAt: isTrusted ? now : nil) }
        }
        #expect(try await look(.start) == [.postponed])
        #expect(try await look(.start + .minutes(10) - .milliseconds(1)) == [])
        #expect(try await look(.start + .days(7)) == [.postponed])
        #expect(try await look(.start + .days(8), isTrusted: false) == [.postponed])
        let end = Timestamp.start + .days(9)
        #expect(try await look(end) == [.grant(.inFuture, nil)])
        let found = try await store.rows("SELECT client_id, user_id, granted_at, settled_at, outcome, reason FROM grant_log")
        #expect(found == [["app", "user", .at(due), .at(end), "in_future", nil]])
        #expect(try await store.count("credential_state") == 0)
        #expect(try await store.count("grant_queue") == 0)
    }

    @Test func aRejectionNamesItsReason() async throws {
        for reason in GrantRejection.allCases {
            try await store.grant(token: "r")
            #expect(try await store.settleGrants(at: .start) { _ in .rejected(reason) } == [.grant(.rejected, reason)])
        }
        #expect(try await log() == GrantRejection.allCases.map { ["rejected", .text($0.rawValue)] })
        #expect(try await store.count("credential_state") == 0)
    }
}
