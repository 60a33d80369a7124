// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// A suite about requests to revoke, with Apple's answers to the questions that prove a revocation.
protocol RevocationSuite: ConformanceSuite {}

extension RevocationSuite {
    static var asked: Timestamp { .start + .hours(1) }
    static var now: Timestamp { asked + .seconds(1) }

    func claimRequests(at now: Timestamp = now) async throws -> [ClaimedRevocationRequest] {
        try await store.claimRevocationRequests(at: now)
    }

    func claimTokens(permits: [String: Int] = StoreUnderTest.permits, at now: Timestamp = now) async throws -> [DueRevocation] {
        try await store.claimRevocations(permits: permits, at: now)
    }

    func open(_ user: String = "user", clients: String..., at now: Timestamp = now) async throws {
        for client in clients { try await store.signIn(user, client: client, token: "r-\(client)-\(user)") }
        try await store.requestRevocation(user, at: Self.asked)
        #expect(try await store.settleRequests(at: now).allSatisfy { $0 == .postponed })
    }

    func answer(_ word: RevocationProof.Answer.Word, _ second: Int = 0) -> RevocationVerdict {
        let askedAt = Self.now + .seconds(second)
        let answer = RevocationProof.Answer(word, askedAt: askedAt, date: askedAt - .milliseconds(500))
        return .answered(answer, by: ClientIdentity(clientID: "app", keyID: "KEY"))
    }

    /// Settles Apple's answers to questions about the tokens of a client, or about all.
    @discardableResult
    func prove(_ client: String? = nil, questions: Int = 3, at now: Timestamp = now) async throws -> Settled? {
        var last: Settled?
        for second in 0..<questions {
            for work in try await claimTokens(at: now) {
                guard client == nil || work.id.clientID == client else {
                    _ = try await store.settle(.revocation(work, .failed(at: Self.now - .days(1))), at: Self.now)
                    continue
                }
                let word: RevocationProof.Answer.Word =
                    switch work.proof.next {
                    case .isAccepted, .isBelieved: .accepted
                    case .revoke: .revoked
                    case .isStillAccepted: .rejected
                    }
                last = try await store.settle(.revocation(work, answer(word, second)), at: now)
            }
        }
        return last
    }

    func states() async throws -> [[SQLValue]] {
        try await store.rows("SELECT client_id, state, reason, changed_at FROM credential_state ORDER BY client_id")
    }

    static func revoked(at client: String) -> [SQLValue] { [.text(client), "revoked", "revoked_by_app", .at(asked)] }
}
