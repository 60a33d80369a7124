// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import NIOConcurrencyHelpers

/// Claims of tokens to revoke.
extension PostgresStore {
    package func dueRevocations(upTo limit: Int, at now: Timestamp, trusted: Timestamp?, quotas: [String: Int]) async throws
        -> [String: Int]
    {
        let directory = self.directory.withLockedValue { $0 }
        return try await runClaim { connection in
            // Apple is not asked about the tokens of a client that left, so no pause holds them.
            let clients = directory.clientsByID.values.filter { directory.isWatched($0) || trusted != nil }
            let counts = try clients.sorted { $0.id < $1.id }.map { client in
                let most = min(limit, quotas[client.clientID] ?? limit)
                let answer = try connection.send(
                    """
                    SELECT CASE WHEN $5 < \(DueRevocation.anyTime.milliseconds) OR (SELECT paused_at FROM app WHERE id = $1) IS NULL THEN
                           (SELECT COUNT(*) FROM (SELECT 1 FROM revocation r
                                                   WHERE client = $2 AND due_at <= $3 AND \(Self.isOpened(by: "$5")) LIMIT $6) d)
                         + (SELECT COUNT(*) FROM (SELECT 1 FROM revocation r
                                                   WHERE client = $2 AND due_at > $4 AND \(Self.isOpened(by: "$5")) LIMIT $6) l)
                           ELSE 0 END
                    """,
                    client.app.id,
                    client.id,
                    now,
                    DueRevocation.furthest(at: now),
                    DueRevocation.latestOpening(isWatched: directory.isWatched(client), at: trusted),
                    most
                )
                return (app: client.app.name, most: most, answer: answer)
            }
            var due: [String: Int] = [:]
            for (app, most, answer) in counts {
                due[app] = min((due[app] ?? 0) + min(try connection.rows(of: answer).integer, most), limit)
            }
            return due.filter { $0.value > 0 }
        }
    }

    package func claimRevocations(
        permits: [String: Int],
        at now: Timestamp,
        trusted: Timestamp?,
        policy: RefreshPolicy,
        quotas: [String: Int]
    ) async throws -> [DueRevocation] {
        let directory = self.directory.withLockedValue { $0 }
        // Sorted by name, so that a simulation with the same seed is the same run.
        let permits = permits.filter { $0.value > 0 }.sorted { $0.key < $1.key }
        guard !permits.isEmpty else { return [] }
        return try await runClaim { [owner] connection in
            try permits.flatMap { name, permits -> [DueRevocation] in
                guard let app = directory.apps[name] else { return [] }
                let isPaused = try connection.isPaused(app.id)
                let answers = try directory.clientsToRevoke(of: app.id, isPaused: isPaused, at: trusted).compactMap { client in
                    try Self.sendDue(
                        of: client.id,
                        openedBy: DueRevocation.latestOpening(isWatched: directory.isWatched(client), at: trusted),
                        upTo: min(permits, quotas[client.clientID] ?? permits),
                        at: now,
                        on: connection
                    )
                }
                let due = try answers.flatMap { try connection.rows(of: $0) }.sorted { one, other in
                    (one.integer(at: 3), one.integer(at: 0)) < (other.integer(at: 3), other.integer(at: 0))
                }
                return try Self.claim(due.prefix(permits), of: app, directory, owner: owner, at: now, policy: policy, on: connection)
            }
        }
    }

    /// Asks for the due tokens of a client, longest due first: `request, client, attempts, due_at, token_fingerprint`.
    private static func sendDue(
        of client: Int64,
        openedBy latest: Timestamp,
        upTo limit: Int,
        at now: Timestamp,
        on connection: Connection
    ) throws -> Connection.Answer? {
        guard limit > 0 else { return nil }
        try connection.send(
            """
            UPDATE revocation r SET due_at = $2
              FROM (SELECT request, client, token_fingerprint FROM revocation WHERE client = $1 AND due_at > $3
                     ORDER BY request, client, token_fingerprint FOR UPDATE SKIP LOCKED) late
             WHERE r.request = late.request AND r.client = late.client AND r.token_fingerprint = late.token_fingerprint
            """,
            client,
            now,
            DueRevocation.furthest(at: now)
        )
        return try connection.send(
            """
            SELECT request, client, attempts, due_at, token_fingerprint FROM revocation r
             WHERE client = $1 AND due_at <= $2 AND \(isOpened(by: "$3")) ORDER BY due_at, request, token_fingerprint LIMIT $4
            """,
            client,
            now,
            latest,
            limit
        )
    }

    /// - Parameter due: `request, client, attempts, due_at, token_fingerprint`, longest due first.
    private static func claim(
        _ due: ArraySlice<PostgresRow>,
        of app: ClientDirectory.App,
        _ directory: ClientDirectory,
        owner: String,
        at now: Timestamp,
        policy: RefreshPolicy,
        on connection: Connection
    ) throws -> [DueRevocation] {
        // A token that may have killed the process comes alone, so that a second crash costs no other token.
        let isSuspect = { (row: PostgresRow) in row.int(at: 2) >= Claim.suspectAttempts }
        let taken = due.first.map(isSuspect) ?? false ? due.prefix(1) : due.prefix { !isSuspect($0) }
        var chosen = RowArrays()
        for row in taken {
            let leaseEnd = now.advanced(by: policy.lease(attempts: row.int(at: 2)))
            chosen.append(row.integer(at: 0), row.integer(at: 1), row.bytes(at: 4), row.integer(at: 3), leaseEnd)
        }
        guard chosen.count > 0 else { return [] }
        let answer = try connection.send(
            """
            WITH free AS (
              SELECT r.request, r.client, r.token_fingerprint, n.lease_end, n.place
                FROM unnest($1, $2, $3, $4, $5) WITH ORDINALITY AS n (request, client, token_fingerprint, due_at, lease_end, place)
                JOIN revocation r ON r.request = n.request AND r.client = n.client AND r.token_fingerprint = n.token_fingerprint
                                 AND r.due_at IS NOT DISTINCT FROM n.due_at
               ORDER BY r.request, r.client, r.token_fingerprint FOR UPDATE OF r SKIP LOCKED),
            claimed AS (
              UPDATE revocation r SET due_at = free.lease_end, attempts = LEAST(GREATEST(r.attempts, 0), 1000) + 1, claimed_by = $6
                FROM free WHERE r.request = free.request AND r.client = free.client AND r.token_fingerprint = free.token_fingerprint
              RETURNING free.place, r.*)
            SELECT request, client, \(DueRevocation.columns) FROM claimed ORDER BY place
            """,
            chosen.parameters + [owner.parameter]
        )
        return try connection.rows(of: answer).compactMap { row -> DueRevocation? in
            guard let client = directory.clientsByID[row.integer(at: 1)] else { return nil }
            return DueRevocation(row, from: 2, of: row.integer(at: 0), at: client, owner: owner)
        }.map { work in
            var work = work
            work.newerSignIn = try connection.newerSignIn(of: work.id.userID, in: app.id, after: work.wantedAt, at: now)
            return work
        }
    }
}
