// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import GRDB

extension SQLiteStore {
    /// What `receipt` shows.
    package func revocations(of userID: String) async throws -> UserRevocations {
        try await read { db in try UserRevocations(of: userID, in: db) }
    }

    /// What waits to be revoked. Counted row by row, for those who ask seldom.
    package func waitingRevocations() async throws -> WaitingRevocationCounts {
        try await read { db in
            let row = try Row.fetchOne(
                db,
                sql: """
                    SELECT (SELECT COUNT(*) FROM revocation_queue), (SELECT MIN(requested_at) FROM revocation_queue),
                           COUNT(*), COUNT(*) FILTER (WHERE rounds > 0), COUNT(*) FILTER (WHERE before_answer = 'invalid_grant')
                      FROM revocation
                    """
            )
            guard let row else { return WaitingRevocationCounts() }
            return WaitingRevocationCounts(
                requests: row[0],
                oldest: row.time(at: 1),
                tokens: row[2],
                stillAccepted: row[3],
                unbelieved: row[4]
            )
        }
    }
}

extension UserRevocations {
    init(of userID: String, in db: Database) throws {
        self.init()
        refusals = try ClientRefusal.all(in: db)
        // What a backend wrote and siwatch rejected may not be text.
        try PreparedStatement(
            """
            SELECT id, request, app, CAST(client_id AS BLOB), requested_at, token_granted_at, settled_at, outcome, reason,
                   key_id, before_at, before_date, before_answer, revoke_at, revoke_date, revoke_answer, after_at, after_date, after_answer,
                   0, 0
              FROM revocation_log WHERE user_id = ? ORDER BY request, id
            """,
            in: db
        ).forEachRow(userID) { row in
            receipts.append(
                RevocationReceipt(
                    id: row.integer(at: 0),
                    request: row.integer(at: 1),
                    app: row.text(at: 2),
                    clientID: String(decoding: row.bytes(at: 3), as: UTF8.self),
                    requestedAt: Timestamp(milliseconds: row.integer(at: 4)),
                    tokenGrantedAt: row.time(at: 5),
                    proof: RevocationProof(row, from: 9),
                    settledAt: Timestamp(milliseconds: row.integer(at: 6)),
                    outcome: row.text(at: 7) ?? "",
                    reason: row.text(at: 8)
                )
            )
        }
        waiting = try UserHistory.Waiting.fetchAll(
            db,
            sql: """
                SELECT 'revocation' AS queue, q.id AS id, app.name AS app, app.paused_at AS pausedAt, q.client_id AS clientID,
                       q.requested_at AS at, FALSE AS bringsCode, q.due_at AS dueAt, q.claimed_by IS NOT NULL AS isClaimed,
                       NULL AS waitsSince, 0 AS failures, FALSE AS isAnswerLost, NULL AS detail, q.opened_at AS openedAt
                  FROM revocation_queue q
                  LEFT JOIN client ON client.client_id = q.client_id
                  LEFT JOIN app ON app.id = client.app
                 WHERE q.user_id = ? ORDER BY q.id
                """,
            arguments: [userID]
        )
        try PreparedStatement(
            """
            SELECT r.request, app.name, client.client_id, r.requested_at, r.token_granted_at, r.due_at, r.claimed_by IS NOT NULL,
                   \(RevocationProof.columns)
              FROM revocation r JOIN app ON app.id = r.app JOIN client ON client.id = r.client
             WHERE r.user_id = ? ORDER BY r.request, client.client_id
            """,
            in: db
        ).forEachRow(userID) { row in
            tokens.append(
                TokenBeingRevoked(
                    request: row.integer(at: 0),
                    app: row.text(at: 1) ?? "",
                    clientID: row.text(at: 2) ?? "",
                    requestedAt: Timestamp(milliseconds: row.integer(at: 3)),
                    tokenGrantedAt: Timestamp(milliseconds: row.integer(at: 4)),
                    proof: RevocationProof(row, from: 7),
                    dueAt: Timestamp(milliseconds: row.integer(at: 5)),
                    isClaimed: row.integer(at: 6) != 0
                )
            )
        }
    }
}
