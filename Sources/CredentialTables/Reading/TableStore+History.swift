// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableStore {
    /// The history that `explain` shows.
    ///
    /// The logs have no index by user, because every settlement would pay for it. An operator asks rarely and can wait for a scan.
    ///
    /// - Parameter limit: of each log and queue, the newest rows.
    package func history(of userID: String, upTo limit: Int) async throws -> UserHistory {
        try await query { connection in
            var history = UserHistory()
            history.users = try connection.fetchValues(
                """
                SELECT app.name AS app, app.paused_at AS "pausedAt", r.consent_revoked_at AS "consentRevokedAt",
                       r.deleted_at AS "deletedAt", r.revoked_at AS "revokedAt", u.state, u.reason,
                       u.changed_at AS "changedAt", u.verified_at AS "verifiedAt",
                       u.email, u.email_is_private AS "emailIsPrivate", u.email_forwarding AS "emailForwarding"
                  FROM user_state u JOIN app ON app.name = u.app
                  LEFT JOIN user_event r ON r.user_id = u.user_id AND r.app = app.id
                 WHERE u.user_id = $1 ORDER BY app.name
                """,
                userID
            )
            history.credentials = try connection.fetchValues(
                """
                SELECT app.name AS app, client.client_id AS "clientID", c.state, c.reason, c.changed_at AS "changedAt",
                       c.granted_at AS "grantedAt", c.token_granted_at AS "tokenGrantedAt", c.sealed_token IS NOT NULL AS "holdsToken",
                       c.revoked_at AS "revokedAt", c.verified_at AS "verifiedAt", c.rejected_at AS "rejectedAt",
                       c.pending_asked_at AS "rejectionPendingAt", c.answered_at AS "answeredAt", c.answer, c.failures,
                       c.due_at AS "nextCheckAt", c.never_accepted AS "isNeverAccepted", c.claimed_by IS NOT NULL AS "isBeingAsked"
                  FROM credential c JOIN app ON app.id = c.app JOIN client ON client.id = c.client
                 WHERE c.user_id = $1 ORDER BY app.name, client.client_id
                """,
                userID
            )
            history.grants = try connection.fetchNewest(
                """
                SELECT client_id AS "clientID", granted_at AS "grantedAt", settled_at AS "settledAt", outcome, reason, detail
                  FROM grant_log WHERE user_id = $1 ORDER BY id DESC LIMIT $2
                """,
                of: userID,
                upTo: limit
            )
            history.notifications = try connection.fetchNewest(
                """
                SELECT app, client_id AS "clientID", jti, type, event_time AS "occurredAt", received_at AS "receivedAt",
                       settled_at AS "settledAt", outcome, NULLIF(payload, '') AS payload
                  FROM notification_log WHERE user_id = $1 ORDER BY id DESC LIMIT $2
                """,
                of: userID,
                upTo: limit
            )
            history.changes = try connection.fetchNewest(
                """
                SELECT id, app, client_id AS "clientID", kind, from_state AS "fromState", to_state AS "toState", reason,
                       email, email_forwarding AS "emailForwarding", source, notification_jti AS "notificationJTI",
                       occurred_at AS "occurredAt", recorded_at AS "recordedAt"
                  FROM credential_change WHERE user_id = $1 ORDER BY id DESC LIMIT $2
                """,
                of: userID,
                upTo: limit
            )
            history.waiting = try connection.fetchNewest(
                """
                SELECT 'grant' AS queue, g.id, app.name AS app, app.paused_at AS "pausedAt", g.client_id AS "clientID",
                       g.granted_at AS at, g.authorization_code IS NOT NULL AS "bringsCode", g.due_at AS "dueAt",
                       g.claimed_by IS NOT NULL AS "isClaimed", g.waits_since AS "waitsSince", g.is_ahead <> 0 AS "isAhead", g.failures,
                       g.answer_lost <> 0 AS "isAnswerLost", g.detail, NULL AS "openedAt"
                  FROM grant_queue g
                  LEFT JOIN client ON client.client_id = g.client_id
                  LEFT JOIN app ON app.id = client.app
                 WHERE g.user_id = $1 ORDER BY g.id DESC LIMIT $2
                """,
                of: userID,
                upTo: limit
            )
            let revocations = try connection.revocations(of: userID)
            history.waiting += revocations.waiting
            history.revocations = revocations.receipts
            history.tokensBeingRevoked = revocations.tokens
            history.refusals = revocations.refusals
            let counts = [history.grants.count, history.notifications.count, history.changes.count, history.waiting.count]
            history.isCut = counts.contains { $0 >= limit }
            return history
        }
    }

    /// The revocations that `receipt` shows.
    package func revocations(of userID: String) async throws -> UserRevocations {
        try await query { try $0.revocations(of: userID) }
    }
}

