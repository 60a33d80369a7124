// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// What waits and what is late, counted up to a limit.
extension PostgresStore {
    package func waitingGrants(datedAfter time: Timestamp, upTo limit: Int) async throws -> WaitingGrantCounts {
        try await reader.run { connection in
            // Who was looked at and put off has a due time and no claim; who has just come has none.
            let putOff = try connection.rows(
                """
                SELECT client_id, is_ahead, COUNT(*)
                  FROM (SELECT client_id, granted_at > $1 AS is_ahead FROM grant_queue
                         WHERE authorization_code IS NULL AND due_at > 0 AND claimed_by IS NULL
                         ORDER BY due_at DESC LIMIT $2) g
                 GROUP BY client_id, is_ahead ORDER BY client_id, is_ahead
                """,
                time,
                limit
            )
            let codes = try connection.rows(
                """
                SELECT COUNT(*), MIN(granted_at)
                  FROM (SELECT granted_at FROM grant_queue WHERE authorization_code IS NOT NULL ORDER BY granted_at LIMIT $1) g
                """,
                limit
            ).first
            return WaitingGrantCounts(
                putOff: putOff.map {
                    WaitingGrantCounts.PutOff(clientID: $0.text(at: 0) ?? "", isAhead: $0.bool(at: 1), count: $0.int(at: 2))
                },
                withCode: codes?.int(at: 0) ?? 0,
                oldestCode: codes?.time(at: 1)
            )
        }
    }

    package func refusedClients(at now: Timestamp, upTo limit: Int) async throws -> [RefusedClient] {
        try await reader.run { connection in
            let rows = try connection.rows(
                """
                SELECT app.name, client.client_id, client.id, client.refused_since, client.refused_at, client.refusal
                  FROM client JOIN app ON app.id = client.app
                 WHERE client.refused_at IS NOT NULL ORDER BY app.name, client.client_id
                """
            )
            return try rows.compactMap { row -> RefusedClient? in
                guard let refusal = ClientRefusal(row, from: 3) else { return nil }
                let (clientID, id) = (row.text(at: 1) ?? "", row.integer(at: 2))
                var client = RefusedClient(app: row.text(at: 0) ?? "", clientID: clientID, refusal: refusal)
                client.codes = try connection.rows(
                    """
                    SELECT COUNT(*)
                      FROM (SELECT 1 FROM grant_queue WHERE authorization_code IS NOT NULL AND client_id = $1 LIMIT $2) g
                    """,
                    clientID,
                    limit
                ).integer
                client.checks = try connection.rows(
                    "SELECT COUNT(*) FROM (SELECT 1 FROM credential WHERE client = $1 AND due_at <= $2 LIMIT $3) c",
                    id,
                    now,
                    limit
                ).integer
                client.revocations = try connection.rows(
                    "SELECT COUNT(*) FROM (SELECT 1 FROM revocation WHERE client = $1 LIMIT $2) r",
                    id,
                    limit
                ).integer
                return client
            }
        }
    }

    package func dueRows(at now: Timestamp, upTo limit: Int) async throws -> [String: Int] {
        try await reader.run { connection in
            let lanes = [
                (Queue.notification, Schema.anyNotification), (.grant, "authorization_code IS NULL"),
                (.grant, "authorization_code IS NOT NULL"),
            ]
            let answers = try lanes.map { queue, lane in
                let sql = "SELECT COUNT(*) FROM (SELECT 1 FROM \(queue.rawValue) WHERE \(lane) AND due_at <= $1 LIMIT $2) q"
                return (queue, try connection.send(sql, now, limit))
            }
            return try answers.reduce(into: [:]) { due, lane in
                due[lane.0.label, default: 0] += try connection.rows(of: lane.1).integer
            }
        }
    }

    package func overdueCredentials(before time: Timestamp, upTo limit: Int) async throws -> [String: Int] {
        let directory = self.directory.withLockedValue { $0 }
        return try await reader.run { connection in
            let answers = try directory.clients.values.filter(directory.isWatched).map { client in
                let sql = "SELECT COUNT(*) FROM (SELECT 1 FROM credential WHERE client = $1 AND due_at < $2 LIMIT $3) c"
                return (client.app.name, try connection.send(sql, client.id, time, limit))
            }
            return try answers.reduce(into: [:]) { overdue, app in
                overdue[app.0] = min(overdue[app.0, default: 0] + (try connection.rows(of: app.1).integer), limit)
            }
        }
    }

    /// How many tokens of an app Apple is asked about, counted row by row.
    package func scheduledCredentials(of app: String) async throws -> Int {
        try await reader.run { connection in
            try connection.rows(
                """
                SELECT COUNT(*) FROM credential
                 WHERE client IN (SELECT client.id FROM client JOIN app ON app.id = client.app WHERE app.name = $1) AND due_at IS NOT NULL
                """,
                app
            ).integer
        }
    }

    /// Whether there is a token of a client that Apple is asked about.
    package func hasScheduledCredentials(clientID: String) async throws -> Bool {
        try await reader.run { connection in
            try connection.rows(
                """
                SELECT EXISTS (SELECT 1 FROM credential
                                WHERE client = (SELECT id FROM client WHERE client_id = $1) AND due_at IS NOT NULL)
                """,
                clientID
            ).isTrue
        }
    }

    /// What waits to be revoked. Counted row by row, for those who ask seldom.
    package func waitingRevocations() async throws -> WaitingRevocationCounts {
        try await reader.run { connection in
            let row = try connection.rows(
                """
                SELECT (SELECT COUNT(*) FROM revocation_queue), (SELECT MIN(requested_at) FROM revocation_queue),
                       COUNT(*), COUNT(*) FILTER (WHERE rounds > 0), COUNT(*) FILTER (WHERE before_answer = 'invalid_grant')
                  FROM revocation
                """
            ).first
            guard let row else { return WaitingRevocationCounts() }
            return WaitingRevocationCounts(
                requests: row.int(at: 0),
                oldest: row.time(at: 1),
                tokens: row.int(at: 2),
                stillAccepted: row.int(at: 3),
                unbelieved: row.int(at: 4)
            )
        }
    }
}
