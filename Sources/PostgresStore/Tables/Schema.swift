// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// The tables and views, the same as in SQLite. docs/schema.md explains those that backends write and read.
///
/// The server compares users and clients by their bytes, whatever its locale. So a library with a new sort order breaks no index. No table
/// references a table that all settlements write, because each reference would lock a row of it.
///
/// Step 1 is frozen, and it uses constants that queries use. If a query needs another value, step 1 keeps the old one.
enum Schema {
    static let steps = [
        SchemaStep(version: 1, compatibleFrom: 1, summary: "all tables and views", sql: v1),
        SchemaStep(
            version: 2,
            compatibleFrom: 1,
            summary: "what Apple said of a sign-in by code, the keys of requests over HTTP, and deliveries",
            sql: doors
        ),
        SchemaStep(
            version: 3,
            compatibleFrom: 1,
            summary: "from when a request to revoke counts",
            sql: "ALTER TABLE revocation_queue ADD COLUMN effective_at BIGINT;"
        ),
        .fourth("BIGINT"),
    ]

    static let v1 = queues + logs + registers + bookkeeping + fleet + views + triggers

    /// The names that the steps leave.
    static let tablesAndViews = steps.map(\.sql).joined().matches(of: /(CREATE|DROP) (?:TABLE|VIEW) (\w+)/).reduce(into: [String]()) {
        names,
        match in
        names.removeAll { $0 == match.2 }
        if match.1 == "CREATE" { names.append(String(match.2)) }
    }

    /// SQL: the server's clock.
    static let now = "(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
    private static let legal = "BETWEEN 1546300800000 AND 4102444800000"
    private static let id = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    /// Rows come and go, so autovacuum removes dead rows soon and without pauses.
    private static let isQueue = """
        WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0)
        """

