// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// Queries about a user's sign-ins that a lane makes before it decides.
extension TableStore {
    package func firstRequestToRevoke(_ credential: CredentialID, since time: Timestamp) async throws -> Timestamp? {
        let app = directory.withLockedValue { $0.clients[credential.clientID]?.app.id }
        guard let app else { return nil }
        return try await laneQuery { connection in
            // A known sign-in or event ends an older request, and leaves a newer one.
            try connection.fetchOne(
                """
                SELECT MIN(COALESCE(q.effective_at, q.requested_at))
                  FROM revocation_queue q JOIN client ON client.client_id = q.client_id
                 WHERE q.user_id = $1 AND q.opened_at IS NULL AND client.app = $2 AND COALESCE(q.effective_at, q.requested_at) >= $3
                   AND COALESCE(q.effective_at, q.requested_at) > COALESCE(
                         (SELECT MAX(at) FROM (SELECT MAX(granted_at) AS at FROM credential WHERE user_id = $1 AND app = $2
                                               UNION ALL SELECT MAX(consent_revoked_at) FROM user_event WHERE user_id = $1 AND app = $2
                                               UNION ALL SELECT MAX(deleted_at) FROM user_event WHERE user_id = $1 AND app = $2) AS found), 0)
                """,
                credential.userID,
                app,
                time
            )?.time(at: 0)
        }
    }

    package func isSignedIn(_ credential: CredentialID, besides row: Int64) async throws -> Bool {
        let app = directory.withLockedValue { $0.clients[credential.clientID]?.app.id }
        guard let app else { return false }
        return try await laneQuery { connection in
            try connection.fetchOne(
                """
                SELECT EXISTS (SELECT 1 FROM credential
                                WHERE user_id = $1 AND app = $2 AND (state = 'authorized' OR sealed_token IS NOT NULL))
                    OR EXISTS (SELECT 1 FROM grant_queue WHERE user_id = $1 AND id <> $3)
                """,
                credential.userID,
                app,
                row
            )?.bool(at: 0) ?? false
        }
    }
}

extension TableConnection {
    /// Whether a user has signed in at any client of an app since `time`.
    func newerSignIn(of userID: String, in app: Int64, after time: Timestamp, at now: Timestamp) throws -> NewerSignIn {
        let row = try fetchOne(
            """
            SELECT EXISTS (SELECT 1 FROM credential WHERE user_id = $1 AND app = $2 AND granted_at > $3),
                   EXISTS (SELECT 1 FROM grant_queue g JOIN client ON client.client_id = g.client_id
                            WHERE g.user_id = $1 AND g.granted_at > $3 AND client.app = $2
                              AND \(WaitingGrant.mayCome("g", at: "$4")))
            """,
            userID,
            app,
            time,
            now
        )
        guard let row, !row.bool(at: 0) else { return .known }
        return row.bool(at: 1) ? .possible : .none
    }
}

extension WaitingGrant {
    /// SQL: the columns of the row `g` of `grant_queue` for `init`.
    static func columns(at now: String) -> String {
        """
        g.id, g.client_id, g.granted_at, g.authorization_code IS NOT NULL, g.attempts = 0 OR g.due_at > \(now),
        NOT \(comesSoon("g", at: now))
        """
    }

    /// - Parameter row: `columns`, from the given index on.
    init(_ row: some TableRow, from start: Int) {
        self.init(
            id: row.integer(at: start),
            clientID: row.text(at: start + 1) ?? "",
            grantedAt: Timestamp(milliseconds: row.integer(at: start + 2)),
            bringsCode: row.bool(at: start + 3),
            isOnItsWay: row.bool(at: start + 4),
            isAhead: row.bool(at: start + 5)
        )
    }

    /// SQL: whether a row of `grant_queue` comes soon, or waits for its time.
    static func mayCome(_ grant: String, at now: String) -> String {
        "(\(comesSoon(grant, at: now)) OR \(grant).is_ahead <> 0)"
    }

    /// SQL: whether a row of `grant_queue` can be taken, now or within the time for which an event waits for it.
    static func comesSoon(_ grant: String, at now: String) -> String {
        """
        (\(grant).authorization_code IS NOT NULL OR \(grant).claimed_by IS NOT NULL
          OR \(grant).due_at - \(SettlementRules.longestWaitForGrant.milliseconds) <= \(now))
        """
    }
}
