// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension TableStore {
    package func firstRequestToRevoke(_ credential: CredentialID, since time: Timestamp) async throws -> Timestamp? {
        guard let app = directory.withLockedValue({ $0.clients[credential.clientID]?.app.id }) else { return nil }
        let user = credential.userID
        let isOfUser: SQL = "user_id = \(user) AND app = \(app)"
        return try await query(.ofLane) { connection in
            // A known sign-in or event ends an older request, and leaves a newer one.
            try connection.fetchOne(
                """
                SELECT MIN(COALESCE(q.effective_at, q.requested_at))
                  FROM revocation_queue q JOIN client ON client.client_id = q.client_id
                 WHERE q.user_id = \(user) AND q.opened_at IS NULL AND client.app = \(app)
                   AND COALESCE(q.effective_at, q.requested_at) >= \(time)
                   AND COALESCE(q.effective_at, q.requested_at) > COALESCE(
                         (SELECT MAX(at) FROM (SELECT MAX(granted_at) AS at FROM credential WHERE \(isOfUser)
                                               UNION ALL SELECT MAX(consent_revoked_at) FROM user_event WHERE \(isOfUser)
                                               UNION ALL SELECT MAX(deleted_at) FROM user_event WHERE \(isOfUser)) AS found), 0)
                """
            )?.time(at: 0)
        }
    }

    package func isSignedIn(_ credential: CredentialID, besides row: Int64) async throws -> Bool {
        guard let app = directory.withLockedValue({ $0.clients[credential.clientID]?.app.id }) else { return false }
        return try await query(.ofLane) { connection in
            try connection.exists(
                """
                SELECT 1 FROM credential
                 WHERE user_id = \(credential.userID) AND app = \(app) AND (state = 'authorized' OR sealed_token IS NOT NULL)
                UNION ALL SELECT 1 FROM grant_queue WHERE user_id = \(credential.userID) AND id <> \(row)
                """
            )
        }
    }
}

extension TableConnection {
    func newerSignIn(of userID: String, in app: Int64, after time: Timestamp, at now: Timestamp) throws -> NewerSignIn {
        let row = try fetchOne(
            """
            SELECT EXISTS (SELECT 1 FROM credential WHERE user_id = \(userID) AND app = \(app) AND granted_at > \(time)),
                   EXISTS (SELECT 1 FROM grant_queue g JOIN client ON client.client_id = g.client_id
                            WHERE g.user_id = \(userID) AND g.granted_at > \(time) AND client.app = \(app)
                              AND \(WaitingGrant.mayCome("g", at: "\(now)")))
            """
        )
        guard let row, !row.bool(at: 0) else { return .known }
        return row.bool(at: 1) ? .possible : .none
    }
}

extension WaitingGrant {
    /// SQL: the columns of the row `g` of `grant_queue` for `init`.
    static func columns(at now: SQL) -> SQL {
        """
        g.id, g.client_id, g.granted_at, g.authorization_code IS NOT NULL, g.attempts = 0 OR g.due_at > \(now),
        NOT \(comesSoon("g", at: now))
        """
    }

    init(_ row: some TableRow, from start: Int) {
        self.init(
            id: row[start],
            clientID: row[start + 1],
            grantedAt: row[start + 2],
            bringsCode: row[start + 3],
            isOnItsWay: row[start + 4],
            isAhead: row[start + 5]
        )
    }

    /// SQL: whether a row of `grant_queue` comes soon, or waits for its time.
    static func mayCome(_ grant: String, at now: SQL) -> SQL {
        "(\(comesSoon(grant, at: now)) OR \(sql: grant).is_ahead <> 0)"
    }

    /// SQL: whether a row of `grant_queue` can be taken, now or within the time for which an event waits for it.
    static func comesSoon(_ grant: String, at now: SQL) -> SQL {
        """
        (\(sql: grant).authorization_code IS NOT NULL OR \(sql: grant).claimed_by IS NOT NULL
          OR \(sql: grant).due_at - \(sql: SettlementRules.longestWaitForGrant.milliseconds) <= \(now))
        """
    }
}
