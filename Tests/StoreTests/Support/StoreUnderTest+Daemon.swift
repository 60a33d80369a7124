// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting

/// The daemon's work, one round at a time.
extension StoreUnderTest {
    static let lease = Duration.seconds(60)
    static let policy = RefreshPolicy()

    func claimNotifications(upTo limit: Int = 100, at now: Timestamp = .start) async throws -> [ClaimedNotification] {
        try await ports.claimNotifications(upTo: limit, at: now, lease: Self.lease, suspects: true)
    }

    func claimGrants(upTo limit: Int = 100, at now: Timestamp = .start) async throws -> [ClaimedGrant] {
        try await ports.claimGrants(upTo: limit, at: now, lease: Self.lease)
    }

    func claimCredentials(
        of app: String = "example",
        upTo limit: Int = 100,
        firstChecks: Int? = nil,
        at now: Timestamp
    ) async throws -> [DueCredential] {
        try await ports.claimDueCredentials(
            of: app,
            upTo: limit,
            firstChecks: firstChecks ?? limit,
            at: now,
            policy: Self.policy,
            preferring: []
        )
    }

    func settle(
        _ settlements: [Settlement],
        at now: Timestamp = .start,
        startedAt: Timestamp = .start,
        canaries: [String: Set<String>] = [:],
        revocationLimit: RevocationLimitRules = RevocationLimitRules()
    ) async throws -> SettlementChanges {
        let rules = SettlementRules(
            policy: Self.policy,
            pollInterval: .seconds(1),
            startedAt: startedAt,
            revocationLimit: revocationLimit,
            canaries: canaries,
            pseudonymizer: PlainSealer()
        )
        return try await ports.settle(settlements, under: rules, at: now)
    }

    func settle(_ settlement: Settlement, at now: Timestamp = .start, startedAt: Timestamp = .start) async throws -> Settled {
        try await settle([settlement], at: now, startedAt: startedAt).results[0]
    }
}
