// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension PostgresStore {
    /// What `explain` shows.
    ///
    /// The logs have no index by user, because every settlement would pay for it: an operator who asks now and then can wait for a scan.
    package func history(of userID: String) async throws -> UserHistory {
        // One snapshot, so that the parts agree.
        try await reader.snapshot { connection in
            var history = UserHistory()
            history.users = try connection.values(
                """
                SELECT app.name AS app, app.paused_at AS "pausedAt", r.consent_revoked_at AS "consentRevokedAt",
                       r.deleted_at AS "deletedAt", r.revoked_at AS "revokedAt", u.state, u.reason,
                       u.changed_at AS "changedAt", u.verified_at AS "verifiedAt",
                       u.email, u.email_is_private = 1 AS "emailIsPrivate", u.email_forwarding AS "emailForwarding"
                  FROM user_state u JOIN app ON app.name = u.app
                  LEFT JOIN user_event r ON r.user_id = u.user_id AND r.app = app.id
                 WHERE u.user_id = $1 ORDER BY app.name
                """,
                of: userID
            )
            history.credentials = try connection.values(
                """
                SELECT app.name AS app, client.client_id AS "clientID", c.state, c.reason, c.changed_at AS "changedAt",
                       c.granted_at AS "grantedAt", c.token_granted_at AS "tokenGrantedAt", c.sealed_token IS NOT NULL AS "holdsToken",
                       c.revoked_at AS "revokedAt", c.verified_at AS "verifiedAt", c.rejected_at AS "rejectedAt",
                       c.pending_asked_at AS "rejectionPendingAt", c.answered_at AS "answeredAt", c.answer, c.failures,
                       c.due_at AS "nextCheckAt", c.never_accepted AS "isNeverAccepted", c.claimed_by IS NOT NULL AS "isBeingAsked"
                  FROM credential c JOIN app ON app.id = c.app JOIN client ON client.id = c.client
                 WHERE c.user_id = $1 ORDER BY app.name, client.client_id
                """,
                of: userID
            )
            history.grants = try connection.values(
                """
                SELECT client_id AS "clientID", granted_at AS "grantedAt", settled_at AS "settledAt", outcome, reason, detail
                  FROM grant_log WHERE user_id = $1 ORDER BY id
                """,
                of: userID
            )
            // What is no text of ASCII is shown by its bytes.
            history.notifications = try connection.values(
                """
                SELECT app, client_id AS "clientID", jti, type, event_time AS "occurredAt", received_at AS "receivedAt",
                       settled_at AS "settledAt", outcome, encode(payload, 'escape') AS payload
                  FROM notification_log WHERE user_id = $1 ORDER BY id
                """,
                of: userID
            )
            let revocations = try UserRevocations(of: userID, on: connection)
            history.revocations = revocations.receipts
            history.tokensBeingRevoked = revocations.tokens
            history.refusals = revocations.refusals
            history.changes = try connection.values(
                """
                SELECT id, app, client_id AS "clientID", kind, from_state AS "fromState", to_state AS "toState", reason,
                       email, email_forwarding AS "emailForwarding", source, notification_jti AS "notificationJTI",
                       occurred_at AS "occurredAt", recorded_at AS "recordedAt"
                  FROM credential_change WHERE user_id = $1 ORDER BY id
                """,
                of: userID
            )
            history.waiting = try connection.values(
                """
                SELECT 'grant' AS queue, g.id, app.name AS app, app.paused_at AS "pausedAt", g.client_id AS "clientID",
                       g.granted_at AS at, g.authorization_code IS NOT NULL AS "bringsCode", g.due_at AS "dueAt",
                       g.claimed_by IS NOT NULL AS "isClaimed", g.waits_since AS "waitsSince", g.failures,
                       g.answer_lost <> 0 AS "isAnswerLost", g.detail, NULL::bigint AS "openedAt"
                  FROM grant_queue g
                  LEFT JOIN client ON client.client_id = g.client_id
                  LEFT JOIN app ON app.id = client.app
                 WHERE g.user_id = $1 ORDER BY g.id
                """,
                of: userID
            )
            history.waiting += revocations.waiting
            return history
        }
    }

    /// What `receipt` shows.
    package func revocations(of userID: String) async throws -> UserRevocations {
        try await reader.snapshot { connection in try UserRevocations(of: userID, on: connection) }
    }
}

extension UserRevocations {
    init(of userID: String, on connection: Connection) throws {
        self.init()
        refusals = try ClientRefusal.all(on: connection)
        receipts = try connection.rows(
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
        waiting = try connection.values(
            """
            SELECT 'revocation' AS queue, q.id, app.name AS app, app.paused_at AS "pausedAt", q.client_id AS "clientID",
                   q.requested_at AS at, FALSE AS "bringsCode", q.due_at AS "dueAt", q.claimed_by IS NOT NULL AS "isClaimed",
                   NULL::bigint AS "waitsSince", 0 AS failures, FALSE AS "isAnswerLost", NULL::text AS detail,
                   q.opened_at AS "openedAt"
              FROM revocation_queue q
              LEFT JOIN client ON client.client_id = q.client_id
              LEFT JOIN app ON app.id = client.app
             WHERE q.user_id = $1 ORDER BY q.id
            """,
            of: userID
        )
        tokens = try connection.rows(
            """
            SELECT r.request, app.name, client.client_id, r.requested_at, r.token_granted_at, r.due_at, r.claimed_by IS NOT NULL,
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
                requestedAt: Timestamp(milliseconds: row.integer(at: 3)),
                tokenGrantedAt: Timestamp(milliseconds: row.integer(at: 4)),
                proof: RevocationProof(row, from: 7),
                dueAt: Timestamp(milliseconds: row.integer(at: 5)),
                isClaimed: row.bool(at: 6)
            )
        }
    }
}

extension Connection {
    /// Rows as values, by the names of their columns.
    fileprivate func values<Value: Decodable>(_ sql: String, of userID: String) throws -> [Value] {
        try rows("SELECT row_to_json(r)::text FROM (\(sql)) r", userID).compactMap { JSONText.decode($0.text(at: 0) ?? "") }
    }
}

extension ConnectionThread {
    /// Reads of one moment.
    fileprivate func snapshot<Value: Sendable>(_ body: @Sendable (Connection) throws -> Value) throws -> Value {
        try run { connection in
            try connection.send("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            let value = try body(connection)
            try connection.send("COMMIT")
            return value
        }
    }
}
