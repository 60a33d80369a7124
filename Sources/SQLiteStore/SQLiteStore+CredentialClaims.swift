// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
internal import GRDB
internal import NIOConcurrencyHelpers

/// Whom to ask about, and which rejections to believe.
extension SQLiteStore {
    package func claimDueCredentials(
        of app: String,
        upTo limit: Int,
        at now: Timestamp,
        policy: RefreshPolicy,
        preferring preferred: Set<String>
    ) async throws -> [DueCredential] {
        let directory = self.directory.withLockedValue { $0 }
        guard limit > 0, let appID = directory.apps[app]?.id else { return [] }
        let furthest = now.advanced(by: policy.longestDelay).milliseconds
        guard try await hasDueCredential(appID, at: now, furthest: furthest) else { return [] }
        return try await write { [owner] db in
            guard try !Self.isPaused(appID, in: db) else { return [] }
            // Only a clock that has been set back, or a shorter interval, leaves a due time out there.
            try db.execute(
                cached: """
                    UPDATE credential SET due_at = ?2
                     WHERE (user_id, client) IN (SELECT user_id, client FROM credential WHERE app = ?1 AND due_at > ?2 LIMIT 1000)
                    """,
                [appID, furthest]
            )
            try Self.postponeUnconfigured(appID, directory, until: now.advanced(by: policy.interval), at: now, in: db)
            try Self.postponePending(appID, by: policy.repetition, at: now, in: db)
            let clients = preferred.compactMap { directory.clients[$0]?.id }
            var due: [ClaimableCredential] = []
            if !clients.isEmpty {
                due = try ClaimableCredential.all(
                    """
                    SELECT user_id, client, attempts FROM credential
                     WHERE app = ? AND due_at <= ? AND client IN (\(clients.sorted().map(String.init).joined(separator: ", ")))
                     ORDER BY due_at LIMIT ?
                    """,
                    appID,
                    now,
                    limit,
                    in: db
                )
            }
            if due.isEmpty {
                due = try ClaimableCredential.all(
                    "SELECT user_id, client, attempts FROM credential WHERE app = ? AND due_at <= ? ORDER BY due_at LIMIT ?",
                    appID,
                    now,
                    limit,
                    in: db
                )
            }
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
        /// Those of an app that a rule admits, unless somebody asks about them or their user has signed in again.
        @Sendable func admitted(_ rule: AdmissionRule, upTo limit: Int, in db: Database) throws -> [ClaimableCredential] {
            try ClaimableCredential.all(
                """
                SELECT user_id, client, attempts FROM credential AS c INDEXED BY credential_pending
                 WHERE app = ?1 AND pending_since BETWEEN ?2 AND ?3 - ?4 AND (?5 IS NULL OR client = ?5) AND (?6 IS NULL OR pending_key = ?6)
                   AND (?4 = 0 OR answered_at >= pending_since + ?4 AND (answered_at <= ?3 OR answered_at >= pending_since + 2 * ?4))
                   AND (claimed_by IS NULL OR due_at <= ?7)
                   AND NOT EXISTS (SELECT 1 FROM grant_queue g JOIN client ON client.client_id = g.client_id
                                    WHERE g.user_id = c.user_id AND g.granted_at > c.token_granted_at AND client.id = c.client)
                 ORDER BY pending_since LIMIT ?8
                """,
                appID,
                rule.answered.lowerBound,
                rule.answered.upperBound,
                (rule.repeatedAfter ?? .zero).milliseconds,
                rule.clientID.flatMap { directory.clients[$0]?.id },
                rule.keyID,
                now,
                limit,
                in: db
            )
        }
        let rules = admissions.filter { $0.clientID.map { directory.clients[$0]?.app.id == appID } ?? true }
        let isAny = try await read { db in
            guard try Int.fetchOne(db.cachedStatement(sql: "SELECT pending FROM app WHERE id = ?"), arguments: [appID]) ?? 0 > 0,
                try !Self.isPaused(appID, in: db)
            else { return false }
            return try rules.contains { try !admitted($0, upTo: 1, in: db).isEmpty }
        }
        guard isAny else { return [] }
        return try await write { [owner] db in
            guard try !Self.isPaused(appID, in: db), try !BreakerTable.load(appID, at: now, in: db).isOpen else { return [] }
            var claimed: [DueCredential] = []
            for rule in rules where claimed.count < limit {
                let rows = try admitted(rule, upTo: limit - claimed.count, in: db)
                claimed += try Self.claim(rows, directory, owner: owner, at: now, policy: policy, in: db) { rejection in
                    rejection.map { .admission($0) }
                }
            }
            return claimed
        }
    }

    package func takeCanaries(_ userIDs: Set<String>, of app: String, upTo limit: Int, at now: Timestamp) async throws -> [DueCredential] {
        let directory = self.directory.withLockedValue { $0 }
        guard limit > 0, !userIDs.isEmpty, let appID = directory.apps[app]?.id else { return [] }
        @Sendable func due(in db: Database) throws -> [DueCredential] {
            let statement = try db.cachedStatement(
                sql: """
                    SELECT c.client, c.token_granted_at, c.token_fingerprint, c.sealed_token, c.failures
                      FROM credential c LEFT JOIN canary a ON a.user_id = c.user_id AND a.client = c.client
                     WHERE c.user_id = ?1 AND c.app = ?2 AND c.state = 'authorized' AND c.sealed_token IS NOT NULL
                       AND (a.asked_at IS NULL OR a.asked_at <= ?3 OR a.asked_at > ?4)
                    """
            )
            let latest = now.advanced(by: .zero - BreakerRules.canaryInterval).milliseconds
            return try userIDs.sorted().flatMap { userID in
                try Row.fetchAll(statement, arguments: [userID, appID, latest, now.milliseconds]).compactMap { row -> DueCredential? in
                    guard let client = directory.clientsByID[row[0]], directory.isWatched(client) else { return nil }
                    return DueCredential(
                        id: CredentialID(clientID: client.clientID, userID: userID),
                        purpose: .canary,
                        claim: Claim(owner: "", attempts: 0),
                        token: RefreshToken.Key(grantedAt: Timestamp(milliseconds: row[1]), fingerprint: row.bytes(at: 2)),
                        sealed: SealedToken(bytes: row.bytes(at: 3)),
                        failures: row[4]
                    )
                }
            }
        }
        let isAny = try await read { db in try !Self.isPaused(appID, in: db) && !due(in: db).isEmpty }
        guard isAny else { return [] }
        return try await write { db in
            guard try !Self.isPaused(appID, in: db) else { return [] }
            let taken = try due(in: db).prefix(limit)
            for canary in taken {
                try db.execute(
                    cached: """
                        INSERT INTO canary (user_id, client, asked_at) VALUES (?, ?, ?)
                            ON CONFLICT (user_id, client) DO UPDATE SET asked_at = excluded.asked_at
                        """,
                    [canary.id.userID, directory.clients[canary.id.clientID]?.id, now.milliseconds]
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
        in db: Database,
        for purpose: (PendingRejection?) -> DueCredential.Purpose? = { _ in .check }
    ) throws -> [DueCredential] {
        let take = try PreparedStatement(
            """
            UPDATE credential SET due_at = ?, attempts = MIN(MAX(attempts, 0), 1000) + 1, claimed_by = ?
             WHERE user_id = ? AND client = ?
            RETURNING token_granted_at, token_fingerprint, sealed_token, failures, attempts,
                      pending_since, pending_asked_at, pending_key
            """,
            in: db
        )
        return try credentials.compactMap { credential in
            guard let client = directory.clientsByID[credential.client] else { return nil }
            let leaseEnd = now.advanced(by: policy.lease(attempts: credential.attempts))
            return try take.first(leaseEnd, owner, credential.userID, credential.client) { row -> DueCredential? in
                guard let purpose = purpose(PendingRejection(row, from: 5)) else { return nil }
                return DueCredential(
                    id: CredentialID(clientID: client.clientID, userID: credential.userID),
                    purpose: purpose,
                    claim: Claim(owner: owner, attempts: Int(row.integer(at: 4))),
                    token: RefreshToken.Key(grantedAt: Timestamp(milliseconds: row.integer(at: 0)), fingerprint: row.bytes(at: 1)),
                    sealed: SealedToken(bytes: row.bytes(at: 2)),
                    failures: Int(row.integer(at: 3))
                )
            } ?? nil
        }
    }

    /// A rejection that could not be believed when its time had come waits on, until the daily check. By then all others have been asked
    /// about, so that Apple has accepted one of them in between.
    private static func postponePending(_ app: Int64, by interval: Duration, at now: Timestamp, in db: Database) throws {
        repeat {
            try db.execute(
                cached: """
                    UPDATE credential SET due_at = answered_at + ?2, claimed_by = NULL
                     WHERE (user_id, client) IN (SELECT user_id, client FROM credential INDEXED BY credential_pending_due
                                                  WHERE app = ?1 AND pending_since IS NOT NULL AND due_at <= ?3
                                                    AND answered_at + ?2 > ?3 AND answered_at <= ?3
                                                  LIMIT 1000)
                    """,
                [app, interval.milliseconds, now.milliseconds]
            )
        } while db.changesCount == 1000
    }

    /// Puts off what is due of clients that were taken out of the configuration: Apple would blame us for them. They may come back.
    private static func postponeUnconfigured(
        _ app: Int64,
        _ directory: ClientDirectory,
        until later: Timestamp,
        at now: Timestamp,
        in db: Database
    ) throws {
        let removed = directory.clientsByID.values.filter { $0.app.id == app && !directory.configured.contains($0.id) }
        guard !removed.isEmpty else { return }
        repeat {
            // The head of the schedule alone: however long the backlog is, a claim is quick.
            try db.execute(
                cached: """
                    UPDATE credential SET due_at = ?1
                     WHERE (user_id, client) IN (SELECT user_id, client
                                                   FROM (SELECT user_id, client FROM credential
                                                          WHERE app = ?2 AND due_at <= ?3 ORDER BY due_at LIMIT 1000)
                                                  WHERE client IN (\(removed.map { String($0.id) }.sorted().joined(separator: ", "))))
                    """,
                [later.milliseconds, app, now.milliseconds]
            )
        } while db.changesCount == 1000
    }

    /// A look before the leap: an idle round takes no write lock.
    private func hasDueCredential(_ app: Int64, at now: Timestamp, furthest: Int64) async throws -> Bool {
        try await read { db in
            if try Self.isPaused(app, in: db) { return false }
            return try Bool.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT EXISTS (SELECT 1 FROM credential WHERE app = ?1 AND due_at <= ?2)
                            OR EXISTS (SELECT 1 FROM credential WHERE app = ?1 AND due_at > ?3)
                        """
                ),
                arguments: [app, now.milliseconds, furthest]
            ) ?? false
        }
    }

    /// An operator's pause holds across restarts: nobody is asked about, and what is due stays due.
    private static func isPaused(_ app: Int64, in db: Database) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT paused_at IS NOT NULL FROM app WHERE id = ?"),
            arguments: [app]
        ) ?? false
    }
}

/// A row of `credential` that may be claimed.
private struct ClaimableCredential {
    var userID: String
    var client: Int64
    var attempts: Int

    /// - Parameter sql: selects `user_id, client, attempts`.
    static func all<each Value: BindableValue>(_ sql: String, _ values: repeat each Value, in db: Database) throws -> [Self] {
        var found: [Self] = []
        try PreparedStatement(sql, in: db).forEachRow(repeat each values) { row in
            found.append(Self(userID: row.text(at: 0) ?? "", client: row.integer(at: 1), attempts: Int(row.integer(at: 2))))
        }
        return found
    }
}
