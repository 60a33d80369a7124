// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import GRDB
import NIOConcurrencyHelpers

/// Claims of tokens to revoke.
extension SQLiteStore {
    package func dueRevocations(upTo limit: Int, at now: Timestamp, trusted: Timestamp?, quotas: [String: Int]) async throws
        -> [String: Int]
    {
        let directory = self.directory.withLockedValue { $0 }
        return try await query { connection in
            guard try connection.exists("SELECT 1 FROM revocation") else { return [:] }
            var due: [String: Int] = [:]
            for app in directory.apps.values {
                let isPaused = try connection.isPaused(app.id)
                let count = try directory.clientsToRevoke(of: app.id, isPaused: isPaused, at: trusted).reduce(0) { count, client in
                    let most = min(limit, quotas[client.clientID] ?? limit)
                    let found = try connection.fetchInt(
                        """
                        SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM revocation r
                                                       WHERE client = $1 AND due_at <= $2 AND \(Self.isOpened(by: "$5")) LIMIT $4))
                             + (SELECT COUNT(*) FROM (SELECT 1 FROM revocation r
                                                       WHERE client = $1 AND due_at > $3 AND \(Self.isOpened(by: "$5")) LIMIT $4))
                        """,
                        client.id,
                        now,
                        DueRevocation.furthest(at: now),
                        most,
                        DueRevocation.latestOpening(isWatched: directory.isWatched(client), at: trusted)
                    )
                    return count + min(found, most)
                }
                due[app.name] = min(count, limit)
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
        return try await write { [owner] db in
            try permits.flatMap { name, permits -> [DueRevocation] in
                guard let app = directory.apps[name] else { return [] }
                let isPaused = try SQLiteConnection(db).isPaused(app.id)
                let due = try directory.clientsToRevoke(of: app.id, isPaused: isPaused, at: trusted).flatMap { client in
                    try Self.due(
                        of: client.id,
                        openedBy: DueRevocation.latestOpening(isWatched: directory.isWatched(client), at: trusted),
                        upTo: min(permits, quotas[client.clientID] ?? permits),
                        at: now,
                        in: db
                    )
                }.sorted { ($0.dueAt, $0.request, $0.client) < ($1.dueAt, $1.request, $1.client) }.prefix(permits)
                // A token that may have killed the process comes alone, so that a second crash costs no other token.
                let isSuspect = due.first.map { $0.attempts >= Claim.suspectAttempts } ?? false
                let taken = isSuspect ? due.prefix(1) : due.prefix { $0.attempts < Claim.suspectAttempts }
                let take = try PreparedStatement(
                    """
                    UPDATE revocation AS r SET due_at = ?1, attempts = MIN(MAX(attempts, 0), 1000) + 1, claimed_by = ?2
                     WHERE request = ?3 AND client = ?4 AND token_fingerprint = ?5
                    RETURNING \(DueRevocation.columns)
                    """,
                    in: db
                )
                return try taken.compactMap { due -> DueRevocation? in
                    guard let client = directory.clientsByID[due.client] else { return nil }
                    let leaseEnd = now.advanced(by: policy.lease(attempts: due.attempts))
                    let claimed = try take.first(leaseEnd, owner, due.request, client.id, due.fingerprint) { row in
                        DueRevocation(row, from: 0, of: due.request, at: client, owner: owner)
                    }
                    guard var work = claimed else { return nil }
                    work.newerSignIn = try SQLiteConnection(db).newerSignIn(of: work.id.userID, in: app.id, after: work.wantedAt, at: now)
                    return work
                }
            }
        }
    }

    /// A row of `revocation` that may be claimed.
    private struct Claimable {
        var request: Int64
        var client: Int64
        var fingerprint: [UInt8]
        var attempts: Int
        var dueAt: Int64
    }

    /// The due tokens of a client, longest due first.
    private static func due(of client: Int64, openedBy latest: Timestamp, upTo limit: Int, at now: Timestamp, in db: Database) throws
        -> [Claimable]
    {
        guard limit > 0 else { return [] }
        try SQLiteConnection(db).execute(
            "UPDATE revocation SET due_at = $1 WHERE client = $2 AND due_at > $3",
            now,
            client,
            DueRevocation.furthest(at: now)
        )
        var due: [Claimable] = []
        try PreparedStatement(
            """
            SELECT request, attempts, due_at, token_fingerprint FROM revocation r
             WHERE client = ?1 AND due_at <= ?2 AND \(isOpened(by: "?3")) ORDER BY due_at, request LIMIT ?4
            """,
            in: db
        ).forEachRow(client, now, latest, limit) { row in
            due.append(
                Claimable(
                    request: row.integer(at: 0),
                    client: client,
                    fingerprint: row.bytes(at: 3),
                    attempts: Int(row.integer(at: 1)),
                    dueAt: row.integer(at: 2)
                )
            )
        }
        return due
    }
}
