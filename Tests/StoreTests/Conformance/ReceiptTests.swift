// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables
import CredentialTesting
import Testing

@testable import CredentialCore

@Suite(.eachStore, .timeLimit(.minutes(10))) struct ReceiptTests: ConformanceSuite {
    private static let asked = Timestamp.start + .days(1)

    private func answer(_ words: RevocationProof.Answer.Word..., from start: Timestamp = asked) async throws {
        for (second, word) in words.enumerated() {
            let now = start + .seconds(second)
            #expect(try await store.settleTokens(word, dated: now + .milliseconds(1), permits: ["example": 1], at: now).count == 1)
        }
    }

    @Test func aProofIsShownWhole() async throws {
        try await store.signIn(token: "r")
        try await store.signIn("another", token: "s")
        try await store.requestRevocation(at: Self.asked)
        var found = try await store.ports.revocations(of: "user")
        #expect(found.waiting.map(\.app) == ["example"] && found.tokensBeingRevoked.isEmpty && found.revocations.isEmpty)

        let queue = { try await store.ports.queues().first { $0.queue == "revocation" } }
        try await store.settleRequests(at: Self.asked)
        try await answer(.accepted, .revoked)
        #expect(try await queue() == QueueStatus(queue: "revocation", depth: 1, oldest: Self.asked.milliseconds))
        found = try await store.ports.revocations(of: "user")
        #expect(found.waiting[0].openedAt == Self.asked)
        #expect(found.tokensBeingRevoked.map(\.request) == [1] && found.tokensBeingRevoked[0].proof.next == .isStillAccepted)
        #expect(found.tokensBeingRevoked[0].tokenGrantedAt == .start && found.tokensBeingRevoked[0].app == "example")
        #expect(try await store.ports.waitingRevocations() == WaitingRevocations(requests: 1, oldest: Self.asked, tokens: 1))

        try await answer(.rejected, from: Self.asked + .seconds(2))
        found = try await store.ports.revocations(of: "user")
        #expect(found.waiting.isEmpty && found.tokensBeingRevoked.isEmpty)
        #expect(try await queue() == QueueStatus(queue: "revocation", depth: 0, oldest: nil, settled: 1))
        let receipt = try #require(found.revocations.first)
        #expect(receipt.outcome == "proved" && receipt.reason == nil && receipt.proof.keyID == "KEY" && receipt.proof.isProved)
        #expect(receipt.proof.before?.askedAt == Self.asked && receipt.proof.after?.askedAt == Self.asked + .seconds(2))
        #expect(receipt.proof.revocation?.date == Self.asked + .seconds(1) + .milliseconds(1))
        #expect(receipt.clientID == "app" && receipt.app == "example" && receipt.tokenGrantedAt == .start)
        #expect(receipt.requestedAt == Self.asked && receipt.settledAt == Self.asked + .seconds(2))
        #expect(try await store.ports.history(of: "user", upTo: 100).revocations == found.revocations)
        #expect(try await store.ports.revocations(of: "another").isEmpty)
        let counts = try await store.ports.waitingRevocations()
        #expect(counts.requests == 0 && counts.tokens == 0 && counts.newest == 1 && counts.newestWithoutToken == 0)
    }

    @Test func whatIsNotProvedYetIsCounted() async throws {
        for user in ["still", "dead"] { try await store.signIn(user, token: user) }
        for user in ["still", "dead"] {
            try await store.requestRevocation(user, at: Self.asked)
            try await store.settleRequests(at: Self.asked)
            if user == "still" { try await answer(.accepted, .revoked, .accepted) }
        }
        try await answer(.rejected)
        let shown = try await store.ports.waitingRevocations()
        #expect(shown == WaitingRevocations(requests: 2, oldest: Self.asked, tokens: 2, stillAccepted: 1, unbelieved: 1))
        #expect(try await store.ports.revocations(of: "still").tokensBeingRevoked.map(\.proof.rounds) == [1])
        #expect(try await store.ports.revocations(of: "dead").tokensBeingRevoked.map(\.proof.next) == [.isBelieved])
    }

    /// A request without tokens has a full receipt, too, whatever the backend wrote.
    @Test func aRequestWithoutTokensHasOneToo() async throws {
        try await store.requestRevocation(at: .start)
        try await store.settleRequests(at: Self.asked)
        let counts = try await store.ports.waitingRevocations()
        #expect(counts.newest == 1 && counts.newestWithoutToken == 1)
        // Bytes that are no text, if a table can hold them, else a text that is too long.
        let isText = kind == .postgres
        let (sql, shown) = isText ? ("repeat('x', 513)", String(repeating: "x", count: 513)) : ("CAST(x'ff' AS TEXT)", "\u{fffd}")
        try await store.run("INSERT INTO revocation_queue (client_id, user_id, requested_at) VALUES (\(sql), 'user', ?)", [.at(.start)])
        try await store.settleRequests(at: Self.asked, as: .rejected(.malformed))
        let receipts = try await store.ports.revocations(of: "user").revocations
        #expect(receipts.map(\.outcome) == ["no_token", "rejected"] && receipts.map(\.reason) == [nil, "malformed"])
        #expect(receipts.map(\.request) == [1, 2] && receipts.map(\.app) == ["example", nil] && receipts[1].clientID == shown)
        #expect(receipts.allSatisfy { $0.proof == RevocationProof() && $0.tokenGrantedAt == nil })
    }

    @Test func aRenamedAppHasItsReceipts() async throws {
        try await store.signIn(token: "r")
        try await store.requestRevocation(at: Self.asked)
        try await store.settleRequests(at: Self.asked)
        try await store.requestRevocation("tokenless", at: Self.asked)
        try await store.settleRequests(at: Self.asked)
        try await store.ports.renameApp("example", to: "renamed")
        #expect(try await store.ports.revocations(of: "user").tokensBeingRevoked.map(\.app) == ["renamed"])
        #expect(try await store.ports.revocations(of: "user").waiting.map(\.app) == ["renamed"])
        #expect(try await store.ports.revocations(of: "tokenless").revocations.map(\.app) == ["renamed"])
    }

    @Test func anAuditorGetsTheRequestsOfAPeriodWithTheirOutcomes() async throws {
        try await store.signIn(token: "r")
        try await store.requestRevocation(at: Self.asked)
        try await store.settleRequests(at: Self.asked)
        try await answer(.accepted, .revoked, .rejected)
        let (next, last) = (Self.asked + .days(1), Self.asked + .days(2))
        try await store.requestRevocation("tokenless", at: next)
        try await store.settleRequests(at: next)
        try await store.requestRevocation("waiting", client: "nobody", at: last)

        func requested(_ since: Timestamp, _ until: Timestamp) async throws -> [RequestedRevocation] {
            try await store.ports.revocationsRequested(since: since, until: until)
        }
        var all = try await requested(Self.asked, last)
        #expect(all.map(\.outcome) == ["proved", "no_token", "waiting"] && all.map(\.request) == [1, 2, 3])
        #expect(all.map(\.userID) == ["user", "tokenless", "waiting"] && all.map(\.app) == ["example", "example", nil])
        #expect(all.map(\.requestedAt) == [Self.asked, next, last] && all.map(\.settledAt) == [Self.asked + .seconds(2), next, nil])
        #expect(all.map(\.revokeAt) == [Self.asked + .seconds(1), nil, nil] && all.map(\.afterAt) == [Self.asked + .seconds(2), nil, nil])
        #expect(try await requested(next, next).map(\.request) == [2])
        #expect(try await requested(last + .milliseconds(1), .start + .days(400)).isEmpty)

        _ = try await store.forget(at: last)
        all = try await requested(Self.asked, last)
        #expect(all.map(\.userID) == [PlainSealer().pseudonym(of: "user"), "tokenless", "waiting"] && all[0].outcome == "proved")
    }
}
