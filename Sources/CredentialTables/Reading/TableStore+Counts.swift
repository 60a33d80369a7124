// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// Counts of waiting and late rows, up to a limit.
extension TableStore {
    package func tokens(of app: String, fromTeamsBesides teamID: String, upTo limit: Int) async throws -> [String: Int] {
        try await query { connection in
            func teams(_ comparison: String) -> String {
                """
                SELECT team FROM (SELECT verified_team AS team FROM credential \(connection.dialect.indexed(by: "credential_team"))
                                   WHERE app = (SELECT id FROM app WHERE name = $1) AND verified_team IS NOT NULL
                                     AND sealed_token IS NOT NULL AND verified_team \(comparison) $2 LIMIT $3) AS found
                """
            }
            let rows = try connection.fetchAll(
                "SELECT team, COUNT(*) FROM (\(teams("<")) UNION ALL \(teams(">"))) AS found GROUP BY team",
                app,
                teamID,
                limit
            )
            return rows.reduce(into: [:]) { $0[$1.text(at: 0) ?? ""] = $1.int(at: 1) }
        }
    }

    package var aliveAt: Timestamp? {
        get async throws {
            try await query { try $0.fetchOne("SELECT alive_at FROM heartbeat")?.time(at: 0) }
        }
    }

    package var backedUpAt: Timestamp? {
        get async throws {
            try await query { try $0.fetchOne("SELECT value FROM counter WHERE name = $1", BackupCounter.writtenAt)?.time(at: 0) }
        }
    }

    package func newestNotifications(upTo limit: Int) async throws -> [Timestamp] {
        // The bound, so that the plan is no scan. Ids of rejected ones lie between.
        let newest = "id > (SELECT MAX(id) FROM notification_log) - 10000 ORDER BY id DESC LIMIT $1"
        return try await query { connection in
            try connection.fetchAll("SELECT received_at FROM notification_log WHERE \(newest)", limit).compactMap { $0.time(at: 0) }
        }
    }

    package func waitingGrants(at now: Timestamp, upTo limit: Int) async throws -> WaitingGrantCounts {
        try await query { connection in
            // A postponed grant has a due time and no claim. A new grant has neither.
            let putOff: [WaitingGrantCounts.PutOff] = try connection.fetchAll(
                """
                SELECT client_id, is_ahead, COUNT(*), MIN(waits_since)
                  FROM (SELECT client_id, is_ahead <> 0 AS is_ahead, waits_since FROM grant_queue
                         WHERE authorization_code IS NULL AND due_at > 0 AND claimed_by IS NULL
                         ORDER BY due_at DESC LIMIT $1) AS found
                 GROUP BY client_id, is_ahead ORDER BY client_id, is_ahead
                """,
                limit
            ).map { row in
                WaitingGrantCounts.PutOff(
                    clientID: row.text(at: 0) ?? "",
                    isAhead: row.bool(at: 1),
                    count: row.int(at: 2),
                    since: row.time(at: 3)
                )
            }
            let codes = try connection.fetchOne(
                """
                SELECT COUNT(*), MIN(granted_at)
                  FROM (SELECT granted_at FROM grant_queue
                         WHERE authorization_code IS NOT NULL AND granted_at > 0 ORDER BY granted_at LIMIT $1) AS found
                """,
                limit
            )
            let end = now.advanced(by: .zero - AuthorizationCode.life)
            let ending = try connection.count(
                "SELECT 1 FROM grant_queue WHERE authorization_code IS NOT NULL AND granted_at > $1 AND granted_at <= $2 LIMIT $3",
                end,
                end.advanced(by: .minutes(1)),
                limit
            )
            return WaitingGrantCounts(
                putOff: putOff,
                withCode: codes?.int(at: 0) ?? 0,
                oldestCode: codes?.time(at: 1),
                codesEnding: ending
            )
        }
    }

    package func rejectedSignIns(since time: Timestamp) async throws -> [RejectedSignIns] {
        try await query { connection in
            try connection.fetchValues(
                """
                SELECT client_id AS "clientID", reason, rejected, settled
                  FROM (SELECT client_id, reason, COUNT(*) AS rejected, CAST(SUM(COUNT(*)) OVER (PARTITION BY client_id) AS BIGINT) AS settled
                          FROM (SELECT client_id, reason, settled_at, ROW_NUMBER() OVER (PARTITION BY client_id ORDER BY id DESC) AS place
                                  FROM (SELECT * FROM grant_log ORDER BY id DESC LIMIT 1000) AS newest) AS placed
                         WHERE settled_at > $1 AND place <= 20 GROUP BY client_id, reason) AS counted
                 WHERE reason NOT IN ('unknown_token_key', 'unreadable_token') AND rejected >= 5
                   AND (rejected * 5 >= settled * 4 OR reason = 'answer_lost')
                 ORDER BY client_id
                """,
                time
            )
        }
    }

