// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Foundation
import Testing

/// Suites in which a member of the group writes into the file, beside siwatch.
protocol PlantedSuite: RevocationSuite {}

extension PlantedSuite {
    static var rules: RevocationLimitRules { RevocationLimitRules(maxPerHour: 2) }

    func ask(_ users: String...) async throws -> [Settled] {
        for user in users {
            try await store.signIn(user, token: "r-\(user)")
            try await store.requestRevocation(user, at: Self.asked)
        }
        return try await store.settleRequests(at: Self.now, revocationLimit: Self.rules)
    }

    func planted() -> [DecisionRow.Kind] { store.ports.takePlanted().map(\.kind) }
    func held() async throws -> Int64? { try await store.count("revocation_queue WHERE held_at IS NOT NULL") }
}

/// A member of the group writes decisions into the file, beside siwatch.
@Suite(.eachStore, .on(.file), .timeLimit(.minutes(10))) struct PlantedDecisionTests: PlantedSuite {
    private func handle() async throws -> OperatorAnswer? {
        try await store.ports.handleNextRequest(under: StoreUnderTest.recheckRules, at: Self.now)?.answer
    }

    private func pauses() async throws -> [Timestamp?] { try await store.ports.apps().map(\.pausedAt) }

    private func isRefused(_ answer: OperatorAnswer?) -> Bool { if case .refused = answer { true } else { false } }

    // MARK: Requests of operators

    @Test func aRequestWithoutAProofIsRefused() async throws {
        let insert = "INSERT INTO operator_request (request, requested_at) VALUES (?, ?)"
        try await store.run(insert, [.text(#"{"pause":{"app":"example"}}"#), .at(Self.now)])
        #expect(try await isRefused(handle()))
        #expect(try await pauses() == [nil, nil])
        #expect(store.ports.takePlanted() == [PlantedDecisions(.request, count: 1, ids: [1])])
    }

    @Test func aRequestIsCarriedOutOnce() async throws {
        _ = try await store.ports.submit(.pause(app: "example"), at: Self.now)
        let rows = try await store.rows("SELECT request, requested_at, number, proof FROM operator_request")
        let insert = "INSERT INTO operator_request (request, requested_at, number, proof) VALUES (?, ?, ?, ?)"
        try await store.run(insert, rows[0])
        #expect(try await handle() == .paused(since: Self.now))
        #expect(try await isRefused(handle()))
        #expect(try await store.ask(.resume(app: "example"), at: Self.now) == .resumed(wasPaused: true))
        try await store.run(insert, rows[0])
        #expect(try await isRefused(handle()))
        #expect(planted() == [.request])
        // The next process does not know what this one has carried out.
        store.ports.trust(PlainSealer(), since: Self.now + .milliseconds(1), nil)
        try await store.run(insert, rows[0])
        let later = Self.now + .seconds(1)
        let handled = try await store.ports.handleNextRequest(under: StoreUnderTest.recheckRules, at: later)
        #expect(handled?.answer == .expired)
        #expect(try await pauses() == [nil, nil])
    }

    @Test func aChangedRequestIsRefused() async throws {
        _ = try await store.ports.submit(.resume(app: "example"), at: Self.now)
        try await store.run("UPDATE operator_request SET request = replace(request, 'resume', 'pause')")
        #expect(try await isRefused(handle()))
        #expect(try await pauses() == [nil, nil])
    }

    @Test func aReleaseThatIsOverDoesNotGoOn() async throws {
        _ = try await ask("a", "b", "c", "d")
        _ = try await store.ports.submit(.confirmRevocations(app: "example", count: 1), at: Self.now)
        #expect(try await handle() == .revocationsReleased(count: 1, left: 1))
        let position = try await store.rows("SELECT position, proof FROM operator_request")
        #expect(try await handle() == nil)
        #expect(try await held() == 1)
        // The held request takes the place of the confirmed one.
        try await store.run("DELETE FROM revocation_queue WHERE id = 3")
        try await store.run("UPDATE revocation_queue SET id = 3 WHERE id = 4")
        try await store.run("UPDATE operator_request SET position = ?, proof = ?", position[0])
        while try await store.ports.handleNextRequest(under: StoreUnderTest.recheckRules, at: Self.now) != nil {}
        #expect(try await held() == 1)
        #expect(planted() == [.request])
    }

    @Test func aReleaseEndsWithItsProcess() async throws {
        _ = try await ask("a", "b", "c", "d")
        _ = try await store.ports.submit(.confirmRevocations(app: "example", count: 2), at: Self.now)
        #expect(try await handle() == .revocationsReleased(count: 2, left: 0))
        store.ports.trust(PlainSealer(), since: Self.now, nil)
        while try await store.ports.handleNextRequest(under: StoreUnderTest.recheckRules, at: Self.now) != nil {}
        #expect(try await held() == 2)
        let again = OperatorRequest.confirmRevocations(app: "example", count: 2)
        #expect(try await store.ask(again, at: Self.now) == .revocationsReleased(count: 2, left: 0))
        #expect(try await held() == 0)
    }

    @Test func aReleaseDecidesAboutNoMoreThanItHasCounted() async throws {
        _ = try await ask("a", "b", "c", "d", "e")
        try await store.run("UPDATE revocation_queue SET id = 10 WHERE id = 3")
        _ = try await store.ports.submit(.confirmRevocations(app: "example", count: 2), at: Self.now)
        #expect(try await handle() == .revocationsReleased(count: 2, left: 1))
        try await store.run("UPDATE revocation_queue SET id = 3 WHERE id = 10")
        while try await store.ports.handleNextRequest(under: StoreUnderTest.recheckRules, at: Self.now) != nil {}
        #expect(try await held() == 1)
    }

    @Test(arguments: [
        "UPDATE app SET name = CASE name WHEN 'example' THEN 'gone' ELSE 'example' END",
        "UPDATE client SET app = (SELECT id FROM app WHERE name = 'example') WHERE client_id = 'elsewhere'",
    ])
    func anAppIsWhatSiwatchHasRegistered(_ change: String) async throws {
        try await store.run(change)
        _ = try await store.ports.submit(.pause(app: "example"), at: Self.now)
        #expect(try await isRefused(handle()))
        #expect(try await pauses() == [nil, nil])
    }

    @Test func aRequestThatIsTooLongIsNotRead() async throws {
        let insert = "INSERT INTO operator_request (request, requested_at) VALUES (printf('%.*c', ?, 'x'), ?)"
        try await store.run(insert, [.integer(Int64(OperatorRequest.mostBytes) + 1), .at(Self.now)])
        #expect(try await handle() == .notUnderstood)
    }

    // MARK: Pauses and breakers

    @Test func aPauseByHandEnds() async throws {
        try await store.run("UPDATE app SET paused_at = ?", [.at(Self.now)])
        #expect(try await handle() == nil)
        #expect(try await pauses() == [nil, nil])
        #expect(planted() == [.pause])
    }

    @Test func aPauseStaysThatWasEndedByHand() async throws {
        _ = try await store.ask(.pause(app: "example"), at: Self.now)
        try await store.run("UPDATE app SET paused_at = NULL, paused_proof = NULL")
        #expect(try await handle() == nil)
        #expect(try await pauses() == [Self.now, nil])
        #expect(planted() == [.pause])
    }

    @Test func aPauseStaysThatWasEndedByHandAfterAStart() async throws {
        _ = try await store.ask(.pause(app: "example"), at: Self.now)
        store.ports.trust(PlainSealer(), since: Self.now, nil)
        #expect(try await handle() == nil)
        try await store.run("UPDATE app SET paused_at = NULL, paused_proof = NULL")
        #expect(try await handle() == nil)
        #expect(try await pauses() == [Self.now, nil])
    }

    @Test(arguments: ["DELETE FROM breaker", "UPDATE breaker SET state = '{}'"])
    func aBreakerStaysOpen(_ change: String) async throws {
        try await store.signIn(token: "r", isAccepted: true)
        try await store.reject("user", at: Self.now, finding: .blamed)
        #expect(try await store.ports.breakers()["example"]?.isOpen == true)
        try await store.run(change)
        try await adopt()
        #expect(try await store.ports.breakers()["example"]?.blamedClients == ["app"])
        #expect(planted() == [.breaker])
    }

    @Test func aPauseThatHasEndedDoesNotComeBackWithAStart() async throws {
        let memory = KeptDecisions()
        store.ports.trust(PlainSealer(), since: Self.now, memory)
        _ = try await store.ask(.pause(app: "example"), at: Self.now)
        let paused = try await store.rows("SELECT paused_at, paused_proof FROM app WHERE name = 'example'")
        _ = try await store.ask(.resume(app: "example"), at: Self.now)
        store.ports.trust(PlainSealer(), since: Self.now, memory)
        try await store.run("UPDATE app SET paused_at = ?, paused_proof = ? WHERE name = 'example'", paused[0])
        #expect(try await handle() == nil)
        #expect(try await pauses() == [nil, nil])
        #expect(planted() == [.pause])
    }

    /// Otherwise the next process would not believe its own decision.
    @Test func aProofThatIsTakenAwayIsPutBack() async throws {
        _ = try await store.ask(.pause(app: "example"), at: Self.now)
        try await store.run("UPDATE app SET paused_proof = NULL")
        #expect(try await handle() == nil)
        #expect(planted() == [.pause])
        store.ports.trust(PlainSealer(), since: Self.now, nil)
        #expect(try await handle() == nil)
        #expect(try await pauses() == [Self.now, nil])
        #expect(planted().isEmpty)
    }

    @Test func aConfirmationOfRejectionsByHandOpensTheBreaker() async throws {
        var breaker = RejectionBreaker()
        breaker.confirm(at: Self.now, within: .seconds(86_400))
        let state = String(decoding: try JSONEncoder().encode(breaker), as: UTF8.self)
        try await store.run("INSERT INTO breaker (app, state) SELECT id, ? FROM app WHERE name = 'example'", [.text(state)])
        try await adopt()
        let stored = try await store.ports.breakers()["example"]
        #expect(stored?.isOpen == true)
        #expect(stored?.confirmedAt == nil)
        #expect(planted() == [.breaker])
    }

    private func adopt() async throws {
        try await store.ports.adopt([AppClients(name: "example", clientIDs: ["app", "web"])], under: StoreUnderTest.rules, at: Self.now)
    }
}
