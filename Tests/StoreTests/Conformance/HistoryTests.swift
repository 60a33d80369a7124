// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTesting
import SQLiteStore
import Testing

@testable import CredentialCore

@Suite(.eachStore, .timeLimit(.minutes(10))) struct HistoryTests: ConformanceSuite {
    @Test func holdsEveryFact() async throws {
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
    @Test func knowsWhatAppleAnswered() async throws {
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
        try await store.settleChecks(at: now, as: .failure(at: now))
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

    @Test func countsHowAppleAnswers() async throws {
        #expect(try await store.ports.checks() == CheckStatus())
        try await store.signIn(token: "r")
        let now = Timestamp.start + .days(2)
        try await store.settleChecks(at: now, as: .failure(at: now))
        try await store.refresh(.valid, at: now + .minutes(1))
        #expect(try await store.ports.checks() == CheckStatus(answered: 1, lastAnsweredAt: now + .minutes(1), failed: 1, lastFailedAt: now))
    }
}

/// All that is kept of one user, and of no other, without a secret.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct PersonalDataTests: ConformanceSuite {
    private func data() async throws -> [String: [[String: PersonalData.Value]]] {
        try await store.askEverything()
        try await store.grant("leaving", token: "in-clear", email: EmailAddress("l@example.com"), at: .start + .days(20))
        try await store.receive("leaving waits", at: .start + .days(20))
        let tables = try await store.personalData(of: "leaving").tables
        return Dictionary(uniqueKeysWithValues: tables.map { ($0.name, $0.rows) })
    }

    @Test func everyRowIsThere() async throws {
        let tables = try await data()
        let filled = tables.filter { !$0.value.isEmpty }.keys.sorted()
        let queues = ["grant_queue", "notification_queue", "revocation", "revocation_queue"]
        #expect(filled == ["credential", "credential_change", "grant_log"] + queues)
        let credential = try #require(tables["credential"]?.first)
        #expect(credential["user_id"] == .text("leaving") && credential["app"] == .text("example"))
        #expect(credential["client_id"] == .text("app") && credential["state"] == .text("authorized"))
        #expect(credential["granted_at"] == .time(.start + .days(10)) && credential["rejected_at"] == .absent)
        #expect(tables["notification_queue"]?.first?["payload"] == .text("leaving waits"))
        #expect(tables["grant_queue"]?.first?["email"] == .text("l@example.com"))
    }

    @Test func noTokenIsShown() async throws {
        let tables = try await data()
        #expect(tables["credential"]?.first?["sealed_token"] == .held)
        #expect(tables["revocation"]?.first?["sealed_token"] == .held)
        #expect(tables["grant_queue"]?.first?["refresh_token"] == .held)
        #expect(tables["grant_queue"]?.first?["authorization_code"] == .absent)
        #expect(!"\(tables)".contains("in-clear"))
    }

    @Test func nobodyHasNoRow() async throws {
        _ = try await data()
        #expect(try await store.personalData(of: "nobody").isEmpty)
        let elsewhere = try await store.personalData(of: "leaving", in: "other").tables
        #expect(elsewhere.allSatisfy { $0.name.hasPrefix("notification_") || $0.rows.isEmpty })
    }
}

@Suite(.eachStore, .timeLimit(.minutes(10))) struct OutcomeTests: ConformanceSuite {
    private func outcomes(of kind: String) async throws -> [[SQLValue]] {
        try await store.rows("SELECT id, client_id, user_id, outcome, reason FROM \(kind)_outcome ORDER BY id, settled_at, client_id")
    }

    @Test func aSignInWaitsAndIsSettled() async throws {
        try await store.grant("ann", token: "r")
        try await store.grant("bob", code: "c")
        try await store.grant(nil, code: "d")
        let found = try await outcomes(of: "grant")
        #expect(found == [[1, "app", "ann", "waiting", nil], [2, "app", "bob", "waiting", nil], [3, "app", nil, "waiting", nil]])
        // siwatch settles a code before the sign-in that came first.
        let codes = try await store.claimCodes()
        let bob = try #require(codes.first { $0.content?.userID == "bob" })
        _ = try await store.settle(.code(bob, .rejected(.rejectedByApple, detail: "words of Apple's")))
        try await store.settleGrants(at: .start)
        let settled = try await outcomes(of: "grant")
        #expect(settled.prefix(2) == [[1, "app", "ann", "applied", nil], [2, "app", "bob", "rejected", "rejected_by_apple"]])
        #expect(settled.dropFirst(2) == [[3, "app", nil, "waiting", nil]])
        #expect(try await store.rows("SELECT granted_at, settled_at FROM grant_outcome WHERE id = 1") == [[.at(.start), .at(.start)]])
    }

    @Test func aDeletionWaitsAndIsProved() async throws {
        try await store.signIn("ann", token: "r")
        let asked = Timestamp.start + .days(1)
        for user in ["ann", "bob"] { try await store.requestRevocation(user, at: asked) }
        #expect(try await outcomes(of: "revocation") == [[1, "app", "ann", "waiting", nil], [2, "app", "bob", "waiting", nil]])
        try await store.settleRequests(at: asked)
        #expect(try await outcomes(of: "revocation") == [[1, "app", "ann", "waiting", nil], [2, "app", "bob", "no_token", nil]])
        for (second, word) in [RevocationProof.Answer.Word.accepted, .revoked, .rejected].enumerated() {
            try await store.settleTokens(word, at: asked + .seconds(second))
        }
        #expect(try await outcomes(of: "revocation") == [[1, "app", "ann", "proved", nil], [2, "app", "bob", "no_token", nil]])
    }

    @Test func oneRowSaysWhetherSiwatchLives() async throws {
        #expect(try await store.rows("SELECT alive_at FROM heartbeat") == [[nil]])
        if let sqlite = store.ports as? SQLiteStore {
            for time in [Timestamp.start, .start + .seconds(10)] { try await sqlite.beat(at: time) }
            #expect(try await store.rows("SELECT alive_at FROM heartbeat") == [[.at(.start + .seconds(10))]])
        } else {
            let fleet = try #require(store.ports as? any Fleet)
            _ = try await fleet.renew(Replica(host: "h", processID: 1, version: "1"), lanes: [], lease: .seconds(3))
            let alive = try #require(try await store.column("SELECT alive_at FROM heartbeat")[0].integer)
            #expect(abs(alive - (try await fleet.time.milliseconds)) < 60_000)
            try await fleet.release()
            #expect(try await store.rows("SELECT alive_at FROM heartbeat") == [[nil]])
        }
    }
}
