// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import GRDB
import NIOConcurrencyHelpers

extension SQLiteStore: CredentialReader {
    package func queues() async throws -> [QueueStatus] {
        try await read { db in
            try Queue.allCases.map { queue in
                let counts = try Row.fetchOne(
                    db.cachedStatement(
                        sql: """
                            SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = '\(queue.rawValue)'), 0),
                                   COALESCE((SELECT value FROM counter WHERE name = '\(queue.removedCounter)'), 0)
                            """
                    )
                )
                let (appended, removed): (Int, Int) = (counts?[0] ?? 0, counts?[1] ?? 0)
                let oldest = try Row.fetchOne(
                    db.cachedStatement(sql: "SELECT id, \(queue.arrivalColumn) FROM \(queue.rawValue) ORDER BY id LIMIT 1")
                )
                // Rows deleted by hand were not counted, so what can be known at once bounds the difference: nothing waits before the oldest.
                let depth = oldest.map { max(1, min(appended - removed, appended - ($0[0] as Int) + 1)) } ?? 0
                return QueueStatus(queue: queue.label, depth: depth, oldest: oldest.map { $0[1] }, settled: removed)
            }
        }
    }

    package func credentialCounts() async throws -> [CredentialCount] {
        try await read { db in
            try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT app.name, credential_count.state, credential_count.count
                          FROM credential_count JOIN app ON app.id = credential_count.app
                         ORDER BY app.name, credential_count.state
                        """
                )
            ).map { CredentialCount(app: $0[0], state: $0[1], count: $0[2]) }
        }
    }

    package func unverifiedCredentials() async throws -> [String: Int] {
        try await read { db in
            let rows = try Row.fetchAll(db.cachedStatement(sql: "SELECT name, unverified FROM app"))
            return Dictionary(uniqueKeysWithValues: rows.map { ($0[0], $0[1]) })
        }
    }

    package func checks() async throws -> CheckStatus {
        try await read { db in
            func counter(_ name: String) throws -> Int64? {
                try Int64.fetchOne(db.cachedStatement(sql: "SELECT value FROM counter WHERE name = ?"), arguments: [name])
            }
            return CheckStatus(
                answered: Int(try counter(CheckCounter.answered) ?? 0),
                lastAnsweredAt: try counter(CheckCounter.answeredAt).map(Timestamp.init(milliseconds:)),
                failed: Int(try counter(CheckCounter.failed) ?? 0),
                lastFailedAt: try counter(CheckCounter.failedAt).map(Timestamp.init(milliseconds:))
            )
        }
    }

    package func apps() async throws -> [AppStatus] {
        try await read { db in
            try Row.fetchAll(
                db.cachedStatement(
                    sql: "SELECT name, paused_at, pending, admitted, missed, never_accepted, foreign_tokens FROM app ORDER BY name"
                )
            ).map {
                AppStatus(
                    app: $0[0],
                    pausedAt: $0.time(at: 1),
                    rejections: AppStatus.Rejections(pending: $0[2], admitted: $0[3], withoutNotification: $0[4]),
                    neverAccepted: $0[5],
                    foreignTokens: $0[6]
                )
            }
        }
    }

    package func neverAcceptedTokens(of app: String) async throws -> [NeverAcceptedToken] {
        try await read { db in
            try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT client.client_id, c.user_id, c.granted_at, c.token_granted_at, c.rejected_at, TRUE
                          FROM credential c JOIN app ON app.id = c.app JOIN client ON client.id = c.client
                         WHERE app.name = ?1 AND c.never_accepted
                         UNION ALL
                        SELECT client.client_id, c.user_id, c.granted_at, c.token_granted_at, c.pending_asked_at, FALSE
                          FROM credential c JOIN app ON app.id = c.app JOIN client ON client.id = c.client
                         WHERE app.name = ?1 AND c.pending_since IS NOT NULL AND c.verified_at IS NULL AND NOT c.never_accepted
                        """
                ),
                arguments: [app]
            ).map { row in
                let tokenGrantedAt = Timestamp(milliseconds: row[3])
                return NeverAcceptedToken(
                    clientID: row[0],
                    userID: row[1],
                    grantedAt: row.time(at: 2) ?? tokenGrantedAt,
                    tokenGrantedAt: tokenGrantedAt,
                    rejectedAt: Timestamp(milliseconds: row[4]),
                    isRepeated: row[5]
                )
            }.sorted { ($0.userID, $0.clientID) < ($1.userID, $1.clientID) }
        }
    }

    package func foreignTokens(of app: String) async throws -> [ForeignToken] {
        try await read { db in
            try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT client.client_id, c.user_id, c.token_granted_at, c.answered_at
                          FROM credential c JOIN app ON app.id = c.app JOIN client ON client.id = c.client
                         WHERE app.name = ? AND c.answer = 'another_user'
                         ORDER BY c.user_id, client.client_id
                        """
                ),
                arguments: [app]
            ).map { row in
                let tokenGrantedAt = Timestamp(milliseconds: row[2])
                return ForeignToken(
                    clientID: row[0],
                    userID: row[1],
                    tokenGrantedAt: tokenGrantedAt,
                    answeredAt: row.time(at: 3) ?? tokenGrantedAt
                )
            }
        }
    }

    package func tokens(of app: String, fromTeamsBesides teamID: String, upTo limit: Int) async throws -> [String: Int] {
        func teams(_ comparison: String) -> String {
            """
            SELECT team FROM (SELECT verified_team AS team FROM credential INDEXED BY credential_team
                               WHERE app = (SELECT id FROM app WHERE name = ?1) AND verified_team IS NOT NULL AND sealed_token IS NOT NULL
                                 AND verified_team \(comparison) ?2 LIMIT ?3)
            """
        }
        let sql = "SELECT team, COUNT(*) FROM (\(teams("<")) UNION ALL \(teams(">"))) GROUP BY team"
        return try await read { db in
            let rows = try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [app, teamID, limit])
            return Dictionary(uniqueKeysWithValues: rows.map { ($0[0] as String, $0[1] as Int) })
        }
    }

    package func waitingGrants(datedAfter time: Timestamp, upTo limit: Int) async throws -> WaitingGrantCounts {
        try await read { db in
            // Who was looked at and put off has a due time and no claim; who has just come has none.
            let putOff = try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT client_id, is_ahead, COUNT(*)
                          FROM (SELECT client_id, granted_at > ? AS is_ahead FROM grant_queue
                                 WHERE authorization_code IS NULL AND due_at > 0 AND claimed_by IS NULL
                                 ORDER BY due_at DESC LIMIT ?)
                         GROUP BY client_id, is_ahead
                        """
                ),
                arguments: [time.milliseconds, limit]
            )
            let codes = try Row.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT COUNT(*), MIN(granted_at)
                          FROM (SELECT granted_at FROM grant_queue
                                 WHERE authorization_code IS NOT NULL AND granted_at > 0 ORDER BY granted_at LIMIT ?)
                        """
                ),
                arguments: [limit]
            )
            return WaitingGrantCounts(
                putOff: putOff.map { WaitingGrantCounts.PutOff(clientID: $0[0], isAhead: $0[1], count: $0[2]) },
                withCode: codes?[0] ?? 0,
                oldestCode: codes?.time(at: 1)
            )
        }
    }

    package func dueRows(at now: Timestamp, upTo limit: Int) async throws -> [String: Int] {
        let ended = runs.withLockedValue { $0.ended(at: now, furthest: now.advanced(by: Queue.notification.longestDelay)) }
        return try await read { db in
            var due: [String: Int] = [:]
            for (queue, lanes) in [
                (
                    Queue.notification,
                    [
                        "due_at = 0 AND id > \(NotificationRows.mark)", Schema.setAside,
                        "due_at = 0 AND id BETWEEN \(ended?.lowerBound ?? 1) AND \(ended?.upperBound ?? 0)",
                    ]
                ),
                (.grant, ["authorization_code IS NULL", "authorization_code IS NOT NULL AND granted_at > 0"]),
            ] {
                for lane in lanes {
                    let found = try Int.fetchOne(
                        db,
                        sql: "SELECT COUNT(*) FROM (SELECT 1 FROM \(queue.rawValue) WHERE \(lane) AND due_at <= ? LIMIT ?)",
                        arguments: [now.milliseconds, limit]
                    )
                    due[queue.label, default: 0] += found ?? 0
                }
            }
            return due
        }
    }

    package func clients() async throws -> [ClientStatus] {
        try await read { db in
            try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT app.name, client.client_id, client.valid_at FROM client JOIN app ON app.id = client.app
                         ORDER BY app.name, client.client_id
                        """
                )
            ).map { ClientStatus(app: $0[0], clientID: $0[1], validAt: $0.time(at: 2)) }
        }
    }

    package func refusedClients(at now: Timestamp, upTo limit: Int) async throws -> [RefusedClient] {
        try await read { db in
            let rows = try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT app.name, client.client_id, client.id, client.refused_since, client.refused_at, client.refusal
                          FROM client JOIN app ON app.id = client.app
                         WHERE client.refused_at IS NOT NULL ORDER BY app.name, client.client_id
                        """
                )
            )
            var clients: [RefusedClient] = []
            for row in rows {
                guard let refusal = ClientRefusal(row, from: 3) else { continue }
                let (clientID, id): (String, Int64) = (row[1], row[2])
                var client = RefusedClient(app: row[0], clientID: clientID, refusal: refusal)
                client.codes = try db.count(
                    "SELECT 1 FROM grant_queue WHERE authorization_code IS NOT NULL AND client_id = ? LIMIT ?",
                    [clientID, limit]
                )
                client.checks = try db.count(
                    "SELECT 1 FROM credential WHERE client = ? AND due_at <= ? LIMIT ?",
                    [id, now.milliseconds, limit]
                )
                client.revocations = try db.count("SELECT 1 FROM revocation WHERE client = ? LIMIT ?", [id, limit])
                clients.append(client)
            }
            return clients
        }
    }

    package func breakers() async throws -> [String: RejectionBreaker] {
        try await read { db in
            let rows = try Row.fetchAll(db.cachedStatement(sql: "SELECT app.name, state FROM breaker JOIN app ON app.id = breaker.app"))
            // Of one that cannot be read nobody knows since when: `RejectionBreaker.unread`.
            return Dictionary(uniqueKeysWithValues: rows.map { ($0[0], BreakerTable.read($0[1]).breaker(at: Timestamp(milliseconds: 0))) })
        }
    }

    package func unknownCanaries(_ userIDs: [String], of app: String) async throws -> [String] {
        try await read { db in
            let statement = try db.cachedStatement(
                sql: """
                    SELECT EXISTS (SELECT 1 FROM credential c JOIN app ON app.id = c.app
                                    WHERE c.user_id = ? AND app.name = ? AND c.state = 'authorized' AND c.sealed_token IS NOT NULL)
                    """
            )
            return try userIDs.filter { try Bool.fetchOne(statement, arguments: [$0, app]) == false }
        }
    }

    package func overdueCredentials(before time: Timestamp, upTo limit: Int) async throws -> [String: Int] {
        let directory = self.directory.withLockedValue { $0 }
        return try await read { db in
            var overdue: [String: Int] = [:]
            for client in directory.clients.values where directory.isWatched(client) {
                let known = overdue[client.app.name, default: 0]
                let found = try Int.fetchOne(
                    db.cachedStatement(
                        sql: "SELECT COUNT(*) FROM (SELECT 1 FROM credential WHERE client = ? AND due_at < ? LIMIT ?)"
                    ),
                    arguments: [client.id, time.milliseconds, limit - known]
                )
                overdue[client.app.name] = known + (found ?? 0)
            }
            return overdue
        }
    }
}

extension Database {
    /// How many rows a query has.
    fileprivate func count(_ query: String, _ arguments: StatementArguments) throws -> Int {
        try Int.fetchOne(cachedStatement(sql: "SELECT COUNT(*) FROM (\(query))"), arguments: arguments) ?? 0
    }
}

/// What is counted row by row, for those who ask seldom.
extension SQLiteStore {
    /// How many tokens of an app Apple is asked about. It takes a second for ten million.
    package func scheduledCredentials(of app: String) async throws -> Int {
        try await read { db in
            try Int.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT COUNT(*) FROM credential
                         WHERE client IN (SELECT client.id FROM client JOIN app ON app.id = client.app WHERE app.name = ?)
                           AND due_at IS NOT NULL
                        """
                ),
                arguments: [app]
            ) ?? 0
        }
    }

    /// Whether there is a token of a client that Apple is asked about.
    package func hasScheduledCredentials(clientID: String) async throws -> Bool {
        try await read { db in
            try Bool.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT EXISTS (SELECT 1 FROM credential
                                        WHERE client = (SELECT id FROM client WHERE client_id = ?) AND due_at IS NOT NULL)
                        """
                ),
                arguments: [clientID]
            ) ?? false
        }
    }
}
