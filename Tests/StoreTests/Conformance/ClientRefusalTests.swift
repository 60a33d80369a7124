// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

/// The store records that Apple refuses a client, for any lane that asked, and clears it with the next 200.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct ClientRefusalTests: ConformanceSuite {
    private static let asked = Timestamp.start + .days(2)
    private static let word = "invalid_client: bad key"

    private func refusals() async throws -> [[SQLValue]] {
        try await store.rows("SELECT client_id, refused_since, refused_at, refusal FROM client WHERE refused_at IS NOT NULL ORDER BY id")
    }

    private func refusal(_ client: String, since: Timestamp, at time: Timestamp, word: String = word) -> [SQLValue] {
        [.text(client), .at(since), .at(time), .text(word)]
    }

    @discardableResult
    private func check(_ answer: ClientAnswer, at now: Timestamp, as verdict: RefreshVerdict? = nil) async throws -> DueCredential {
        try await store.run("UPDATE credential SET due_at = 0, first_check = 0")
        var due = try await store.claimCredentials(upTo: 1, at: now)[0]
        due.clientAnswer = answer
        let isAccepted = if case .accepted = answer { true } else { false }
        let verdict = verdict ?? (isAccepted ? .valid(at: now) : .failed(.misconfigured, at: now))
        #expect(try await store.settle(.refresh(due, verdict), at: now) == .refreshed)
        return due
    }

    @Test func aCheckWritesItDownAndTakesItBack() async throws {
        try await store.signIn(token: "r")
        #expect(try await refusals().isEmpty)
        try await check(.refused(word: Self.word, at: Self.asked), at: Self.asked)
        #expect(try await refusals() == [refusal("app", since: Self.asked, at: Self.asked)])
        let later = Self.asked + .minutes(1)
        try await check(.refused(word: "unauthorized_client", at: later), at: later)
        #expect(try await refusals() == [refusal("app", since: Self.asked, at: later, word: "unauthorized_client")])
        try await check(.accepted(at: later + .minutes(1)), at: later + .minutes(1))
        #expect(try await refusals().isEmpty)
        // Asked before that 200, and settled after it.
        try await check(.refused(word: Self.word, at: later + .seconds(30)), at: later + .minutes(2))
        #expect(try await refusals().isEmpty)
        try await check(.refused(word: Self.word, at: later + .minutes(3)), at: later + .minutes(3))
        #expect(try await refusals() == [refusal("app", since: later + .minutes(3), at: later + .minutes(3))])
        // Whichever user the 200 names.
        let end = later + .minutes(4)
        var due = try await check(.accepted(at: end), at: end, as: .unnamed(requestedAt: end, answeredAt: end))
        #expect(try await refusals().isEmpty)
        // A claimer that no longer holds the row writes nothing.
        due.clientAnswer = .refused(word: Self.word, at: end + .seconds(1))
        #expect(try await store.settle(.refresh(due, .failed(.misconfigured, at: end)), at: end + .seconds(1)) == .superseded)
        #expect(try await refusals().isEmpty)
    }

    @Test func aCodeWritesItDownAndTakesItBack() async throws {
        try await store.grant("ann", client: "web", code: "c")
        var work = try await store.claimCodes(at: .start)[0]
        work.clientAnswer = .refused(word: Self.word, at: .start)
        let settled = try await store.settle(.code(work, .failed(at: .start, isAnswerLost: false, detail: Self.word)))
        #expect(settled == .postponed)
        #expect(try await refusals() == [refusal("web", since: .start, at: .start)])
        let later = Timestamp.start + .minutes(1)
        work = try await store.claimCodes(at: later)[0]
        work.clientAnswer = .accepted(at: later)
        #expect(try await store.settle(.code(work, .rejected(.userMismatch)), at: later) == .grant(.rejected, .userMismatch))
        #expect(try await refusals().isEmpty)
        #expect(try await store.ports.clients().first { $0.clientID == "web" }?.validAt == later)
        // A claimer that no longer holds the row writes nothing.
        work.clientAnswer = .refused(word: Self.word, at: later + .seconds(1))
        #expect(try await store.settle(.code(work, .rejected(.codeUsed)), at: later + .seconds(1)) == .superseded)
        #expect(try await refusals().isEmpty)
    }

    @Test func aDeletionWritesItDownAndTakesItBack() async throws {
        try await open("user", at: Self.asked)
        var work = try await claimToken(at: Self.asked)
        work.clientAnswer = .refused(word: Self.word, at: Self.asked)
        #expect(try await store.settle(.revocation(work, .failed(at: Self.asked)), at: Self.asked) == .postponed)
        #expect(try await refusals() == [refusal("app", since: Self.asked, at: Self.asked)])
        let later = Self.asked + .hours(1)
        work = try await claimToken(at: later)
        work.clientAnswer = .accepted(at: later)
        let answer = RevocationProof.Answer(.accepted, askedAt: later, date: nil)
        let verdict = RevocationVerdict.answered(answer, by: ClientIdentity(clientID: "app", keyID: "KEY"))
        #expect(try await store.settle(.revocation(work, verdict), at: later) == .postponed)
        #expect(try await refusals().isEmpty)
        #expect(try await store.ports.clients()[0].validAt == later)
        work.clientAnswer = .refused(word: Self.word, at: later + .seconds(1))
        #expect(try await store.settle(.revocation(work, .failed(at: later)), at: later + .seconds(1)) == .superseded)
        #expect(try await refusals().isEmpty)
    }

    /// siwatch sends no code of a client that Apple refuses. The code was not late, and another one would fare no better.
    @Test func aCodeThatNobodySentEndsAsThat() async throws {
        try await store.signIn(token: "r")
        try await check(.refused(word: Self.word, at: Self.asked), at: Self.asked)
        for code in ["a", "b"] { try await store.grant(nil, code: code, at: Self.asked) }
        // In the next process, too.
        let now = try store.restart(at: Self.asked + .minutes(5))
        let works = try await store.claimCodes(at: now)
        let batch = try await store.settle(works.map { .code($0, .late) }, at: now)
        #expect(batch.results == [.grant(.rejected, .invalidClient), .grant(.rejected, .invalidClient)])
        let entry: [SQLValue] = ["rejected", "invalid_client", .text(Self.word)]
        #expect(try await store.rows("SELECT outcome, reason, detail FROM grant_log WHERE outcome = 'rejected'") == [entry, entry])
        // Apple accepts the client again. A code that is late now counts as late.
        try await check(.accepted(at: now), at: now)
        try await store.grant(nil, code: "c", at: now - .minutes(6))
        #expect(try await store.settleCodes(at: now, as: .late) == [.grant(.rejected, .codeExpired)])
    }

    @Test func whoAsksLearnsWhatWaits() async throws {
        #expect(try await store.ports.refusedClients(at: Self.asked, upTo: 10).isEmpty)
        try await store.signIn("other", client: "web", token: "w")
        try await open("user", at: Self.asked)
        var work = try await claimToken(at: Self.asked)
        work.clientAnswer = .refused(word: Self.word, at: Self.asked)
        _ = try await store.settle(.revocation(work, .failed(at: Self.asked)), at: Self.asked)
        for code in ["a", "b"] { try await store.grant("ann", code: code, at: Self.asked) }
        try await store.grant("ann", client: "web", code: "c", at: Self.asked)
        try await store.run("UPDATE credential SET due_at = 1")
        let known = ClientRefusal(since: Self.asked, at: Self.asked, word: Self.word)
        let found = try await store.ports.refusedClients(at: Self.asked, upTo: 10)
        #expect(found == [RefusedClient(app: "example", clientID: "app", refusal: known, codes: 2, checks: 1, revocations: 1)])
        #expect(try await store.ports.refusedClients(at: Self.asked, upTo: 1).map(\.codes) == [1])
        #expect(try await store.ports.history(of: "user", upTo: 100).refusals == ["app": known])
        #expect(try await store.ports.revocations(of: "user").refusals == ["app": known])
        #expect(try await store.ports.history(of: "nobody", upTo: 100).isEmpty)
        #expect(try await store.ports.revocations(of: "nobody").isEmpty)
    }

    private func open(_ user: String, at now: Timestamp) async throws {
        try await store.signIn(user, token: "r-\(user)")
        try await store.requestRevocation(user, at: now)
        #expect(try await store.settleRequests(at: now) == [.postponed])
    }

    private func claimToken(at now: Timestamp) async throws -> DueRevocation { try await store.claimRevocations(at: now)[0] }
}
