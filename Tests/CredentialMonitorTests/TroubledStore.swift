// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting

/// A store that fails or waits before the real one, as a test says.
struct TroubledStore: ForwardingStore {
    final class Trouble: Sendable {
        private struct State {
            var failures: [StoreError]
            var failedReads: Int
            var losesNextAnswer = false
            var isHeld = false
            var batches: [Int] = []
        }

        private let state: Observed<State>
        let refusedUser: String?
        let holdsBackendsUp: Bool

        init(failing failures: [StoreError] = [], failedReads: Int = 0, refusing refusedUser: String? = nil, holdsBackendsUp: Bool = true) {
            state = Observed(State(failures: failures, failedReads: failedReads))
            (self.refusedUser, self.holdsBackendsUp) = (refusedUser, holdsBackendsUp)
        }

        var batches: [Int] { state.value.batches }
        /// The next commit happens, and the caller gets no answer.
        func loseNextAnswer() { state.update { $0.losesNextAnswer = true } }
        func hold() { state.update { $0.isHeld = true } }
        func release() { state.update { $0.isHeld = false } }
        func commitStarted() async throws { try await state.wait { !$0.batches.isEmpty } }

        fileprivate func read() throws {
            let fails = state.update { state in
                state.failedReads -= 1
                return state.failedReads >= 0
            }
            if fails { throw StoreError.busy }
        }

        fileprivate func answer() throws {
            let isLost = state.update { state in
                defer { state.losesNextAnswer = false }
                return state.losesNextAnswer
            }
            if isLost { throw StoreError.outcomeUnknown("I/O error") }
        }

        fileprivate func pass(_ count: Int) async throws {
            let failure = state.update { state in
                state.batches.append(count)
                return state.failures.isEmpty ? nil : state.failures.removeFirst()
            }
            if let failure { throw failure }
            try await state.wait { !$0.isHeld }
        }
    }

    let base: any WorkStore
    private let trouble: Trouble

    init(_ base: any WorkStore, _ trouble: Trouble) { (self.base, self.trouble) = (base, trouble) }
    var holdsBackendsUp: Bool { trouble.holdsBackendsUp }

    func settle(_ settlements: [Settlement], under rules: SettlementRules, at now: Timestamp) async throws -> SettlementChanges {
        try await trouble.pass(settlements.count)
        for case .grant(let grant, _) in settlements where grant.content?.credential.userID == trouble.refusedUser {
            if trouble.refusedUser != nil { throw StoreError.refused("CHECK constraint failed") }
        }
        let batch = try await base.settle(settlements, under: rules, at: now)
        try trouble.answer()
        return batch
    }

    func firstRequestToRevoke(_ credential: CredentialID, since time: Timestamp) async throws -> Timestamp? {
        try trouble.read()
        return try await base.firstRequestToRevoke(credential, since: time)
    }

    func claimDueCredentials(
        of app: String,
        upTo limit: Int,
        firstChecks: Int,
        at now: Timestamp,
        policy: RefreshPolicy,
        preferring preferred: Set<String>,
        quotas: [String: Int]
    ) async throws -> [DueCredential] {
        try trouble.read()
        return try await base.claimDueCredentials(
            of: app,
            upTo: limit,
            firstChecks: firstChecks,
            at: now,
            policy: policy,
            preferring: preferred,
            quotas: quotas
        )
    }
}
