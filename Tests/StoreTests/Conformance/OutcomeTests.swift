// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import SQLiteStore
import Testing

/// The outcomes of their rows, and siwatch's state, as backends read them.
@Suite(.schemas, .timeLimit(.minutes(10))) struct OutcomeTests {
    private func outcomes(of kind: String, in store: StoreUnderTest) async throws -> [[SQLValue]] {
        try await store.rows("SELECT id, client_id, user_id, outcome, reason FROM \(kind)_outcome ORDER BY id, settled_at, client_id")
    }

    @Test(arguments: StoreKind.allCases)
    func aSignInWaitsAndIsSettled(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant("ann", token: "r")
        try await store.grant("bob", code: "c")
        try await store.grant(nil, code: "d")
        #expect(
            try await outcomes(of: "grant", in: store)
                == [[1, "app", "ann", "waiting", nil], [2, "app", "bob", "waiting", nil], [3, "app", nil, "waiting", nil]]
        )
        // siwatch settles a code before the sign-in that came first.
        let codes = try await store.ports.claimCodes(
            upTo: 9,
            permits: ["example": 9],
            at: .start,
            lease: StoreUnderTest.lease,
            suspects: true
        )
        let bob = try #require(codes.first { $0.content?.userID == "bob" })
        _ = try await store.settle(.code(bob, .rejected(.rejectedByApple, detail: "words of Apple's")))
        try await store.settleGrants(at: .start)
        #expect(
            try await outcomes(of: "grant", in: store)
                == [
                    [1, "app", "ann", "applied", nil], [2, "app", "bob", "rejected", "rejected_by_apple"],
                    [3, "app", nil, "waiting", nil],
                ]
        )
        #expect(
            try await store.rows("SELECT granted_at, settled_at FROM grant_outcome WHERE id = 1") == [[.at(.start), .at(.start)]]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func aDeletionWaitsAndIsProved(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn("ann", token: "r")
        let asked = Timestamp.start + .days(1)
        for user in ["ann", "bob"] { try await store.requestRevocation(user, at: asked) }
        #expect(
            try await outcomes(of: "revocation", in: store)
                == [[1, "app", "ann", "waiting", nil], [2, "app", "bob", "waiting", nil]]
        )
        let requests = try await store.ports.claimRevocationRequests(upTo: 10, at: asked, lease: .minutes(1))
        _ = try await store.settle(requests.map { .revocationRequest($0, .accepted(at: asked)) }, at: asked)
        #expect(
            try await outcomes(of: "revocation", in: store)
                == [[1, "app", "ann", "waiting", nil], [2, "app", "bob", "no_token", nil]]
        )
        for (second, word) in [RevocationProof.Answer.Word.accepted, .revoked, .rejected].enumerated() {
            let now = asked + .seconds(second)
            let permits = ["example": 1]
            let work = try await store.ports.claimRevocations(permits: permits, at: now, policy: StoreUnderTest.policy)[0]
            let answer = RevocationProof.Answer(word, askedAt: now, date: now)
            _ = try await store.settle(
                .revocation(work, .answered(answer, by: ClientIdentity(clientID: "app", keyID: "KEY"))),
                at: now
            )
        }
        #expect(
            try await outcomes(of: "revocation", in: store)
                == [[1, "app", "ann", "proved", nil], [2, "app", "bob", "no_token", nil]]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func oneRowSaysWhetherSiwatchLives(_ kind: StoreKind) async throws {
        let store = try kind.make()
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
