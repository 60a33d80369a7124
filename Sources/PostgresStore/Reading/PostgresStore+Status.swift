// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension PostgresStore: CredentialReader {
    /// Rows of a queue that are counted one by one; beyond, the ids tell no less than there are.
    private static let mostCounted = 100_000

    package func queues() async throws -> [QueueStatus] {
        try await reader.run { connection in
            let answers = try Queue.allCases.map { queue in
                try connection.send(
                    """
                    SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM \(queue.rawValue) LIMIT $1) q),
                           (SELECT MAX(id) - MIN(id) + 1 FROM \(queue.rawValue)),
                           (SELECT \(queue.arrivalColumn) FROM \(queue.rawValue) ORDER BY id LIMIT 1),
                           COALESCE((SELECT value FROM counter WHERE name = $2), 0)
                    """,
                    Self.mostCounted,
                    queue.removedCounter
                )
            }
            return try zip(Queue.allCases, answers).map { queue, answer in
                let row = try connection.rows(of: answer).first
                let counted = row?.int(at: 0) ?? 0
                return QueueStatus(
                    queue: queue.label,
                    depth: counted < Self.mostCounted ? counted : max(counted, row?.int(at: 1) ?? 0),
                    oldest: row?.time(at: 2)?.milliseconds,
                    settled: row?.int(at: 3) ?? 0
                )
            }
        }
    }

    package func credentialCounts() async throws -> [CredentialCount] {
        try await reader.run { connection in
            try connection.rows(
                """
                SELECT app.name, credential_count.state, credential_count.count
                  FROM credential_count JOIN app ON app.id = credential_count.app
                 ORDER BY app.name, credential_count.state
                """
            ).map { CredentialCount(app: $0.text(at: 0) ?? "", state: $0.text(at: 1) ?? "", count: $0.int(at: 2)) }
        }
    }

    package func unverifiedCredentials() async throws -> [String: Int] {
        try await reader.run { connection in
            let rows = try connection.rows("SELECT name, unverified FROM app")
            return Dictionary(uniqueKeysWithValues: rows.map { ($0.text(at: 0) ?? "", $0.int(at: 1)) })
        }
    }

    package func checks() async throws -> CheckStatus {
        try await reader.run { connection in
            let rows = try connection.rows("SELECT name, value FROM counter WHERE name LIKE 'checks%'")
            let counters = Dictionary(uniqueKeysWithValues: rows.map { ($0.text(at: 0) ?? "", $0.integer(at: 1)) })
            return CheckStatus(
                answered: Int(counters[CheckCounter.answered] ?? 0),
                lastAnsweredAt: counters[CheckCounter.answeredAt].map(Timestamp.init(milliseconds:)),
                failed: Int(counters[CheckCounter.failed] ?? 0),
                lastFailedAt: counters[CheckCounter.failedAt].map(Timestamp.init(milliseconds:))
            )
        }
    }

    package func apps() async throws -> [AppStatus] {
        // With each renewal of a lease: this must not wait for a long count.
        try await renewals.run { connection in
            try connection.rows(
                "SELECT name, paused_at, pending, admitted, missed, never_accepted, foreign_tokens FROM app ORDER BY name"
            ).map {
                AppStatus(
                    app: $0.text(at: 0) ?? "",
                    pausedAt: $0.time(at: 1),
                    rejections: AppStatus.Rejections(
                        pending: $0.int(at: 2),
                        admitted: $0.int(at: 3),
                        withoutNotification: $0.int(at: 4)
                    ),
                    neverAccepted: $0.int(at: 5),
                    foreignTokens: $0.int(at: 6)
                )
            }
        }
    }

    package func neverAcceptedTokens(of app: String) async throws -> [NeverAcceptedToken] {
        try await reader.run { connection in
            try connection.rows(
                """
                SELECT client.client_id, c.user_id, c.granted_at, c.token_granted_at, c.rejected_at, TRUE
                  FROM credential c JOIN app ON app.id = c.app JOIN client ON client.id = c.client
                 WHERE app.name = $1 AND c.never_accepted
                 UNION ALL
                SELECT client.client_id, c.user_id, c.granted_at, c.token_granted_at, c.pending_asked_at, FALSE
                  FROM credential c JOIN app ON app.id = c.app JOIN client ON client.id = c.client
                 WHERE app.name = $1 AND c.pending_since IS NOT NULL AND c.verified_at IS NULL AND NOT c.never_accepted
                """,
                app
            ).map { row in
                let tokenGrantedAt = Timestamp(milliseconds: row.integer(at: 3))
                return NeverAcceptedToken(
                    clientID: row.text(at: 0) ?? "",
                    userID: row.text(at: 1) ?? "",
                    grantedAt: row.time(at: 2) ?? tokenGrantedAt,
                    tokenGrantedAt: tokenGrantedAt,
                    rejectedAt: Timestamp(milliseconds: row.integer(at: 4)),
                    isRepeated: row.bool(at: 5)
                )
            }.sorted { ($0.userID, $0.clientID) < ($1.userID, $1.clientID) }
        }
    }

    package func tokens(of app: String, fromTeamsBesides teamID: String, upTo limit: Int) async throws -> [String: Int] {
        func teams(_ comparison: String) -> String {
            """
            (SELECT verified_team AS team FROM credential
              WHERE app = (SELECT id FROM app WHERE name = $1) AND verified_team IS NOT NULL AND sealed_token IS NOT NULL
                AND verified_team \(comparison) $2 LIMIT $3)
            """
        }
        let sql = "SELECT team, COUNT(*) FROM (\(teams("<")) UNION ALL \(teams(">"))) AS t GROUP BY team"
        return try await reader.run { connection in
            let rows = try connection.rows(sql, app, teamID, limit)
            return Dictionary(uniqueKeysWithValues: rows.map { ($0.text(at: 0) ?? "", $0.int(at: 1)) })
        }
    }

    package func foreignTokens(of app: String) async throws -> [ForeignToken] {
        try await reader.run { connection in
            try connection.rows(
                """
                SELECT client.client_id, c.user_id, c.token_granted_at, c.answered_at
                  FROM credential c JOIN app ON app.id = c.app JOIN client ON client.id = c.client
                 WHERE app.name = $1 AND c.answer = 'another_user'
                 ORDER BY c.user_id, client.client_id
                """,
                app
            ).map { row in
                let tokenGrantedAt = Timestamp(milliseconds: row.integer(at: 2))
                return ForeignToken(
                    clientID: row.text(at: 0) ?? "",
                    userID: row.text(at: 1) ?? "",
                    tokenGrantedAt: tokenGrantedAt,
                    answeredAt: row.time(at: 3) ?? tokenGrantedAt
                )
            }
        }
    }

    package func clients() async throws -> [ClientStatus] {
        try await reader.run { connection in
            try connection.rows(
                """
                SELECT app.name, client.client_id, client.valid_at FROM client JOIN app ON app.id = client.app
                 ORDER BY app.name, client.client_id
                """
            ).map { ClientStatus(app: $0.text(at: 0) ?? "", clientID: $0.text(at: 1) ?? "", validAt: $0.time(at: 2)) }
        }
    }

    package func breakers() async throws -> [String: RejectionBreaker] {
        // As the apps.
        try await renewals.run { connection in
            let rows = try connection.rows(
                "SELECT app.name, state FROM breaker JOIN app ON app.id = breaker.app WHERE state IS NOT NULL"
            )
            // Of one that cannot be read nobody knows since when: `RejectionBreaker.unread`.
            return Dictionary(
                uniqueKeysWithValues: rows.compactMap { row in
                    BreakerTable.read(row).map { (row.text(at: 0) ?? "", $0.breaker(at: Timestamp(milliseconds: 0))) }
                }
            )
        }
    }

    package func unknownCanaries(_ userIDs: [String], of app: String) async throws -> [String] {
        let known = try await reader.run { connection in
            try connection.rows(
                """
                SELECT c.user_id FROM credential c JOIN app ON app.id = c.app
                 WHERE c.user_id = ANY($1) AND app.name = $2 AND c.state = 'authorized' AND c.sealed_token IS NOT NULL
                """,
                ArrayOf(userIDs),
                app
            ).map { AppUserID(app: app, userID: $0.text(at: 0) ?? "") }
        }
        return userIDs.filter { !known.contains(AppUserID(app: app, userID: $0)) }
    }
}
