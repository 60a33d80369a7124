// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct RevocationLimitTests: RevocationSuite {
    private static let rules = RevocationLimitRules(maxPerHour: 2)

    private func ask(_ users: String..., client: String = "app", at now: Timestamp = now) async throws -> [Settled] {
        for user in users {
            try await store.signIn(user, client: client, token: "r-\(user)")
            try await store.requestRevocation(user, client: client, at: now - .seconds(1))
        }
        return try await settle(at: now)
    }

    private func settle(at now: Timestamp = now) async throws -> [Settled] {
        try await store.settleRequests(at: now, revocationLimit: Self.rules)
    }

    private func held() async throws -> Int { try await store.ports.apps().reduce(0) { $0 + $1.revocationsHeld } }

    @Test func theRestOfAMassOfRequestsWaits() async throws {
        let found = try await ask("a", "b", "c", "d")
        #expect(found == [.postponed, .postponed, .heldBack(reachesLimit: true), .heldBack(reachesLimit: false)])
        #expect(try await store.count("revocation") == 2, "tokens at work")
        #expect(try await store.ports.apps().first { $0.app == "example" }?.revocationsHeldSince == Self.now)
        #expect(try await held() == 2)
        let outcomes = try await store.rows("SELECT user_id, outcome FROM revocation_outcome ORDER BY id")
        #expect(outcomes == [["a", "waiting"], ["b", "waiting"], ["c", "held"], ["d", "held"]])
        // Neither a later hour nor a later start lets them through.
        #expect(try await settle(at: Self.now + .days(2)).isEmpty)
        #expect(try await ask("e", at: Self.now + .days(2)) == [.heldBack(reachesLimit: false)])
        #expect(try await ask("f", client: "elsewhere", at: Self.now + .days(2)) == [.postponed], "of another app")
        let waiting = try await store.ports.revocations(of: "c").waiting
        #expect(waiting.map(\.waitsSince) == [Self.now])
    }

    @Test func anHourBringsItsOwnRequests() async throws {
        #expect(try await ask("a", "b") == [.postponed, .postponed])
        #expect(try await ask("c", "d", at: Self.now + .hours(1)) == [.postponed, .postponed])
        #expect(try await ask("e", at: Self.now + .hours(1) + .minutes(59)) == [.heldBack(reachesLimit: true)])
    }

    @Test func aConfirmationCarriesOutEverythingThatWaits() async throws {
        _ = try await ask("a", "b", "c", "d", "e")
        // This user signs in again, so the request means nothing any more.
        try await store.signIn("e", token: "new", at: Self.now + .minutes(1), now: Self.now + .minutes(2))
        let later = Self.now + .hours(3)
        #expect(try await store.ask(.confirmRevocations(app: "example", count: 3), at: later) == .revocationsReleased(count: 3, left: 0))
        #expect(try await settle(at: later) == [.postponed, .postponed, .revocation(.superseded)])
        #expect(try await store.count("revocation") == 4)
        #expect(try await held() == 0)
        #expect(try await store.ask(.confirmRevocations(app: "example", count: 1), at: later) == .limitNotReached)
        // The next ones are counted anew.
        #expect(try await ask("f", "g", "h", at: later) == [.postponed, .postponed, .heldBack(reachesLimit: true)])
    }

    /// Requests that came after the operator has looked may be an attacker's.
    @Test func aConfirmationCarriesOutNoMoreThanTheOperatorKnowsOf() async throws {
        _ = try await ask("a", "b", "c", "d", "e")
        #expect(try await store.ask(.confirmRevocations(app: "example", count: 2), at: Self.now) == .revocationsReleased(count: 2, left: 1))
        #expect(try await settle() == [.postponed, .postponed])
        #expect(try await store.column("SELECT user_id FROM revocation_outcome WHERE outcome = 'held'") == ["e"])
        #expect(try await held() == 1)
        #expect(try await ask("f") == [.heldBack(reachesLimit: false)], "the revocation limit stays reached")
        #expect(try await store.ask(.confirmRevocations(app: "example", count: 9), at: Self.now) == .revocationsReleased(count: 2, left: 0))
        #expect(try await ask("g") == [.postponed, .postponed, .postponed])
    }

    /// No settlement waits for a decision about a million requests.
    @Test func aReleaseGoesInPortions() async throws {
        let columns = "revocation_queue (client_id, user_id, requested_at, held_at)"
        try await store.insert(1_100, into: columns, "'app', 'u' || n, ?, 1", [.at(Self.asked)])
        try await store.run("UPDATE app SET revocations_held_at = 1, revocations_held = 1100 WHERE name = 'example'")
        let id = try await store.ports.submit(.dropRevocations(app: "example"), at: Self.now)
        var left: [Int] = []
        while try await store.ports.handleNextRequest(under: StoreUnderTest.recheckRules, at: Self.now) != nil {
            left.append(try await held())
        }
        #expect(left == [1_100, 600, 100, 0])
        #expect(try await store.ports.answer(to: id) == .revocationsReleased(count: 1_100, left: 0))
        #expect(try await store.count("revocation_log WHERE reason = 'dropped'") == 1_100)
        #expect(try await store.count("app WHERE revocations_held_at IS NOT NULL") == 0)
    }

    @Test func aDropRejectsEverythingThatWaitsWithAReceipt() async throws {
        _ = try await ask("a", "b", "c", "d")
        #expect(try await store.ask(.dropRevocations(app: "other"), at: Self.now) == .limitNotReached)
        #expect(try await store.ask(.dropRevocations(app: "example"), at: Self.now) == .revocationsReleased(count: 2, left: 0))
        let log = try await store.rows("SELECT request, app, user_id, requested_at, outcome, reason FROM revocation_log ORDER BY id")
        #expect(log.first == [3, "example", "c", .at(Self.asked), "rejected", "dropped"])
        #expect(log.dropFirst() == [[4, "example", "d", .at(Self.asked), "rejected", "dropped"]])
        #expect(try await store.count("revocation_queue") == 2)
        #expect(try await store.ports.queues().first { $0.queue == "revocation" }?.depth == 2)
        #expect(try await store.rows("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'") == [[4]])
    }

    /// A second request of a user revokes nothing that the first does not, so it is not counted.
    @Test func onlyRequestsThatRevokeSomethingCount() async throws {
        #expect(try await ask("a") == [.postponed])
        for _ in 1...3 { try await store.requestRevocation("a", at: Self.asked) }
        try await store.requestRevocation("nobody", at: Self.asked)
        #expect(try await settle() == [.postponed, .postponed, .postponed, .revocation(.noToken)])
        #expect(try await ask("b") == [.postponed])
        #expect(try await held() == 0)
    }
}
