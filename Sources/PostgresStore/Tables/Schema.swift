// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

enum Schema {
    static let tables = Tables(.postgres)
    static let v1 = tables.definitions + fleet + tables.views + triggers
    static let steps = tables.steps(v1)

    /// The names that the steps leave.
    static let tablesAndViews = steps.map(\.sql).joined().matches(of: /(CREATE|DROP) (?:TABLE|VIEW) (\w+)/).reduce(into: [String]()) {
        names,
        match in
        names.removeAll { $0 == match.2 }
        if match.1 == "CREATE" { names.append(String(match.2)) }
    }

    static let now = tables.now

    /// SQL: the tables, views and sequences `c` of a schema.
    static func relations(of address: PostgresAddress) -> SQL {
        "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = \(address.schema)"
    }

    /// SQL: the replicas that the server saw lately.
    static let livingReplicas: SQL = "replica WHERE seen_at > \(sql: now) - \(ReplicaStatus.presence)"
}

extension Schema {
    /// Several siwatch on one database. Each has a name, which stands on the rows that it has claimed. All times are by the server's clock.
    static let fleet = """
        CREATE TABLE replica (
          owner      TEXT   COLLATE "C" PRIMARY KEY,
          started_at BIGINT NOT NULL,
          seen_at    BIGINT NOT NULL,
          -- What it is and which lanes it could own, as JSON.
          replica    TEXT   NOT NULL,
          lanes      TEXT   NOT NULL
        ) WITH (fillfactor = 10);

        -- Who asks Apple for an app, and, without a name, who keeps house.
        CREATE TABLE lane (
          app   TEXT   COLLATE "C" PRIMARY KEY,
          owner TEXT   COLLATE "C" NOT NULL DEFAULT '',
          -- How many owners it has had.
          epoch BIGINT NOT NULL DEFAULT 0,
          until BIGINT NOT NULL DEFAULT 0
        ) WITH (fillfactor = 10);

        -- The last batch that each has settled.
        CREATE TABLE settled_batch (
          owner      TEXT   COLLATE "C" PRIMARY KEY,
          number     BIGINT NOT NULL,
          settled_at BIGINT NOT NULL
        ) WITH (fillfactor = 10);

        """
}

extension Schema {
    /// The channel on which inserts notify, for this schema alone.
    static let channel = "'siwatch_' || 'credential_change'::regclass::oid"

    /// How long later inserts stay silent after one has notified, because siwatch is awake and looks. In milliseconds.
    static let quiet = 250

    static let queuesThatTell = ["notification_queue", "grant_queue", "revocation_queue", "operator_request"]

    /// The gate of a queue: a sequence that holds the time until which it is shut.
    static func gate(of queue: String) -> String { "\(queue)_quiet" }

    /// A gate for each queue. A NOTIFY takes a lock of the whole server when it commits, so only the first insert after a pause sends one.
    /// A gate is a sequence and not a row. So it shuts at once and for all, its transaction locks nobody out, and it leaves no dead row.
    /// Two inserts at the same moment both notify, which does no harm.
    static let triggers = """
        \(queuesThatTell.map { "CREATE SEQUENCE \(gate(of: $0)) MINVALUE 0;" }.joined(separator: "\n"))

        CREATE FUNCTION tell_of_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
        DECLARE
          gate   REGCLASS := TG_ARGV[0];
          now_ms BIGINT   := extract(epoch FROM clock_timestamp()) * 1000;
        BEGIN
          -- A time too far ahead is of a clock that has since been set back.
          -- Anybody who may connect can fill the server's queue of notifications. A full one would refuse this insert; siwatch finds the row
          -- without a word within a second.
          IF COALESCE(pg_sequence_last_value(gate), 0) NOT BETWEEN now_ms AND now_ms + 1000 AND pg_notification_queue_usage() < 0.5 THEN
            PERFORM setval(gate, now_ms + \(quiet));
            PERFORM pg_notify(\(channel), TG_TABLE_NAME);
          END IF;
          RETURN NULL;
        END
        $$;
        REVOKE ALL ON FUNCTION tell_of_insert() FROM PUBLIC;

        \(queuesThatTell.map(trigger).joined(separator: "\n"))

        """

    private static func trigger(on table: String) -> String {
        """
        CREATE TRIGGER \(table)_insert AFTER INSERT ON \(table) FOR EACH STATEMENT EXECUTE FUNCTION tell_of_insert('\(gate(of: table))');
        """
    }
}

extension Schema {
    static let backendRole = "siwatch_backend"
    static let readerRole = "siwatch_reader"
    /// One for each queue, for a backend that does nothing else.
    private static let (notificationRole, grantRole, revocationRole) = ("siwatch_notifications", "siwatch_grants", "siwatch_revocations")

    static let roles = [backendRole, readerRole, notificationRole, grantRole, revocationRole]

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
