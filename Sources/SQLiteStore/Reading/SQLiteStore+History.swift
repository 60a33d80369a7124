// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import GRDB

extension SQLiteStore {
    /// What `explain` shows.
    ///
    /// The logs have no index by user, because every settlement would pay for it: an operator who asks now and then can wait for a scan.
    package func history(of userID: String) async throws -> UserHistory {
        try await read { db in
            // One transaction, so that the parts agree.
            var history = UserHistory()
            history.users = try db.rows(
                """
                SELECT app.name AS app, app.paused_at AS pausedAt, r.consent_revoked_at AS consentRevokedAt, r.deleted_at AS deletedAt,
                       r.revoked_at AS revokedAt, u.state AS state, u.reason AS reason, u.changed_at AS changedAt,
                       u.verified_at AS verifiedAt,
                       u.email AS email, u.email_is_private AS emailIsPrivate, u.email_forwarding AS emailForwarding
                  FROM user_state u JOIN app ON app.name = u.app
                  LEFT JOIN user_event r ON r.user_id = u.user_id AND r.app = app.id
                 WHERE u.user_id = ? ORDER BY app.name
                """,
                of: userID
            )
            history.credentials = try db.rows(
                """
                SELECT app.name AS app, client.client_id AS clientID, c.state AS state, c.reason AS reason, c.changed_at AS changedAt,
                       c.granted_at AS grantedAt, c.token_granted_at AS tokenGrantedAt, c.sealed_token IS NOT NULL AS holdsToken,
                       c.revoked_at AS revokedAt, c.verified_at AS verifiedAt, c.rejected_at AS rejectedAt,
                       c.pending_asked_at AS rejectionPendingAt, c.answered_at AS answeredAt, c.answer AS answer,
                       c.failures AS failures, c.due_at AS nextCheckAt, c.never_accepted AS isNeverAccepted, c.claimed_by IS NOT NULL AS isBeingAsked
                  FROM credential c JOIN app ON app.id = c.app JOIN client ON client.id = c.client
                 WHERE c.user_id = ? ORDER BY app.name, client.client_id
                """,
                of: userID
            )
            history.grants = try db.rows(
                """
                SELECT client_id AS clientID, granted_at AS grantedAt, settled_at AS settledAt, outcome, reason, detail
                  FROM grant_log WHERE user_id = ? ORDER BY id
                """,
                of: userID
            )
            history.notifications = try db.rows(
                """
                SELECT app, client_id AS clientID, jti, type, event_time AS occurredAt, received_at AS receivedAt,
                       settled_at AS settledAt, outcome, payload
                  FROM notification_log WHERE user_id = ? ORDER BY id
                """,
                of: userID
            )
            let revocations = try UserRevocations(of: userID, in: db)
            history.revocations = revocations.receipts
            history.tokensBeingRevoked = revocations.tokens
            history.refusals = revocations.refusals
            history.changes = try db.rows(
                """
                SELECT id, app, client_id AS clientID, kind, from_state AS fromState, to_state AS toState, reason,
                       email, email_forwarding AS emailForwarding, source, notification_jti AS notificationJTI,
                       occurred_at AS occurredAt, recorded_at AS recordedAt
                  FROM credential_change WHERE user_id = ? ORDER BY id
                """,
                of: userID
            )
            history.waiting = try db.rows(
                """
                SELECT 'grant' AS queue, g.id AS id, app.name AS app, app.paused_at AS pausedAt, g.client_id AS clientID,
                       g.granted_at AS at, g.authorization_code IS NOT NULL AS bringsCode, g.due_at AS dueAt,
                       g.claimed_by IS NOT NULL AS isClaimed, g.waits_since AS waitsSince, g.failures AS failures,
                       g.answer_lost AS isAnswerLost, g.detail AS detail, NULL AS openedAt
                  FROM grant_queue g
                  LEFT JOIN client ON client.client_id = g.client_id
                  LEFT JOIN app ON app.id = client.app
                 WHERE g.user_id = ? ORDER BY g.id
                """,
                of: userID
            )
            history.waiting += revocations.waiting
            return history
        }
    }
}

extension Database {
    fileprivate func rows<Value: FetchableRecord>(_ sql: String, of userID: String) throws -> [Value] {
        try Value.fetchAll(self, sql: sql, arguments: [userID])
    }
}

// By the names of their columns.
extension UserHistory.User: FetchableRecord {}
extension UserHistory.HeldCredential: FetchableRecord {}
extension UserHistory.LoggedGrant: FetchableRecord {}
extension UserHistory.LoggedNotification: FetchableRecord {}
extension UserHistory.LoggedChange: FetchableRecord {}
extension UserHistory.Waiting: FetchableRecord {}