extension TableConnection {
    /// The newest rows, oldest first.
    fileprivate func fetchNewest<Row: Decodable>(_ sql: String, of userID: String, upTo limit: Int) throws -> [Row] {
        try fetchValues(sql, userID, limit).reversed()
    }

    fileprivate func revocations(of userID: String) throws -> UserRevocations {
        var revocations = UserRevocations()
        revocations.refusals = try ClientRefusal.all(on: self)
        revocations.receipts = try fetchAll(
            """
            SELECT id, request, app, client_id, requested_at, token_granted_at, settled_at, outcome, reason,
                   key_id, before_at, before_date, before_answer, revoke_at, revoke_date, revoke_answer, after_at, after_date, after_answer,
                   0, 0
              FROM revocation_log WHERE user_id = $1 ORDER BY request, id
            """,
            userID
        ).map { row in
            RevocationReceipt(
                id: row.integer(at: 0),
                request: row.integer(at: 1),
                app: row.text(at: 2),
                clientID: row.text(at: 3) ?? "",
                requestedAt: Timestamp(milliseconds: row.integer(at: 4)),
                tokenGrantedAt: row.time(at: 5),
                proof: RevocationProof(row, from: 9),
                settledAt: Timestamp(milliseconds: row.integer(at: 6)),
                outcome: row.text(at: 7) ?? "",
                reason: row.text(at: 8)
            )
        }
        revocations.waiting = try fetchValues(
            """
            SELECT 'revocation' AS queue, q.id, app.name AS app, app.paused_at AS "pausedAt", q.client_id AS "clientID",
                   q.requested_at AS at, FALSE AS "bringsCode", q.due_at AS "dueAt", q.claimed_by IS NOT NULL AS "isClaimed",
                   q.held_at AS "waitsSince", FALSE AS "isAhead", 0 AS failures, FALSE AS "isAnswerLost", NULL AS detail,
                   q.opened_at AS "openedAt"
              FROM revocation_queue q
              LEFT JOIN client ON client.client_id = q.client_id
              LEFT JOIN app ON app.id = client.app
             WHERE q.user_id = $1 ORDER BY q.id
            """,
            userID
        )
        revocations.tokens = try fetchAll(
            """
            SELECT r.request, app.name, client.client_id, r.token_granted_at, r.due_at, r.claimed_by IS NOT NULL,
                   \(RevocationProof.columns)
              FROM revocation r JOIN app ON app.id = r.app JOIN client ON client.id = r.client
             WHERE r.user_id = $1 ORDER BY r.request, client.client_id
            """,
            userID
        ).map { row in
            TokenBeingRevoked(
                request: row.integer(at: 0),
                app: row.text(at: 1) ?? "",
                clientID: row.text(at: 2) ?? "",
                tokenGrantedAt: Timestamp(milliseconds: row.integer(at: 3)),
                proof: RevocationProof(row, from: 6),
                dueAt: Timestamp(milliseconds: row.integer(at: 4)),
                isClaimed: row.bool(at: 5)
            )
        }
        return revocations
    }
}
