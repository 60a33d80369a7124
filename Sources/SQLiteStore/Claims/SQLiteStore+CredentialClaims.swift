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
            guard try !SQLiteConnection(db).isPaused(appID) else { return nil }
            let first = schedule.clients.filter { id in directory.clientsByID[id].map { preferred.contains($0.clientID) } ?? false }
            var due = try schedule.due(of: first, upTo: limit, quotas: quotas, in: db)
            if due.isEmpty { due = try schedule.next(upTo: limit, firstChecks: firstChecks, quotas: quotas, from: db) }
            return (due, try schedule.mustBeRepaired(in: db))
        }
        guard let found, found.mustRepair || !found.due.isEmpty else { return [] }
        return try await write { [owner] db in
            guard try !SQLiteConnection(db).isPaused(appID) else { return [] }
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
                guard try !SQLiteConnection(db).isPaused(client.app.id) else { return [] }
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
            let due = try next.filter { try !SQLiteConnection(db).isPaused(directory.clientsByID[$0.client]?.app.id ?? 0) }
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
        let admitted = try await query { connection -> [ClaimableCredential] in
            guard try !connection.isPaused(appID) else { return [] }
            return try connection.pendingRejections(of: appID, admittedBy: admissions, directory, upTo: limit, at: now)
        }
        guard !admitted.isEmpty else { return [] }
        return try await write { [owner] db in
            guard try !SQLiteConnection(db).isPaused(appID) else { return [] }
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
                SELECT c.client, \(DueCredential.columns)
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
                    due.append(DueCredential(row, from: 1, of: userID, at: client, for: .canary, Claim(owner: "", attempts: 0)))
                }
            }
            return due
        }
        let isAny = try await read { db in try !SQLiteConnection(db).isPaused(appID) && !due(in: db).isEmpty }
        guard isAny else { return [] }
        return try await write { db in
            guard try !SQLiteConnection(db).isPaused(appID) else { return [] }
            let taken = try due(in: db).prefix(limit)
            for canary in taken { try SQLiteConnection(db).note(canary, directory, at: now) }
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
            RETURNING attempts, pending_since, pending_asked_at, pending_key, \(DueCredential.columns)
            """,
            in: db
        )
        return try credentials.compactMap { credential in
            guard let client = directory.clientsByID[credential.client] else { return nil }
            let leaseEnd = now.advanced(by: policy.lease(attempts: credential.attempts))
            return try take.first(leaseEnd, owner, credential.userID, credential.client, credential.dueAt) { row -> DueCredential? in
                guard let purpose = purpose(PendingRejection(row, from: 1)) else { return nil }
                let claim = Claim(owner: owner, attempts: row.int(at: 0))
                return DueCredential(row, from: 4, of: credential.userID, at: client, for: purpose, claim)
            } ?? nil
        }
    }
}
