// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// The parts of an overview. Waiting and late rows are counted up to a limit.
extension TableConnection {
    package func apps() throws -> [AppStatus] {
        try fetchAll(
            """
            SELECT name, paused_at, pending, admitted, missed, never_accepted, foreign_tokens, unverified, revocations_held_at,
                   revocations_held, ended, unproven
              FROM app ORDER BY name
            """
        ).map {
            var status = AppStatus(app: $0.text(at: 0) ?? "", pausedAt: $0.time(at: 1))
            (status.pending, status.admitted, status.missed) = ($0.count(at: 2), $0.count(at: 3), $0.count(at: 4))
            (status.neverAccepted, status.foreignTokens, status.unverified) = ($0.count(at: 5), $0.count(at: 6), $0.int(at: 7))
            (status.revocationsHeldSince, status.revocationsHeld) = ($0.time(at: 8), $0.count(at: 9))
            (status.ended, status.unproven) = ($0.count(at: 10), $0.count(at: 11))
            return status
        }
    }

    package func breakers() throws -> [String: RejectionBreaker] {
        let rows = try fetchAll("SELECT app.name, state FROM breaker JOIN app ON app.id = breaker.app WHERE state IS NOT NULL")
        return rows.reduce(into: [:]) { breakers, row in
            // The age of an unreadable breaker is unknown: `RejectionBreaker.unread`.
            breakers[row[0]] = RejectionBreaker(row: row.text(at: 1))
        }
    }

    package func credentialCounts() throws -> [CredentialCount] {
        try fetchAll(
            "SELECT app.name, c.state, c.count FROM credential_count c JOIN app ON app.id = c.app ORDER BY app.name, c.state"
        ).map { CredentialCount(app: $0[0], state: $0[1], count: $0.count(at: 2)) }
    }

    package func checks() throws -> CheckStatus? {
        func counter(_ name: String) -> SQL { "(SELECT value FROM counter WHERE name = \(name))" }
        let found: [CheckStatus] = try fetchValues(
            """
            SELECT COALESCE(\(counter(CheckCounter.answered)), 0) AS answered, \(counter(CheckCounter.answeredAt)) AS "lastAnsweredAt",
                   COALESCE(\(counter(CheckCounter.failed)), 0) AS failed, \(counter(CheckCounter.failedAt)) AS "lastFailedAt"
            """
        )
        return found.first
    }

    package func clients() throws -> [ClientStatus] {
        try fetchValues(
            """
            SELECT app.name AS app, client.client_id AS "clientID", client.valid_at AS "validAt",
                   EXISTS (SELECT 1 FROM credential c WHERE c.client = client.id AND c.due_at IS NOT NULL) AS "isScheduled"
              FROM client JOIN app ON app.id = client.app
             ORDER BY app.name, client.client_id
            """
        )
    }

    package func unknownCanaries(_ userIDs: [String], of app: String) throws -> [String] {
        try userIDs.filter { userID in
            try !exists(
                """
                SELECT 1 FROM credential c JOIN app ON app.id = c.app
                 WHERE c.user_id = \(userID) AND app.name = \(app) AND c.state = 'authorized' AND c.sealed_token IS NOT NULL
                """
            )
        }
    }

    /// For each other team, how many of an app's tokens Apple has accepted from that team, counted up to about `limit`.
    package func tokens(of app: String, fromTeamsBesides teamID: String, upTo limit: Int) throws -> [String: Int] {
        func teams(_ comparison: String) -> SQL {
            """
            SELECT team FROM (SELECT verified_team AS team FROM credential \(dialect.indexed(by: "credential_team"))
                               WHERE app = (SELECT id FROM app WHERE name = \(app)) AND verified_team IS NOT NULL
                                 AND sealed_token IS NOT NULL AND verified_team \(sql: comparison) \(teamID) LIMIT \(limit)) AS found
            """
        }
        let rows = try fetchAll("SELECT team, COUNT(*) FROM (\(teams("<")) UNION ALL \(teams(">"))) AS found GROUP BY team")
        return rows.reduce(into: [:]) { $0[$1[0]] = $1.int(at: 1) }
    }

    package func newestNotifications(upTo limit: Int) throws -> [Timestamp] {
        // The bound, so that the plan is no scan. Ids of rejected ones lie between.
        let newest: SQL = "id > (SELECT MAX(id) FROM notification_log) - 10000 ORDER BY id DESC LIMIT \(limit)"
        return try fetchAll("SELECT received_at FROM notification_log WHERE \(newest)").compactMap { $0.time(at: 0) }
    }

