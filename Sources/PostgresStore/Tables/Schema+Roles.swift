// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension Schema {
    static let backendRole = "siwatch_backend"
    static let readerRole = "siwatch_reader"
    /// One for each queue, for a backend that does nothing else.
    private static let (notificationRole, grantRole, revocationRole) = ("siwatch_notifications", "siwatch_grants", "siwatch_revocations")

    static let roles = [backendRole, readerRole, notificationRole, grantRole, revocationRole]

    /// The roles that insert into a queue.
    static func roles(of queue: Queue) -> [String] {
        switch queue {
        case .notification: [notificationRole, backendRole]
        case .grant: [grantRole, backendRole]
        case .revocation: [revocationRole, backendRole]
        }
    }

    /// SQL: makes a role without a login, if it is missing. Roles belong to the whole server, so another migration may make it now.
    static func role(_ name: String) -> String {
        """
        DO $$
        BEGIN
          IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '\(name)') THEN
            CREATE ROLE \(name) NOLOGIN;
          END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
        END
        $$;

        """
    }

    /// SQL: the rights of backends. They append their rows and read the views for them. A token goes in and does not come out. The role for all
    /// backends has the rights of the others together.
    static func grants(in schema: String) -> String {
        """
        REVOKE ALL ON SCHEMA \(schema) FROM PUBLIC;
        GRANT USAGE ON SCHEMA \(schema) TO \(roles.joined(separator: ", "));
        GRANT INSERT (payload, received_at), SELECT (id) ON notification_queue TO \(notificationRole), \(backendRole);
        GRANT INSERT (client_id, user_id, refresh_token, token_sealed, authorization_code, redirect_uri, nonce, email, email_is_private,
                      granted_at),
              SELECT (id) ON grant_queue TO \(grantRole), \(backendRole);
        GRANT INSERT (client_id, user_id, requested_at), SELECT (id) ON revocation_queue TO \(revocationRole), \(backendRole);
        GRANT SELECT ON app_client, credential_state, user_state, credential_change, grant_outcome, revocation_outcome, heartbeat
           TO \(readerRole), \(backendRole);

        """
    }
}
