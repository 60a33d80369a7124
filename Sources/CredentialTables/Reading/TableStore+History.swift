// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableStore {
    package func newestSignIns(upTo limit: Int) async throws -> [String] {
        try await query { try $0.fetchAll("SELECT user_id FROM grant_log ORDER BY id DESC LIMIT \(limit)").map { $0[0] } }
    }

    /// The newest rows of each log and queue. The logs have no index by user, because every settlement would pay for it. An operator asks
    /// rarely and can wait for a scan.
    package func history(of userID: String, upTo limit: Int) async throws -> UserHistory {
        try await query { connection in
            var history = try connection.revocations(of: userID)
            history.users = try connection.fetchValues(
                """
                SELECT app.name AS app, app.paused_at, r.consent_revoked_at, r.deleted_at, r.revoked_at, u.state, u.reason, u.changed_at,
                       u.verified_at, u.email, u.email_is_private, u.email_forwarding
                  FROM user_state u JOIN app ON app.name = u.app
                  LEFT JOIN user_event r ON r.user_id = u.user_id AND r.app = app.id
                 WHERE u.user_id = \(userID) ORDER BY app.name
                """
            )
            history.credentials = try connection.fetchValues(
                """
                SELECT app.name AS app, client.client_id, c.state, c.reason, c.changed_at, c.granted_at, c.token_granted_at,
                       c.sealed_token IS NOT NULL AS holds_token, c.revoked_at, c.verified_at, c.rejected_at,
                       c.pending_asked_at AS rejection_pending_at, c.answered_at, c.answer, c.failures, c.due_at AS next_check_at,
                       c.never_accepted AS is_never_accepted, c.claimed_by IS NOT NULL AS is_being_asked
                  FROM credential c JOIN app ON app.id = c.app JOIN client ON client.id = c.client
                 WHERE c.user_id = \(userID) ORDER BY app.name, client.client_id
                """
            )
            history.grants = try connection.fetchNewest(
                """
                SELECT client_id, granted_at, settled_at, outcome, reason, detail
                  FROM grant_log WHERE user_id = \(userID) ORDER BY id DESC LIMIT \(limit)
                """
            )
            history.notifications = try connection.fetchNewest(
                """
                SELECT app, client_id, jti, type, event_time AS occurred_at, received_at, settled_at, outcome, NULLIF(payload, '') AS payload
                  FROM notification_log WHERE user_id = \(userID) ORDER BY id DESC LIMIT \(limit)
                """
            )
            history.changes = try connection.fetchNewest(
                """
                SELECT \(sql: StoredTable.credentialChange.columnList) FROM credential_change WHERE user_id = \(userID) ORDER BY id DESC LIMIT \(limit)
                """
            )
            let signIns: [UserHistory.Waiting] = try connection.fetchNewest(
                """
                SELECT 'grant' AS queue, g.id, app.name AS app, app.paused_at, g.client_id, g.granted_at AS at,
                       g.authorization_code IS NOT NULL AS brings_code, g.due_at, g.claimed_by IS NOT NULL AS is_claimed, g.waits_since,
                       g.is_ahead <> 0 AS is_ahead, g.failures, g.answer_lost <> 0 AS is_answer_lost, g.detail, NULL AS opened_at
                  FROM grant_queue g
                  LEFT JOIN client ON client.client_id = g.client_id
                  LEFT JOIN app ON app.id = client.app
                 WHERE g.user_id = \(userID) ORDER BY g.id DESC LIMIT \(limit)
                """
            )
            history.waiting = signIns + history.waiting
            let counts = [history.grants.count, history.notifications.count, history.changes.count, history.waiting.count]
            history.isCut = counts.contains { $0 >= limit }
            return history
        }
    }

    package func revocations(of userID: String) async throws -> UserHistory {
        try await query { try $0.revocations(of: userID) }
    }

    package func revocationsRequested(since: Timestamp, until: Timestamp) async throws -> [RequestedRevocation] {
        try await query { connection in
            try connection.fetchValues(
                """
                SELECT request, app, client_id, user_id, requested_at, outcome, reason, settled_at, revoke_at, after_at
                  FROM revocation_log WHERE requested_at BETWEEN \(since) AND \(until)
                 UNION ALL
                SELECT q.id, app.name, q.client_id, q.user_id, q.requested_at, CASE WHEN q.held_at IS NULL THEN 'waiting' ELSE 'held' END,
                       NULL, NULL, NULL, NULL
                  FROM revocation_queue q
                  LEFT JOIN client ON client.client_id = q.client_id
                  LEFT JOIN app ON app.id = client.app
                 WHERE q.requested_at BETWEEN \(since) AND \(until)
                 ORDER BY requested_at, request
                """
            )
        }
    }
}

extension TableConnection {
    /// The newest rows, oldest first.
    fileprivate func fetchNewest<Row: Decodable>(_ sql: SQL) throws -> [Row] { try fetchValues(sql).reversed() }

    fileprivate func revocations(of userID: String) throws -> UserHistory {
        var history = UserHistory()
        history.refusals = try ClientRefusal.all(on: self)
        history.revocations = try fetchAll(
            """
            SELECT id, request, app, client_id, requested_at, token_granted_at, settled_at, outcome, reason,
                   \(sql: RevocationProof.answerColumns.joined(separator: ", ")), 0, 0
              FROM revocation_log WHERE user_id = \(userID) ORDER BY request, id
            """
        ).map { row in
            var receipt = try RevocationReceipt(from: RowDecoder(row: row))
            receipt.proof = RevocationProof(row, from: 9)
            return receipt
        }
        history.waiting = try fetchValues(
            """
            SELECT 'revocation' AS queue, q.id, app.name AS app, app.paused_at, q.client_id, q.requested_at AS at, FALSE AS brings_code,
                   q.due_at, q.claimed_by IS NOT NULL AS is_claimed, q.held_at AS waits_since, FALSE AS is_ahead, 0 AS failures,
                   FALSE AS is_answer_lost, NULL AS detail, q.opened_at
              FROM revocation_queue q
              LEFT JOIN client ON client.client_id = q.client_id
              LEFT JOIN app ON app.id = client.app
             WHERE q.user_id = \(userID) ORDER BY q.id
            """
        )
        history.tokensBeingRevoked = try fetchAll(
            """
            SELECT r.request, app.name AS app, client.client_id, r.token_granted_at, r.due_at, r.claimed_by IS NOT NULL AS is_claimed,
                   \(sql: RevocationProof.columns)
              FROM revocation r JOIN app ON app.id = r.app JOIN client ON client.id = r.client
             WHERE r.user_id = \(userID) ORDER BY r.request, client.client_id
            """
        ).map { row in
            var token = try TokenBeingRevoked(from: RowDecoder(row: row))
            token.proof = RevocationProof(row, from: 6)
            return token
        }
        return history
    }
}
