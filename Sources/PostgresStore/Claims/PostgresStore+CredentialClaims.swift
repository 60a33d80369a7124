// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import NIOConcurrencyHelpers

/// Claims of credentials to check, and of rejections to believe.
extension PostgresStore {
    package func claimDueCredentials(
        of app: String,
        upTo limit: Int,
        firstChecks: Int,
        at now: Timestamp,
        policy: RefreshPolicy,
        preferring preferred: Set<String>,
        quotas: [String: Int]
    ) async throws -> [DueCredential] {
        let directory = self.directory.withLockedValue { $0 }
        guard limit > 0, let appID = directory.apps[app]?.id else { return [] }
        let quotas = directory.numbered(quotas)
        let schedule = Schedule(app: appID, clients: directory.watchedClients(of: appID), policy: policy, now: now)
        return try await runClaim { [owner] connection in
            guard try !connection.isPaused(appID) else { return [] }
            let first = schedule.clients.filter { id in directory.clientsByID[id].map { preferred.contains($0.clientID) } ?? false }
            var due = try schedule.due(of: first, upTo: limit, quotas: quotas, on: connection)
            if due.isEmpty { due = try schedule.next(upTo: limit, firstChecks: firstChecks, quotas: quotas, from: connection) }
            try schedule.sendRepairs(on: connection)
            return try Self.claim(due, directory, owner: owner, at: now, policy: policy, on: connection)
        }
    }

    package func claimFirstChecks(of clients: Set<String>, upTo limit: Int, at now: Timestamp, policy: RefreshPolicy) async throws
        -> [DueCredential]
    {
        let directory = self.directory.withLockedValue { $0 }
        return try await runClaim { [owner] connection in
            let answers = try clients.sorted().compactMap { directory.clients[$0] }.map { client in
                try connection.send(
                    """
                    SELECT user_id, client, attempts, due_at FROM credential
                     WHERE client = $1 AND first_check IS NOT NULL AND due_at IS NOT NULL AND claimed_by IS NULL
                     ORDER BY first_check, due_at, user_id LIMIT 1
                    """,
                    client.id
                )
            }
            let next = try answers.flatMap { try connection.rows(of: $0).map { ClaimableCredential($0) } }
            return try Self.claim(Array(next.prefix(limit)), directory, owner: owner, at: now, policy: policy, on: connection)
        }
    }

    package func claimPendingRejections(
        of app: String,
        admittedBy admissions: [AdmissionRule],
        upTo limit: Int,
        at now: Timestamp,
        policy: RefreshPolicy
    ) async throws -> [DueCredential] {
        let directory = self.directory.withLockedValue { $0 }
        guard limit > 0, !admissions.isEmpty, let appID = directory.apps[app]?.id else { return [] }
        return try await runClaim { [owner] connection in
            let admitted = try connection.pendingRejections(of: appID, admittedBy: admissions, directory, upTo: limit, at: now)
            return try Self.claim(admitted, directory, owner: owner, at: now, policy: policy, onlyPending: true, on: connection)
        }
    }

    package func takeCanaries(_ userIDs: Set<String>, of app: String, excluding excluded: Set<String>, upTo limit: Int, at now: Timestamp)
        async throws -> [DueCredential]
    {
        let directory = self.directory.withLockedValue { $0 }
        guard limit > 0, !userIDs.isEmpty, let appID = directory.apps[app]?.id else { return [] }
        return try await claims.transaction { connection in
            guard try !connection.isPaused(appID) else { return [] }
            let rows = try connection.rows(
                """
                SELECT c.client, c.user_id, \(DueCredential.columns)
                  FROM credential c LEFT JOIN canary a ON a.user_id = c.user_id AND a.client = c.client
                 WHERE c.user_id = ANY($1) AND c.app = $2 AND c.state = 'authorized' AND c.sealed_token IS NOT NULL
                   AND (a.asked_at IS NULL OR a.asked_at <= $3 OR a.asked_at > $4)
                 ORDER BY c.user_id, c.client
                """,
                ArrayOf(userIDs),
                appID,
                now.advanced(by: .zero - BreakerRules.canaryInterval),
                now
            )
            let due = rows.compactMap { row -> DueCredential? in
                guard let client = directory.clientsByID[row.integer(at: 0)], directory.isWatched(client) else { return nil }
                guard !excluded.contains(client.clientID) else { return nil }
                let claim = Claim(owner: "", attempts: 0)
                return DueCredential(row, from: 2, of: row.text(at: 1) ?? "", at: client, for: .canary, claim)
            }
            let taken = Array(due.prefix(limit))
            for canary in taken { try connection.note(canary, directory, at: now) }
            return taken
        }
    }

    /// - Parameter onlyPending: whether to claim pending rejections, and not checks.
    private static func claim(
        _ credentials: [ClaimableCredential],
        _ directory: ClientDirectory,
        owner: String,
        at now: Timestamp,
        policy: RefreshPolicy,
        onlyPending: Bool = false,
        on connection: Connection
    ) throws -> [DueCredential] {
        var chosen = RowArrays()
        for credential in credentials {
            let leaseEnd = now.advanced(by: policy.lease(attempts: credential.attempts))
            chosen.append(credential.userID, credential.client, credential.dueAt, leaseEnd)
        }
        guard chosen.count > 0 else { return [] }
        // Every change of a row moves its due time, so this finds only unchanged rows. It does not use `=`, because many rows share a due
        // time, and the server would look for each row among all of them.
        let answer = try connection.send(
            """
            WITH free AS (
              SELECT c.user_id, c.client, n.lease_end, n.place
                FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS n (user_id, client, due_at, lease_end, place)
                JOIN credential c ON c.user_id = n.user_id AND c.client = n.client AND c.due_at IS NOT DISTINCT FROM n.due_at
               WHERE c.app <> ALL (ARRAY(SELECT id FROM app WHERE paused_at IS NOT NULL))
                     \(onlyPending ? "AND c.pending_since IS NOT NULL" : "")
               ORDER BY c.user_id, c.client FOR UPDATE OF c SKIP LOCKED),
            claimed AS (
              UPDATE credential c SET due_at = free.lease_end, attempts = LEAST(GREATEST(c.attempts, 0), 1000) + 1, claimed_by = $5
                FROM free WHERE c.user_id = free.user_id AND c.client = free.client
              RETURNING free.place, c.*)
            SELECT client, user_id, attempts, pending_since, pending_asked_at, pending_key, \(DueCredential.columns)
              FROM claimed ORDER BY place
            """,
            chosen.parameters + [owner.parameter]
        )
        return try connection.rows(of: answer).compactMap { row in
            guard let client = directory.clientsByID[row.integer(at: 0)] else { return nil }
            var purpose = DueCredential.Purpose.check
            if onlyPending {
                guard let rejection = PendingRejection(row, from: 3) else { return nil }
                purpose = .admission(rejection)
            }
            let claim = Claim(owner: owner, attempts: row.int(at: 2))
            return DueCredential(row, from: 6, of: row.text(at: 1) ?? "", at: client, for: purpose, claim)
        }
    }
}
