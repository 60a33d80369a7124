// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// The tables and views. Backends write and read some of them: these are the program's public interface, and docs/schema.md explains them.
///
/// Step 1 is frozen, and it uses constants that queries use. If a query needs another value, step 1 keeps the old one.
enum Schema {
    /// "SIWA": tells siwatch's files from every other SQLite database.
    static let applicationID: Int32 = 0x5349_5741

    static let steps = [
        SchemaStep(
            version: 1,
            compatibleFrom: 1,
            summary: "all tables and views",
            sql: queues + logs + registers + bookkeeping + views
        ),
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
            sql: "ALTER TABLE revocation_queue ADD COLUMN effective_at INTEGER;"
        ),
        .fourth("INTEGER"),
    ]

    /// SQL: whether a column holds one of some words. Does not use IN, because SQLite builds a table of more than two words with every row
    /// that it checks.
    static func isOne(_ column: String, of words: String...) -> String {
        words.map { "\(column) = '\($0)'" }.joined(separator: " OR ")
    }

    private static let now = "(CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER))"
    private static let legal = "BETWEEN 1546300800000 AND 4102444800000"

    /// The tables that backends write. When a constraint fails, the backend reads its name.
    private static let queues = """
        CREATE TABLE notification_queue (
          id          INTEGER PRIMARY KEY AUTOINCREMENT
                              CONSTRAINT "id is not to be given" CHECK (id > 0),
          payload     TEXT    NOT NULL
                              CONSTRAINT "payload is 1 to 65536 bytes" CHECK (length(CAST(payload AS BLOB)) BETWEEN 1 AND 65536),
          received_at INTEGER NOT NULL DEFAULT \(now)
                              CONSTRAINT "received_at is milliseconds since 1970" CHECK (received_at \(legal)),
          due_at      INTEGER NOT NULL DEFAULT 0,
          attempts    INTEGER NOT NULL DEFAULT 0,
          claimed_by  TEXT
        ) STRICT;
        -- A row that has just come stands in the table alone.
        CREATE INDEX notification_queue_due ON notification_queue (due_at) WHERE \(setAside);
        \(refusingIDs(of: "notification_queue"))

        -- waits_since: since when a grant waits for its client to be configured, or for its time; of a code, when it was first claimed.
        -- is_ahead: whether a grant that was put off waits for its time.
        -- failures, answer_lost: how often a code was sent and the road failed, and whether Apple may have taken it then.
        -- detail: Apple's last word about a code that waits, or why it gave none.
        CREATE TABLE grant_queue (
          id                 INTEGER PRIMARY KEY AUTOINCREMENT
                                     CONSTRAINT "id is not to be given" CHECK (id > 0),
          client_id          TEXT    NOT NULL
                                     CONSTRAINT "client_id is not empty and has no NUL"
                                     CHECK (client_id <> '' AND instr(client_id, char(0)) = 0),
          user_id            TEXT    CONSTRAINT "user_id is not empty and has no NUL"
                                     CHECK (user_id <> '' AND instr(user_id, char(0)) = 0),
          refresh_token      TEXT    CONSTRAINT "refresh_token is NULL or not empty, and has no NUL"
                                     CHECK (refresh_token <> '' AND instr(refresh_token, char(0)) = 0),
          token_sealed       BLOB    CONSTRAINT "token_sealed is 54 to 8245 bytes" CHECK (length(token_sealed) BETWEEN 54 AND 8245),
          authorization_code TEXT    CONSTRAINT "authorization_code is NULL or not empty, and has no NUL"
                                     CHECK (authorization_code <> '' AND instr(authorization_code, char(0)) = 0),
          redirect_uri       TEXT    CONSTRAINT "redirect_uri has no NUL" CHECK (instr(redirect_uri, char(0)) = 0),
          nonce              TEXT    CONSTRAINT "nonce has no NUL" CHECK (instr(nonce, char(0)) = 0),
          email              TEXT    CONSTRAINT "email has no NUL" CHECK (instr(email, char(0)) = 0),
          email_is_private   INTEGER CONSTRAINT "email_is_private is 0, 1 or NULL" CHECK (email_is_private IN (0, 1)),
          granted_at         INTEGER NOT NULL DEFAULT \(now)
                                     CONSTRAINT "granted_at is milliseconds since 1970" CHECK (granted_at \(legal)),
          due_at             INTEGER NOT NULL DEFAULT 0,
          attempts           INTEGER NOT NULL DEFAULT 0,
          claimed_by         TEXT,
          waits_since        INTEGER,
          is_ahead           INTEGER NOT NULL DEFAULT 0,
          failures           INTEGER NOT NULL DEFAULT 0,
          answer_lost        INTEGER NOT NULL DEFAULT 0,
          detail             TEXT,
          CONSTRAINT "a refresh_token, a token_sealed or an authorization_code"
            CHECK ((refresh_token IS NOT NULL) + (token_sealed IS NOT NULL) + (authorization_code IS NOT NULL) <= 1),
          CONSTRAINT "user_id is missing" CHECK (user_id IS NOT NULL OR authorization_code IS NOT NULL)
        ) STRICT;
        -- Codes are another lane: they must not stand in the way of this one.
        CREATE INDEX grant_queue_due ON grant_queue (due_at) WHERE authorization_code IS NULL;
        CREATE INDEX grant_queue_code ON grant_queue (granted_at) WHERE authorization_code IS NOT NULL;
        -- What one client may not ask now hides no other's.
        CREATE INDEX grant_queue_code_client ON grant_queue (client_id, due_at, granted_at) WHERE authorization_code IS NOT NULL;
        -- An event looks here for a newer sign-in of its user.
        CREATE INDEX grant_queue_user ON grant_queue (user_id, granted_at);
        \(refusingIDs(of: "grant_queue"))

        -- held_at, confirmed_at: since when a request waits for an operator, and when one has confirmed it.
        CREATE TABLE revocation_queue (
          id           INTEGER PRIMARY KEY AUTOINCREMENT
                               CONSTRAINT "id is not to be given" CHECK (id > 0),
          client_id    TEXT    NOT NULL
                               CONSTRAINT "client_id is not empty and has no NUL"
                               CHECK (client_id <> '' AND instr(client_id, char(0)) = 0),
          user_id      TEXT    NOT NULL
                               CONSTRAINT "user_id is not empty and has no NUL"
                               CHECK (user_id <> '' AND instr(user_id, char(0)) = 0),
          requested_at INTEGER NOT NULL DEFAULT \(now)
                               CONSTRAINT "requested_at is milliseconds since 1970" CHECK (requested_at \(legal)),
          due_at       INTEGER NOT NULL DEFAULT 0,
          attempts     INTEGER NOT NULL DEFAULT 0,
          claimed_by   TEXT,
          opened_at    INTEGER,
          held_at      INTEGER,
          confirmed_at INTEGER
        ) STRICT;
        -- One that is opened waits for its tokens, in revocation.
        CREATE INDEX revocation_queue_due ON revocation_queue (due_at) WHERE \(unopened);
        CREATE INDEX revocation_queue_held ON revocation_queue (client_id, id) WHERE held_at IS NOT NULL;
        -- A code that is exchanged late belongs to the request that came before
        CREATE INDEX revocation_queue_user ON revocation_queue (user_id) WHERE opened_at IS NULL;
        \(refusingIDs(of: "revocation_queue"))

        """

    /// SQL: which notifications are not new any more.
    static let setAside = "due_at <> 0"

    /// Refuses rows that bring an id. siwatch counts the rows by their ids, and the greatest id that SQLite knows would be the last.
    ///
    /// If a row brings no id, SQLite documents `NEW.id` as undefined. It is -1, and NULL would pass too.
    private static func refusingIDs(of table: String) -> String {
        """
        CREATE TRIGGER \(table)_id BEFORE INSERT ON \(table) WHEN NEW.id > 0
          BEGIN SELECT RAISE(ABORT, 'id is not to be given'); END;
        """
    }

    /// The logs. Every row that leaves a queue goes to its log.
    private static let logs = """
        CREATE TABLE notification_log (
          id          INTEGER PRIMARY KEY,
          app         TEXT    NOT NULL,
          jti         TEXT    NOT NULL,
          client_id   TEXT    NOT NULL,
          user_id     TEXT    NOT NULL,
          type        TEXT    NOT NULL,
          event_time  INTEGER NOT NULL,
          payload     TEXT,
          received_at INTEGER NOT NULL,
          settled_at  INTEGER NOT NULL,
          outcome     TEXT    NOT NULL CHECK (\(isOne("outcome", of: "applied", "stale", "duplicate", "unknown_type"))),
          CHECK (payload IS NOT NULL OR outcome = 'duplicate')
        ) STRICT;
        -- Time first: what arrives together then stands together, so that a batch touches few pages.
        CREATE UNIQUE INDEX notification_log_event ON notification_log (event_time, user_id, app, type)
          WHERE outcome <> 'duplicate';

        CREATE TABLE notification_quarantine (
          id          INTEGER PRIMARY KEY AUTOINCREMENT,
          payload     TEXT    NOT NULL,
          received_at INTEGER NOT NULL,
          rejected_at INTEGER NOT NULL,
          reason      TEXT    NOT NULL,
          detail      TEXT    NOT NULL
        ) STRICT;
        -- The ring of rubbish that anybody could have sent, oldest first.
        CREATE INDEX notification_quarantine_unsigned ON notification_quarantine (id) WHERE \(members(of: .forged));
        -- The ring of those whose key may still come, oldest first, and by their key.
        CREATE INDEX notification_quarantine_waiting ON notification_quarantine (id) WHERE \(members(of: .unknownKey));
        CREATE INDEX notification_quarantine_key ON notification_quarantine (detail) WHERE reason = 'unknown_key';

        CREATE TABLE grant_log (
          id         INTEGER PRIMARY KEY,
          grant_id   INTEGER NOT NULL,
          client_id  TEXT    NOT NULL,
          user_id    TEXT,
          granted_at INTEGER NOT NULL,
          settled_at INTEGER NOT NULL,
          outcome    TEXT    NOT NULL CHECK (\(isOne("outcome", of: "applied", "stale", "duplicate", "retold", "in_future", "rejected"))),
          reason     TEXT,
          detail     TEXT,
          CHECK ((outcome = 'rejected') = (reason IS NOT NULL))
        ) STRICT;
        -- A backend asks by the id that its row had in the queue.
        CREATE INDEX grant_log_grant ON grant_log (grant_id);

        -- The receipt: what Apple was asked, when by our clock and by its own, and what it answered.
        CREATE TABLE revocation_log (
          id               INTEGER PRIMARY KEY,
          request          INTEGER NOT NULL,
          app              TEXT,
          client_id        TEXT    NOT NULL,
          user_id          TEXT    NOT NULL,
          requested_at     INTEGER NOT NULL,
          token_granted_at INTEGER,
          key_id           TEXT,
          before_at        INTEGER,
          before_date      INTEGER,
          before_answer    TEXT CHECK (before_answer IN ('accepted', 'invalid_grant')),
          revoke_at        INTEGER,
          revoke_date      INTEGER,
          revoke_answer    TEXT CHECK (revoke_answer IN ('revoked', 'unheard')),
          after_at         INTEGER,
          after_date       INTEGER,
          after_answer     TEXT CHECK (after_answer IN ('accepted', 'invalid_grant')),
          settled_at       INTEGER NOT NULL,
          outcome          TEXT    NOT NULL
                                   CHECK (\(isOne("outcome", of: "proved", "already_invalid", "superseded", "no_token", "no_valid_token", "rejected"))),
          reason           TEXT,
          CHECK ((outcome = 'rejected') = (reason IS NOT NULL))
        ) STRICT;
        CREATE INDEX revocation_log_user ON revocation_log (user_id);
        CREATE INDEX revocation_log_request ON revocation_log (request);

        CREATE TABLE credential_change (
          id               INTEGER PRIMARY KEY AUTOINCREMENT,
          app              TEXT    NOT NULL,
          client_id        TEXT    NOT NULL,
          user_id          TEXT    NOT NULL,
          kind             TEXT    NOT NULL CHECK (kind IN ('state', 'email')),
          from_state       TEXT,
          to_state         TEXT,
          reason           TEXT,
          email            TEXT,
          email_forwarding TEXT,
          source           TEXT    NOT NULL CHECK (\(isOne("source", of: "notification", "refresh", "grant", "revocation"))),
          notification_jti TEXT,
          occurred_at      INTEGER NOT NULL,
          recorded_at      INTEGER NOT NULL,
          CHECK ((kind = 'state') = (to_state IS NOT NULL AND reason IS NOT NULL))
        ) STRICT;

        """

    /// SQL: which requests to revoke have no tokens at work and do not wait for an operator.
    static let unopened = "opened_at IS NULL AND held_at IS NULL"

    /// SQL: which operators' requests still have work left.
    static let open = "answer IS NULL OR position IS NOT NULL"

    /// SQL: which rows of the quarantine are in a ring.
    static func members(of ring: UnsignedRing) -> String {
        switch ring {
        case .forged: "(\(isOne("reason", of: "malformed", "not_an_event", "wrong_algorithm", "forbidden_header", "bad_signature")))"
        case .unknownKey: "reason = 'unknown_key'"
        }
    }
}
