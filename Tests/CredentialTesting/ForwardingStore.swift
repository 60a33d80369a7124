// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// A store that hands to another one the calls that no test's store changes.
package protocol ForwardingStore: WorkStore {
    var base: any WorkStore { get }
}

extension ForwardingStore {
    package var longestSilence: Duration { base.longestSilence }

    package func claimFirstChecks(of clients: Set<String>, upTo limit: Int, at now: Timestamp, policy: RefreshPolicy) async throws
        -> [DueCredential]
    {
        try await base.claimFirstChecks(of: clients, upTo: limit, at: now, policy: policy)
    }

    package func claimNotifications(
        upTo limit: Int,
        at now: Timestamp,
        lease: Duration,
        suspects: Bool
    ) async throws -> [ClaimedNotification] {
        try await base.claimNotifications(upTo: limit, at: now, lease: lease, suspects: suspects)
    }

    package func claimGrants(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedGrant] {
        try await base.claimGrants(upTo: limit, at: now, lease: lease)
    }

    package func claimCodes(
        upTo limit: Int,
        permits: [String: Int],
        at now: Timestamp,
        lease: Duration,
        suspects: Bool,
        quotas: [String: Int]
    ) async throws -> [ClaimedCode] {
        try await base.claimCodes(upTo: limit, permits: permits, at: now, lease: lease, suspects: suspects, quotas: quotas)
    }

    package func claimRevocationRequests(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedRevocationRequest] {
        try await base.claimRevocationRequests(upTo: limit, at: now, lease: lease)
    }

    package func dueRevocations(upTo limit: Int, at now: Timestamp, trusted: Timestamp?, quotas: [String: Int]) async throws
        -> [String: Int]
    {
        try await base.dueRevocations(upTo: limit, at: now, trusted: trusted, quotas: quotas)
    }

    package func claimRevocations(
        permits: [String: Int],
        at now: Timestamp,
        trusted: Timestamp?,
        policy: RefreshPolicy,
        quotas: [String: Int]
    ) async throws
        -> [DueRevocation]
    {
        try await base.claimRevocations(permits: permits, at: now, trusted: trusted, policy: policy, quotas: quotas)
    }

    package func isSignedIn(_ credential: CredentialID, besides row: Int64) async throws -> Bool {
        try await base.isSignedIn(credential, besides: row)
    }

    package func claimPendingRejections(
        of app: String,
        admittedBy admissions: [AdmissionRule],
        upTo limit: Int,
        at now: Timestamp,
        policy: RefreshPolicy
    ) async throws -> [DueCredential] {
        try await base.claimPendingRejections(of: app, admittedBy: admissions, upTo: limit, at: now, policy: policy)
    }

    package func takeCanaries(_ userIDs: Set<String>, of app: String, excluding excluded: Set<String>, upTo limit: Int, at now: Timestamp)
        async throws -> [DueCredential]
    {
        try await base.takeCanaries(userIDs, of: app, excluding: excluded, upTo: limit, at: now)
    }
}