    /// The tables that backends write. When a constraint fails, the backend reads its name. PostgreSQL's text holds no NUL. An index takes
    /// no more than 2,704 bytes. The other limits refuse values far longer than any of Apple's, because siwatch would read them whole only
    /// to reject them.
    private static let queues = """
        CREATE TABLE notification_queue (
          id          \(id)
                             CONSTRAINT "id is not to be given" CHECK (id > 0),
          payload     BYTEA  NOT NULL
                             CONSTRAINT "payload is 1 to 65536 bytes" CHECK (octet_length(payload) BETWEEN 1 AND 65536),
          received_at BIGINT NOT NULL DEFAULT \(now)
                             CONSTRAINT "received_at is milliseconds since 1970" CHECK (received_at \(legal)),
          due_at      BIGINT NOT NULL DEFAULT 0,
          attempts    INTEGER NOT NULL DEFAULT 0,
          claimed_by  TEXT
        ) \(isQueue);
        CREATE INDEX notification_queue_due ON notification_queue (due_at, id) WHERE \(anyNotification);

        -- waits_since: since when a grant waits for its client to be configured, or for its time; of a code, when it was first claimed.
        -- is_ahead: whether a grant that was put off waits for its time.
        -- failures, answer_lost: how often a code was sent and the road failed, and whether Apple may have taken it then.
        -- detail: Apple's last word about a code that waits, or why it gave none.
        CREATE TABLE grant_queue (
          id                 \(id)
                                     CONSTRAINT "id is not to be given" CHECK (id > 0),
          client_id          TEXT    COLLATE "C" NOT NULL
                                     CONSTRAINT "client_id is not empty and has no NUL" CHECK (client_id <> '')
                                     CONSTRAINT "client_id is at most 2048 bytes" CHECK (octet_length(client_id) <= 2048),
          user_id            TEXT    COLLATE "C"
                                     CONSTRAINT "user_id is not empty and has no NUL" CHECK (user_id <> '')
                                     CONSTRAINT "user_id is at most 2048 bytes" CHECK (octet_length(user_id) <= 2048),
          refresh_token      TEXT    CONSTRAINT "refresh_token is NULL or not empty, and has no NUL" CHECK (refresh_token <> '')
                                     CONSTRAINT "refresh_token is at most 65536 bytes" CHECK (octet_length(refresh_token) <= 65536),
          token_sealed       BYTEA   CONSTRAINT "token_sealed is 54 to 8245 bytes" CHECK (octet_length(token_sealed) BETWEEN 54 AND 8245),
          authorization_code TEXT    CONSTRAINT "authorization_code is NULL or not empty, and has no NUL" CHECK (authorization_code <> '')
                                     CONSTRAINT "authorization_code is at most 65536 bytes" CHECK (octet_length(authorization_code) <= 65536),
          redirect_uri       TEXT    CONSTRAINT "redirect_uri is at most 65536 bytes" CHECK (octet_length(redirect_uri) <= 65536),
          nonce              TEXT    CONSTRAINT "nonce is at most 65536 bytes" CHECK (octet_length(nonce) <= 65536),
          email              TEXT    CONSTRAINT "email is at most 65536 bytes" CHECK (octet_length(email) <= 65536),
          email_is_private   INTEGER CONSTRAINT "email_is_private is 0, 1 or NULL" CHECK (email_is_private IN (0, 1)),
          granted_at         BIGINT  NOT NULL DEFAULT \(now)
                                     CONSTRAINT "granted_at is milliseconds since 1970" CHECK (granted_at \(legal)),
          due_at             BIGINT  NOT NULL DEFAULT 0,
          attempts           INTEGER NOT NULL DEFAULT 0,
          claimed_by         TEXT,
          waits_since        BIGINT,
          is_ahead           INTEGER NOT NULL DEFAULT 0,
          failures           INTEGER NOT NULL DEFAULT 0,
          answer_lost        INTEGER NOT NULL DEFAULT 0,
          detail             TEXT,
          CONSTRAINT "a refresh_token, a token_sealed or an authorization_code"
            CHECK (num_nonnulls(refresh_token, token_sealed, authorization_code) <= 1),
          CONSTRAINT "user_id is missing" CHECK (user_id IS NOT NULL OR authorization_code IS NOT NULL)
        ) \(isQueue);
        -- Codes are another lane: they must not stand in the way of this one.
        CREATE INDEX grant_queue_due ON grant_queue (due_at, id) WHERE authorization_code IS NULL;
        CREATE INDEX grant_queue_code ON grant_queue (granted_at, id) WHERE authorization_code IS NOT NULL;
        -- What one client may not ask now hides no other's.
        CREATE INDEX grant_queue_code_client ON grant_queue (client_id, due_at, granted_at, id) WHERE authorization_code IS NOT NULL;
        -- An event looks here for a newer sign-in of its user.
        CREATE INDEX grant_queue_user ON grant_queue (user_id, granted_at);

        -- held_at, confirmed_at: since when a request waits for an operator, and when one has confirmed it.
        CREATE TABLE revocation_queue (
          id           \(id)
                               CONSTRAINT "id is not to be given" CHECK (id > 0),
          client_id    TEXT    COLLATE "C" NOT NULL
                               CONSTRAINT "client_id is not empty and has no NUL" CHECK (client_id <> '')
                               CONSTRAINT "client_id is at most 2048 bytes" CHECK (octet_length(client_id) <= 2048),
          user_id      TEXT    COLLATE "C" NOT NULL
                               CONSTRAINT "user_id is not empty and has no NUL" CHECK (user_id <> '')
                               CONSTRAINT "user_id is at most 2048 bytes" CHECK (octet_length(user_id) <= 2048),
          requested_at BIGINT  NOT NULL DEFAULT \(now)
                               CONSTRAINT "requested_at is milliseconds since 1970" CHECK (requested_at \(legal)),
          due_at       BIGINT  NOT NULL DEFAULT 0,
          attempts     INTEGER NOT NULL DEFAULT 0,
          claimed_by   TEXT,
          opened_at    BIGINT,
          held_at      BIGINT,
          confirmed_at BIGINT
        ) \(isQueue);
        -- One that is opened waits for its tokens, in revocation.
        CREATE INDEX revocation_queue_due ON revocation_queue (due_at, id) WHERE \(unopened);
        CREATE INDEX revocation_queue_held ON revocation_queue (client_id, id) WHERE held_at IS NOT NULL;
        -- A code that is exchanged late belongs to the request that came before.
        CREATE INDEX revocation_queue_user ON revocation_queue (user_id) WHERE opened_at IS NULL;

        """

    /// SQL: true for every notification, and the condition of the index by due time. A search by id leaves it out, so that the server
    /// cannot use that index. If the server believes the queue empty, both indexes cost the same. In that one the id comes second, so the
    /// server would read all of it, row by row.
    static let anyNotification = "received_at > 0"

    /// SQL: which requests to revoke have no tokens at work and do not wait for an operator.
    static let unopened = "opened_at IS NULL AND held_at IS NULL"

    /// SQL: which operators' requests still have work left.
    static let open = "(answer IS NULL OR position IS NOT NULL)"

    /// SQL: which rows of the quarantine are in a ring.
    static func members(of ring: UnsignedRing) -> String {
        switch ring {
        case .forged: "reason IN ('malformed', 'not_an_event', 'wrong_algorithm', 'forbidden_header', 'bad_signature')"
        case .unknownKey: "reason = 'unknown_key'"
        }
    }