    package func count(_ waiting: inout WaitingGrants, at now: Timestamp, upTo limit: Int) throws {
        // A postponed grant has a due time and no claim. A new grant has neither.
        waiting.putOff = try fetchValues(
            """
            SELECT client_id AS "clientID", is_ahead AS "isAhead", COUNT(*) AS count, MIN(waits_since) AS since
              FROM (SELECT client_id, is_ahead <> 0 AS is_ahead, waits_since FROM grant_queue
                     WHERE \(sql: Tables.withoutCode) AND \(sql: Tables.postponed)
                     ORDER BY due_at DESC LIMIT \(limit)) AS found
             GROUP BY client_id, is_ahead ORDER BY client_id, is_ahead
            """
        )
        let codes = try fetchOne(
            """
            SELECT COUNT(*), MIN(granted_at)
              FROM (SELECT granted_at FROM grant_queue
                     WHERE authorization_code IS NOT NULL AND granted_at > 0 ORDER BY granted_at LIMIT \(limit)) AS found
            """
        )
        (waiting.withCode, waiting.oldestCode) = (codes?.int(at: 0) ?? 0, codes?.time(at: 1))
        let end = now.advanced(by: .zero - AuthorizationCode.life)
        waiting.codesEnding = try count(
            """
            SELECT 1 FROM grant_queue
             WHERE authorization_code IS NOT NULL AND granted_at > \(end) AND granted_at <= \(end.advanced(by: .minutes(1))) LIMIT \(limit)
            """
        )
    }

    /// Where five or more of a client's newest twenty sign-ins were rejected, four in five for one reason or because the answer was lost.
    package func rejectedSignIns(since time: Timestamp) throws -> [RejectedSignIns] {
        try fetchValues(
            """
            SELECT client_id AS "clientID", reason, rejected, settled
              FROM (SELECT client_id, reason, COUNT(*) AS rejected, CAST(SUM(COUNT(*)) OVER (PARTITION BY client_id) AS BIGINT) AS settled
                      FROM (SELECT client_id, reason, settled_at, ROW_NUMBER() OVER (PARTITION BY client_id ORDER BY id DESC) AS place
                              FROM (SELECT * FROM grant_log ORDER BY id DESC LIMIT 1000) AS newest) AS placed
                     WHERE settled_at > \(time) AND place <= 20 GROUP BY client_id, reason) AS counted
             WHERE reason NOT IN ('unknown_token_key', 'unreadable_token') AND rejected >= 5
               AND (rejected * 5 >= settled * 4 OR reason = 'answer_lost')
             ORDER BY client_id
            """
        )
    }

    package func waitingRevocations() throws -> WaitingRevocations? {
        let newest = "(SELECT outcome FROM revocation_log ORDER BY id DESC LIMIT 20) AS newest"
        let found: [WaitingRevocations] = try fetchValues(
            """
            SELECT (SELECT COUNT(*) FROM revocation_queue) AS requests, (SELECT MIN(requested_at) FROM revocation_queue) AS oldest,
                   COUNT(*) AS tokens, COUNT(*) FILTER (WHERE rounds > 0) AS "stillAccepted",
                   COUNT(*) FILTER (WHERE before_answer = 'invalid_grant') AS unbelieved, (SELECT COUNT(*) FROM \(sql: newest)) AS newest,
                   (SELECT COUNT(*) FROM \(sql: newest) WHERE outcome = 'no_token') AS "newestWithoutToken"
              FROM revocation
            """
        )
        return found.first
    }

    package func refusedClients(at now: Timestamp, upTo limit: Int) throws -> [RefusedClient] {
        let rows = try fetchAll(
            """
            SELECT app.name, client.client_id, client.id, client.refused_since, client.refused_at, client.refusal
              FROM client JOIN app ON app.id = client.app
             WHERE client.refused_at IS NOT NULL ORDER BY app.name, client.client_id
            """
        )
        return try rows.compactMap { row -> RefusedClient? in
            guard let refusal = ClientRefusal(row, from: 3) else { return nil }
            let (clientID, id): (String, Int64) = (row[1], row[2])
            let isWaiting: SQL = "authorization_code IS NOT NULL AND client_id = \(clientID)"
            return RefusedClient(
                app: row[0],
                clientID: clientID,
                refusal: refusal,
                codes: try count("SELECT 1 FROM grant_queue WHERE \(isWaiting) LIMIT \(limit)"),
                checks: try count("SELECT 1 FROM credential WHERE client = \(id) AND due_at <= \(now) LIMIT \(limit)"),
                revocations: try count("SELECT 1 FROM revocation WHERE client = \(id) LIMIT \(limit)")
            )
        }
    }

    package func overdueCredentials(before time: Timestamp, upTo limit: Int, in directory: ClientDirectory) throws -> [String: Int] {
        try directory.clients.values.filter(directory.isWatched).reduce(into: [:]) { overdue, client in
            let found = overdue[client.app.name, default: 0]
            let query: SQL = "SELECT 1 FROM credential WHERE client = \(client.id) AND due_at < \(time) LIMIT \(limit - found)"
            overdue[client.app.name] = try found + count(query)
        }
    }

    /// It reads the whole quarantine.
    package func quarantineCounts() throws -> [String: Int] {
        let rows = try fetchAll("SELECT reason, COUNT(*) FROM notification_quarantine GROUP BY reason")
        return rows.reduce(into: [:]) { $0[$1[0]] = $1.int(at: 1) }
    }
}

package enum BackupCounter {
    /// In milliseconds since 1970.
    package static let writtenAt = "backed_up_at"
}