    /// The number of waiting revocations. It counts row by row, so it is for rare calls.
    package func waitingRevocations() async throws -> WaitingRevocationCounts {
        let newest = "(SELECT outcome FROM revocation_log ORDER BY id DESC LIMIT 20) AS newest"
        return try await query { connection in
            let row = try connection.fetchOne(
                """
                SELECT (SELECT COUNT(*) FROM revocation_queue), (SELECT MIN(requested_at) FROM revocation_queue),
                       COUNT(*), COUNT(*) FILTER (WHERE rounds > 0), COUNT(*) FILTER (WHERE before_answer = 'invalid_grant'),
                       (SELECT COUNT(*) FROM \(newest)), (SELECT COUNT(*) FROM \(newest) WHERE outcome = 'no_token')
                  FROM revocation
                """
            )
            guard let row else { return WaitingRevocationCounts() }
            var counts = WaitingRevocationCounts(
                requests: row.int(at: 0),
                oldest: row.time(at: 1),
                tokens: row.int(at: 2),
                stillAccepted: row.int(at: 3),
                unbelieved: row.int(at: 4)
            )
            (counts.newest, counts.newestWithoutToken) = (row.int(at: 5), row.int(at: 6))
            return counts
        }
    }

    package func refusedClients(at now: Timestamp, upTo limit: Int) async throws -> [RefusedClient] {
        try await query { connection in
            let rows = try connection.fetchAll(
                """
                SELECT app.name, client.client_id, client.id, client.refused_since, client.refused_at, client.refusal
                  FROM client JOIN app ON app.id = client.app
                 WHERE client.refused_at IS NOT NULL ORDER BY app.name, client.client_id
                """
            )
            return try rows.compactMap { row -> RefusedClient? in
                guard let refusal = ClientRefusal(row, from: 3) else { return nil }
                let (clientID, id) = (row.text(at: 1) ?? "", row.integer(at: 2))
                return RefusedClient(
                    app: row.text(at: 0) ?? "",
                    clientID: clientID,
                    refusal: refusal,
                    codes: try connection.count(
                        "SELECT 1 FROM grant_queue WHERE authorization_code IS NOT NULL AND client_id = $1 LIMIT $2",
                        clientID,
                        limit
                    ),
                    checks: try connection.count("SELECT 1 FROM credential WHERE client = $1 AND due_at <= $2 LIMIT $3", id, now, limit),
                    revocations: try connection.count("SELECT 1 FROM revocation WHERE client = $1 LIMIT $2", id, limit)
                )
            }
        }
    }

    package func overdueCredentials(before time: Timestamp, upTo limit: Int) async throws -> [String: Int] {
        let directory = self.directory.withLockedValue { $0 }
        return try await query { connection in
            try directory.clients.values.filter(directory.isWatched).reduce(into: [:]) { overdue, client in
                let found = overdue[client.app.name, default: 0]
                overdue[client.app.name] =
                    try found
                    + connection.count(
                        "SELECT 1 FROM credential WHERE client = $1 AND due_at < $2 LIMIT $3",
                        client.id,
                        time,
                        limit - found
                    )
            }
        }
    }

    /// The number of an app's tokens that have a scheduled check. It counts row by row.
    package func scheduledCredentials(of app: String) async throws -> Int {
        try await query { connection in
            try connection.count(
                """
                SELECT 1 FROM credential
                 WHERE client IN (SELECT client.id FROM client JOIN app ON app.id = client.app WHERE app.name = $1) AND due_at IS NOT NULL
                """,
                app
            )
        }
    }

    /// Whether a token of a client has a scheduled check.
    package func hasScheduledCredentials(clientID: String) async throws -> Bool {
        try await query { connection in
            try connection.exists(
                "SELECT 1 FROM credential WHERE client = (SELECT id FROM client WHERE client_id = $1) AND due_at IS NOT NULL",
                clientID
            )
        }
    }
}

package enum BackupCounter {
    /// When the last copy was written, in milliseconds since 1970.
    package static let writtenAt = "backed_up_at"
}