    /// The logs. Every row that leaves a queue goes to its log.
    private static let logs = """
        CREATE TABLE notification_log (
          id          \(id),
          app         TEXT   COLLATE "C" NOT NULL,
          jti         TEXT   NOT NULL,
          client_id   TEXT   COLLATE "C" NOT NULL,
          user_id     TEXT   COLLATE "C" NOT NULL,
          type        TEXT   COLLATE "C" NOT NULL,
          event_time  BIGINT NOT NULL,
          payload     BYTEA,
          received_at BIGINT NOT NULL,
          settled_at  BIGINT NOT NULL,
          outcome     TEXT   NOT NULL CHECK (outcome IN ('applied', 'stale', 'duplicate', 'unknown_type')),
          CHECK (payload IS NOT NULL OR outcome = 'duplicate')
        );
        -- Time first: what arrives together then stands together, so that a batch touches few pages.
        CREATE UNIQUE INDEX notification_log_event ON notification_log (event_time, user_id, app, type) WHERE outcome <> 'duplicate';

        CREATE TABLE notification_quarantine (
          id          \(id),
          payload     BYTEA  NOT NULL,
          received_at BIGINT NOT NULL,
          rejected_at BIGINT NOT NULL,
          reason      TEXT   NOT NULL,
          detail      TEXT   NOT NULL
        );
        -- The ring of rubbish that anybody could have sent, oldest first.
        CREATE INDEX notification_quarantine_unsigned ON notification_quarantine (id) WHERE \(members(of: .forged));
        -- The ring of those whose key may still come, oldest first, and by their key.
        CREATE INDEX notification_quarantine_waiting ON notification_quarantine (id) WHERE \(members(of: .unknownKey));
        CREATE INDEX notification_quarantine_key ON notification_quarantine (detail) WHERE reason = 'unknown_key';

        CREATE TABLE grant_log (
          id         \(id),
          grant_id   BIGINT NOT NULL,
          client_id  TEXT   COLLATE "C" NOT NULL,
          user_id    TEXT   COLLATE "C",
          granted_at BIGINT NOT NULL,
          settled_at BIGINT NOT NULL,
          outcome    TEXT   NOT NULL CHECK (outcome IN ('applied', 'stale', 'duplicate', 'retold', 'in_future', 'rejected')),
          reason     TEXT,
          detail     TEXT,
          CHECK ((outcome = 'rejected') = (reason IS NOT NULL))
        );
        -- A backend asks by the id that its row had in the queue.
        CREATE INDEX grant_log_grant ON grant_log (grant_id);

        -- The receipt: what Apple was asked, when by our clock and by its own, and what it answered.
        CREATE TABLE revocation_log (
          id               \(id),
          request          BIGINT NOT NULL,
          app              TEXT   COLLATE "C",
          client_id        TEXT   COLLATE "C" NOT NULL,
          user_id          TEXT   COLLATE "C" NOT NULL,
          requested_at     BIGINT NOT NULL,
          token_granted_at BIGINT,
          key_id           TEXT,
          before_at        BIGINT,
          before_date      BIGINT,
          before_answer    TEXT CHECK (before_answer IN ('accepted', 'invalid_grant')),
          revoke_at        BIGINT,
          revoke_date      BIGINT,
          revoke_answer    TEXT CHECK (revoke_answer IN ('revoked', 'unheard')),
          after_at         BIGINT,
          after_date       BIGINT,
          after_answer     TEXT CHECK (after_answer IN ('accepted', 'invalid_grant')),
          settled_at       BIGINT NOT NULL,
          outcome          TEXT   NOT NULL CHECK (outcome IN ('proved', 'already_invalid', 'superseded', 'no_token', 'no_valid_token',
                                                             'rejected')),
          reason           TEXT,
          CHECK ((outcome = 'rejected') = (reason IS NOT NULL))
        );
        CREATE INDEX revocation_log_user ON revocation_log (user_id);
        CREATE INDEX revocation_log_request ON revocation_log (request);

        CREATE TABLE credential_change (
          id               \(id),
          app              TEXT   COLLATE "C" NOT NULL,
          client_id        TEXT   COLLATE "C" NOT NULL,
          user_id          TEXT   COLLATE "C" NOT NULL,
          kind             TEXT   NOT NULL CHECK (kind IN ('state', 'email')),
          from_state       TEXT,
          to_state         TEXT,
          reason           TEXT,
          email            TEXT,
          email_forwarding TEXT,
          source           TEXT   NOT NULL CHECK (source IN ('notification', 'refresh', 'grant', 'revocation')),
          notification_jti TEXT,
          occurred_at      BIGINT NOT NULL,
          recorded_at      BIGINT NOT NULL,
          CHECK ((kind = 'state') = (to_state IS NOT NULL AND reason IS NOT NULL))
        );

        """
}
