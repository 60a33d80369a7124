// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Tables {
    /// The views that backends read. On a server a view runs with the rights of its owner, so backends need no rights on the tables
    /// behind it.
    package var views: String {
        """
        CREATE VIEW app_client AS
          SELECT app.name         AS app,
                 client.client_id AS client_id
            FROM client
            JOIN app ON app.id = client.app;

        CREATE VIEW credential_state AS
          SELECT app.name         AS app,
                 client.client_id AS client_id,
                 c.user_id        AS user_id,
                 c.state          AS state,
                 c.reason         AS reason,
                 c.changed_at     AS changed_at,
                 c.verified_at    AS verified_at,
                 c.due_at         AS next_check_at,
                 \(shownEmail)
            FROM credential c
            JOIN app ON app.id = c.app
            JOIN client ON client.id = c.client
            LEFT JOIN user_event u ON u.user_id = c.user_id AND u.app = c.app;

        CREATE VIEW user_state AS
          SELECT app.name     AS app,
                 c.user_id    AS user_id,
                 c.state      AS state,
                 c.reason     AS reason,
                 c.changed_at AS changed_at,
                 (SELECT MAX(o.verified_at) FROM credential o WHERE o.user_id = c.user_id AND o.app = c.app) AS verified_at,
                 \(shownEmail)
            FROM credential c
            JOIN app ON app.id = c.app
            LEFT JOIN user_event u ON u.user_id = c.user_id AND u.app = c.app
           WHERE NOT EXISTS (SELECT 1 FROM credential o
                              WHERE o.user_id = c.user_id AND o.app = c.app AND o.client <> c.client
                                AND (\(rank("o"))) < (\(rank("c"))));

        CREATE VIEW grant_outcome AS
          SELECT id, client_id, user_id, granted_at, 'waiting' AS outcome, NULL AS reason, \(noTime) AS settled_at,
                 \(noTime) AS signed_in_at, \(noTime) AS real_user_status
            FROM grant_queue
           UNION ALL
          SELECT grant_id, client_id, user_id, granted_at, outcome, reason, settled_at, COALESCE(signed_in_at, granted_at), real_user_status
            FROM grant_log;

        CREATE VIEW revocation_outcome AS
          SELECT id, client_id, user_id, requested_at, CASE WHEN held_at IS NULL THEN 'waiting' ELSE 'held' END AS outcome,
                 NULL AS reason, \(noTime) AS settled_at
            FROM revocation_queue
           UNION ALL
          SELECT request, client_id, user_id, requested_at, outcome, reason, settled_at FROM revocation_log;

        CREATE VIEW heartbeat AS
          SELECT \(heartbeat);

        """
    }

    /// The view shows nothing older than the deletion of the account. The table keeps no older address.
    private var shownEmail: String {
        """
        u.email                                                                          AS email,
                 u.email_is_private                                                                 AS email_is_private,
                 CASE WHEN u.forwarding_at > COALESCE(u.deleted_at, -1) THEN u.forwarding END       AS email_forwarding
        """
    }

    private var heartbeat: String {
        words(
            sqlite: "(SELECT value FROM counter WHERE name = 'alive_at') AS alive_at",
            postgres: "MAX(seen_at) AS alive_at FROM replica"
        )
    }

    /// Orders credentials: `authorized` first, else the latest change, then the order of reasons. The client breaks ties.
    private func rank(_ c: String) -> String {
        """
        \(c).state <> 'authorized', \(c).changed_at IS NULL, -COALESCE(\(c).changed_at, 0),
        CASE \(c).reason WHEN 'account_deleted' THEN 0 WHEN 'revoked_by_app' THEN 1 WHEN 'consent_revoked' THEN 2
                         WHEN 'token_rejected' THEN 3 ELSE 4 END,
        \(c).client
        """
    }
}
