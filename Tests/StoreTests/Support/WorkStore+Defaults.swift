// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Claims while Apple blames no client.
extension WorkStore {
    func claimCodes(
        upTo limit: Int,
        permits: [String: Int],
        at now: Timestamp,
        lease: Duration,
        suspects: Bool
    ) async throws -> [ClaimedCode] {
        try await claimCodes(upTo: limit, permits: permits, at: now, lease: lease, suspects: suspects, quotas: [:])
    }

    func dueRevocations(upTo limit: Int, at now: Timestamp) async throws -> [String: Int] {
        try await dueRevocations(upTo: limit, at: now, trusted: now, quotas: [:])
    }

    func claimRevocations(permits: [String: Int], at now: Timestamp, policy: RefreshPolicy) async throws -> [DueRevocation] {
        try await claimRevocations(permits: permits, at: now, trusted: now, policy: policy, quotas: [:])
    }

    func claimDueCredentials(
        of app: String,
        upTo limit: Int,
        firstChecks: Int,
        at now: Timestamp,
        policy: RefreshPolicy,
        preferring preferred: Set<String>
    ) async throws -> [DueCredential] {
        try await claimDueCredentials(
            of: app,
            upTo: limit,
            firstChecks: firstChecks,
            at: now,
            policy: policy,
            preferring: preferred,
            quotas: [:]
        )
    }

    func takeCanaries(_ userIDs: Set<String>, of app: String, upTo limit: Int, at now: Timestamp) async throws -> [DueCredential] {
        try await takeCanaries(userIDs, of: app, excluding: [], upTo: limit, at: now)
    }
}
