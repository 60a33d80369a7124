// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import CredentialCore

/// All records of one user, and of no other.
@Suite(.schemas, .timeLimit(.minutes(10))) struct HistoryTests {
    @Test(arguments: StoreKind.allCases)
    func holdsEveryFact(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn("another", email: EmailAddress("another@example.com"))
        try await store.signIn(token: "r", email: EmailAddress("a@example.com", isPrivate: true))
        try await store.refresh(.valid, at: .start + .days(2))
        let revoked = Timestamp.start + .days(3)
        try await store.notify(.consentRevoked, at: revoked, tokenID: "one")
        try await store.notify(.consentRevoked, at: revoked, tokenID: "two")
        try await store.grant(client: "web", token: "w", at: .start + .days(4))
        try await store.requestRevocation(at: .start + .days(4))

        let history = try await store.ports.history(of: "user", upTo: 100)
        #expect(history.grants.map(\.outcome) == ["applied"])
        #expect(history.notifications.map(\.jti) == ["one", "two"])
        #expect(history.notifications.map(\.outcome) == ["applied", "duplicate"])
        #expect(history.notifications.map(\.payload) == ["jws", nil])
        #expect(history.changes.map(\.toState) == ["authorized", nil, "revoked"])
        #expect(history.changes.map(\.source) == ["grant", "grant", "notification"])
        #expect(history.changes.last?.notificationJTI == "one")
        #expect(history.waiting.map(\.queue) == ["grant", "revocation"])
        #expect(history.users.map(\.state) == ["revoked"])
        #expect(history.users[0].consentRevokedAt == revoked)
        #expect(history.users[0].email == "a@example.com")
        #expect(history.users[0].emailIsPrivate == true)
        let credential = history.credentials[0]
        #expect(credential.clientID == "app" && credential.reason == "consent_revoked" && credential.changedAt == revoked)
        #expect(credential.grantedAt == .start && credential.tokenGrantedAt == .start && !credential.holdsToken)
        #expect(credential.answeredAt == .start + .days(2) && credential.nextCheckAt == nil && !credential.isBeingAsked)

        #expect(!history.isCut)
        let newest = try await store.ports.history(of: "user", upTo: 1)
        #expect(newest.isCut && newest.notifications.map(\.jti) == ["two"] && newest.changes.map(\.toState) == ["revoked"])
        #expect(try await store.ports.history(of: "nobody", upTo: 100).isEmpty)
        let limited = history.limited(toClients: ["web"])
        #expect(limited.credentials.isEmpty && limited.grants.isEmpty && limited.waiting.map(\.clientID) == ["web"])
    }

    /// With any clocks, Apple's last answer stays until Apple gives another or another token comes.
    @Test(arguments: StoreKind.allCases)
    func knowsWhatAppleAnswered(_ kind: StoreKind) async throws {
        let store = try kind.make()
        func seen() async throws -> [SQLValue] {
            try await store.rows("SELECT c.answer, app.foreign_tokens FROM credential c JOIN app ON app.id = c.app")[0]
        }
        try await store.signIn(token: "r")
        #expect(try await seen() == [nil, 0])
        var now = Timestamp.start + .days(2)
        func answer(isOfAnotherUser: Bool) async throws {
            let due = try await store.claimCredentials(at: now)[0]
            let verdict = isOfAnotherUser ? RefreshVerdict.anotherUser(answeredAt: now) : .unclear(answeredAt: now)
            _ = try await store.settle(.refresh(due, verdict), at: now)
            now = now + .days(2)
        }
        try await answer(isOfAnotherUser: false)
        #expect(try await seen() == ["unclear", 0])
        try await answer(isOfAnotherUser: true)
        #expect(try await seen() == ["another_user", 1])
        #expect(try await store.ports.foreignTokens(of: "example", after: nil, upTo: 10).map(\.userID) == ["user"])
        let due = try await store.claimCredentials(at: now)[0]
        _ = try await store.settle(.refresh(due, .failure(at: now)), at: now)
        #expect(try await seen() == ["another_user", 1], "no answer is none")
        now = now + .hours(1)
        try await answer(isOfAnotherUser: true)
        try await store.refresh(.valid, at: now)
        #expect(try await seen() == ["valid", 0])
        now = now + .days(2)
        try await answer(isOfAnotherUser: true)
        try await store.signIn(token: "right", at: now)
        #expect(try await seen() == [nil, 0])
        now = now + .days(2)
        try await answer(isOfAnotherUser: true)
        try await store.notify(.consentRevoked, at: now)
        #expect(try await seen() == [nil, 0], "it is erased")
        #expect(try await store.ports.foreignTokens(of: "example", after: nil, upTo: 10).isEmpty)
    }

    @Test(arguments: StoreKind.allCases)
    func countsHowAppleAnswers(_ kind: StoreKind) async throws {
        let store = try kind.make()
        #expect(try await store.ports.checks() == CheckStatus())
        try await store.signIn(token: "r")
        let now = Timestamp.start + .days(2)
        let due = try await store.claimCredentials(at: now)[0]
        _ = try await store.settle(.refresh(due, .failure(at: now)), at: now)
        try await store.refresh(.valid, at: now + .minutes(1))
        #expect(
            try await store.ports.checks()
                == CheckStatus(answered: 1, lastAnsweredAt: now + .minutes(1), failed: 1, lastFailedAt: now)
        )
    }
}
