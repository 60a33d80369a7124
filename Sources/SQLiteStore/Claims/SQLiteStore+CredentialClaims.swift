// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import GRDB
import NIOConcurrencyHelpers

/// Claims of credentials to check, and of rejections to believe.
extension SQLiteStore {
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
        // siwatch chooses before it takes the write lock, so that no backend waits for the choice.
        let found = try await read { db -> (due: [ClaimableCredential], mustRepair: Bool)? in
            guard try !Self.isPaused(appID, in: db) else { return nil }
            let first = schedule.clients.filter { id in directory.clientsByID[id].map { preferred.contains($0.clientID) } ?? false }
            var due = try schedule.due(of: first, upTo: limit, quotas: quotas, in: db)
            if due.isEmpty { due = try schedule.next(upTo: limit, firstChecks: firstChecks, quotas: quotas, from: db) }
            return (due, try schedule.mustBeRepaired(in: db))
        }
        guard let found, found.mustRepair || !found.due.isEmpty else { return [] }
        return try await write { [owner] db in
            guard try !Self.isPaused(appID, in: db) else { return [] }
            if found.mustRepair { try schedule.repair(in: db) }
            return try Self.claim(found.due, directory, owner: owner, at: now, policy: policy, in: db)
        }
    }

    package func claimFirstChecks(of clients: Set<String>, upTo limit: Int, at now: Timestamp, policy: RefreshPolicy) async throws
        -> [DueCredential]
    {
        let directory = self.directory.withLockedValue { $0 }
        let next = try await read { db in
            try clients.sorted().compactMap { directory.clients[$0] }.flatMap { client -> [ClaimableCredential] in
                guard try !Self.isPaused(client.app.id, in: db) else { return [] }
                return try ClaimableCredential.all(
                    """
                    SELECT user_id, client, attempts, due_at FROM credential INDEXED BY credential_first
                     WHERE client = ? AND first_check IS NOT NULL AND due_at IS NOT NULL AND claimed_by IS NULL
                     ORDER BY first_check, due_at LIMIT 1
                    """,
                    client.id,
                    in: db
                )
            }.prefix(limit)
        }
        guard !next.isEmpty else { return [] }
        return try await write { [owner] db in
            let due = try next.filter { try !Self.isPaused(directory.clientsByID[$0.client]?.app.id ?? 0, in: db) }
            return try Self.claim(due, directory, owner: owner, at: now, policy: policy, in: db)
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
        let rules = admissions.filter { $0.clientID.map { directory.clients[$0]?.app.id == appID } ?? true }
        let admitted = try await read { db -> [ClaimableCredential] in
            let connection = SQLiteConnection(db)
            guard try connection.fetchInt("SELECT pending FROM app WHERE id = $1", appID) > 0,
                try !Self.isPaused(appID, in: db)
            else { return [] }
            let breaker = try BreakerRow.load(appID, on: connection)?.breaker(at: now) ?? RejectionBreaker()
            return try breaker.admissible(rules).reduce(into: []) { admitted, rule in
                admitted += try connection.pendingRejections(
                    of: appID,
                    admittedBy: rule,
                    directory,
                    upTo: limit - admitted.count,
                    at: now
                )
            }
        }
        guard !admitted.isEmpty else { return [] }
        return try await write { [owner] db in
            guard try !Self.isPaused(appID, in: db) else { return [] }
            return try Self.claim(admitted, directory, owner: owner, at: now, policy: policy, onlyPending: true, in: db) { rejection in
                rejection.map { .admission($0) }
            }
        }
    }

    package func takeCanaries(_ userIDs: Set<String>, of app: String, excluding excluded: Set<String>, upTo limit: Int, at now: Timestamp)
        async throws -> [DueCredential]
    {
        let directory = self.directory.withLockedValue { $0 }
        guard limit > 0, !userIDs.isEmpty, let appID = directory.apps[app]?.id else { return [] }
        @Sendable func due(in db: Database) throws -> [DueCredential] {
            let canary = try PreparedStatement(
                """
                SELECT c.client, c.token_granted_at, c.token_fingerprint, c.sealed_token, c.verified_at IS NOT NULL, c.verified_team
                  FROM credential c LEFT JOIN canary a ON a.user_id = c.user_id AND a.client = c.client
                 WHERE c.user_id = ?1 AND c.app = ?2 AND c.state = 'authorized' AND c.sealed_token IS NOT NULL
                   AND (a.asked_at IS NULL OR a.asked_at <= ?3 OR a.asked_at > ?4)
                """,
                in: db
            )
            var due: [DueCredential] = []
            for userID in userIDs.sorted() {
                try canary.forEachRow(userID, appID, now.advanced(by: .zero - BreakerRules.canaryInterval), now) { row in
                    guard let client = directory.clientsByID[row.integer(at: 0)], directory.isWatched(client) else { return }
                    guard !excluded.contains(client.clientID) else { return }
                    due.append(
                        DueCredential(
                            id: CredentialID(clientID: client.clientID, userID: userID),
                            app: client.app.name,
                            purpose: .canary,
                            claim: Claim(owner: "", attempts: 0),
                            token: RefreshToken.Key(grantedAt: Timestamp(milliseconds: row.integer(at: 1)), fingerprint: row.bytes(at: 2)),
                            sealed: SealedToken(bytes: row.bytes(at: 3)),
                            wasAccepted: row.bool(at: 4),
                            verifiedTeam: row.text(at: 5)
                        )
                    )
                }
            }
            return due
        }
        let isAny = try await read { db in try !Self.isPaused(appID, in: db) && !due(in: db).isEmpty }
        guard isAny else { return [] }
        return try await write { db in
            guard try !Self.isPaused(appID, in: db) else { return [] }
            let taken = try due(in: db).prefix(limit)
            for canary in taken {
                try SQLiteConnection(db).execute(
                    """
                    INSERT INTO canary (user_id, client, asked_at) VALUES ($1, $2, $3)
                        ON CONFLICT (user_id, client) DO UPDATE SET asked_at = excluded.asked_at
                    """,
                    canary.id.userID,
                    directory.clients[canary.id.clientID]?.id,
                    now
                )
            }
            return Array(taken)
        }
    }

    private static func claim(
        _ credentials: [ClaimableCredential],
        _ directory: ClientDirectory,
        owner: String,
        at now: Timestamp,
        policy: RefreshPolicy,
        onlyPending: Bool = false,
        in db: Database,
        for purpose: (PendingRejection?) -> DueCredential.Purpose? = { _ in .check }
    ) throws -> [DueCredential] {
        // Every change of a row moves its due time, so this finds only unchanged rows.
        let take = try PreparedStatement(
            """
            UPDATE credential SET due_at = ?, attempts = MIN(MAX(attempts, 0), 1000) + 1, claimed_by = ?
             WHERE user_id = ? AND client = ? AND due_at = ? \(onlyPending ? "AND pending_since IS NOT NULL" : "")
            RETURNING token_granted_at, token_fingerprint, sealed_token, attempts, pending_since, pending_asked_at, pending_key,
                      verified_at, verified_team
            """,
            in: db
        )
        return try credentials.compactMap { credential in
            guard let client = directory.clientsByID[credential.client] else { return nil }
            let leaseEnd = now.advanced(by: policy.lease(attempts: credential.attempts))
            return try take.first(leaseEnd, owner, credential.userID, credential.client, credential.dueAt) { row -> DueCredential? in
                guard let purpose = purpose(PendingRejection(row, from: 4)) else { return nil }
                return DueCredential(
                    id: CredentialID(clientID: client.clientID, userID: credential.userID),
                    app: client.app.name,
                    purpose: purpose,
                    claim: Claim(owner: owner, attempts: Int(row.integer(at: 3))),
                    token: RefreshToken.Key(grantedAt: Timestamp(milliseconds: row.integer(at: 0)), fingerprint: row.bytes(at: 1)),
                    sealed: SealedToken(bytes: row.bytes(at: 2)),
                    wasAccepted: !row.isNull(at: 7),
                    verifiedTeam: row.text(at: 8)
                )
            } ?? nil
        }
    }

    /// An operator's pause survives restarts. siwatch asks about nobody, and due checks stay due.
    static func isPaused(_ app: Int64, in db: Database) throws -> Bool {
        try PreparedStatement("SELECT paused_at IS NOT NULL FROM app WHERE id = ?", in: db).first(app) { $0.bool(at: 0) } ?? false
    }
}
