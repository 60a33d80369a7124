// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

/// Every grant that leaves the queue is in the log, with its outcome.
@Suite(.schemas, .timeLimit(.minutes(10))) struct GrantOutcomeTests {
    private let sealed = PlainSealer().deliver(Secret("r"), for: CredentialID(clientID: "app", userID: "user"))

    @Test(arguments: StoreKind.allCases)
    func aSealedTokenComesAsItWasWritten(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant(sealed: sealed)
        #expect(try await store.settleGrants(at: .start) == [.grant(.applied, nil)])
        #expect(try await store.claimCredentials(at: .start + .days(2)).count == 1)
    }

    /// The user has signed in again, whatever the fate of the token.
    @Test(arguments: StoreKind.allCases)
    func aSignInWhoseTokenDoesNotOpenCounts(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(token: "old")
        try await store.notify(.consentRevoked, at: .start + .hours(1))
        let again = Timestamp.start + .hours(2)
        try await store.grant(sealed: sealed, at: again)
        let settled = try await store.settleGrants(at: again) { work in
            .accepted(Grant(grantedAt: work.grantedAt, token: nil, address: nil), work.content!.credential, lost: .unknownTokenKey)
        }
        #expect(settled == [.grant(.rejected, .unknownTokenKey)])
        #expect(try await store.rows("SELECT state, changed_at FROM user_state") == [["authorized", .at(again)]])
        #expect(try await store.column("SELECT reason FROM grant_log WHERE outcome = 'rejected'") == ["unknown_token_key"])
        #expect(try await store.claimCredentials(at: .start + .days(3)).isEmpty)
    }

    @Test(arguments: StoreKind.allCases)
    func anAddressThatIsTooLongCostsNoSignIn(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let address = EmailAddress(String(repeating: "a", count: 1025), isPrivate: true)
        #expect(try await store.signIn(token: "r", email: address) == .grant(.applied, nil))
        #expect(try await store.rows("SELECT state, email FROM user_state") == [["authorized", nil]])
        #expect(try await store.sealedTokens == 1)
    }

    private func log(_ store: StoreUnderTest) async throws -> [[SQLValue]] {
        try await store.rows("SELECT outcome, reason FROM grant_log ORDER BY id")
    }

    @Test(arguments: StoreKind.allCases)
    func toldTwiceIsADuplicate(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let address = EmailAddress("a@example.com")
        #expect(try await store.signIn(token: "r", email: address) == .grant(.applied, nil))
        #expect(try await store.signIn(token: "r", email: address) == .grant(.duplicate, nil))
        #expect(try await store.signIn() == .grant(.duplicate, nil))
        #expect(try await log(store) == [["applied", nil], ["duplicate", nil], ["duplicate", nil]])
        #expect(try await store.count("credential_change") == 2)
    }

    @Test(arguments: StoreKind.allCases)
    func whatIsOlderIsStale(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(token: "r")
        let before = try await store.rows("SELECT * FROM credential_state")
        #expect(try await store.signIn(token: "older", at: .start - .hours(1), now: .start) == .grant(.stale, nil))
        #expect(try await log(store).last == ["stale", nil])
        #expect(try await store.rows("SELECT * FROM credential_state") == before)
    }

    @Test(arguments: StoreKind.allCases)
    func anOlderTokenIsNewsWhereThereWasNone(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn()
        #expect(try await store.signIn(token: "r", at: .start - .hours(1), now: .start) == .grant(.applied, nil))
        #expect(try await store.column("SELECT changed_at FROM credential_state") == [.at(.start)])
        #expect(try await store.claimCredentials(at: .start + .days(2)).count == 1)
    }

    /// The token stays in its row until its time comes. siwatch looks sooner, because not the date but the clock may be wrong.
    @Test(arguments: StoreKind.allCases)
    func theFutureIsWaitedFor(_ kind: StoreKind) async throws {
        let store = try kind.make()
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
    @Test(arguments: StoreKind.allCases)
    func forAWeek(_ kind: StoreKind) async throws {
        let store = try kind.make()
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
        #expect(
            try await store.rows("SELECT client_id, user_id, granted_at, settled_at, outcome, reason FROM grant_log")
                == [["app", "user", .at(due), .at(end), "in_future", nil]]
        )
        #expect(try await store.count("credential_state") == 0)
        #expect(try await store.count("grant_queue") == 0)
    }

    @Test(arguments: StoreKind.allCases, GrantRejection.allCases)
    func aRejectionNamesItsReason(_ kind: StoreKind, _ reason: GrantRejection) async throws {
        let store = try kind.make()
        try await store.grant(token: "r")
        #expect(try await store.settleGrants(at: .start) { _ in .rejected(reason) } == [.grant(.rejected, reason)])
        #expect(try await log(store) == [["rejected", .text(reason.rawValue)]])
        #expect(try await store.count("credential_state") == 0)
    }
}
