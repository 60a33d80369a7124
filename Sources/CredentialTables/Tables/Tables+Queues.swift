// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Tables {
    /// The tables that backends write. When a constraint fails, the backend reads its name.
    ///
    /// PostgreSQL's text holds no NUL. An index takes no more than 2,704 bytes. The other limits refuse values far longer than any of
    /// Apple's, because siwatch would read them whole only to reject them.
    var queues: String {
        """
        CREATE TABLE notification_queue (
          id          \(lastingID)
                              CONSTRAINT "id is not to be given" CHECK (id > 0),
          payload     \(payload)    NOT NULL
                              CONSTRAINT "payload is 1 to 65536 bytes" CHECK (\(dialect.payloadSize("payload").text) BETWEEN 1 AND 65536),
          received_at \(integer) NOT NULL DEFAULT \(now)
                              CONSTRAINT "received_at is milliseconds since 1970" CHECK (received_at \(Self.legal)),
          due_at      \(integer) NOT NULL DEFAULT 0,
          attempts    INTEGER NOT NULL DEFAULT 0,
          claimed_by  TEXT
        )\(queue);
        -- In a file, a row that has just come stands in the table alone.
        CREATE INDEX notification_queue_due ON notification_queue (due_at\(thenID)) WHERE \(indexedNotifications);
        \(refusingIDs(of: "notification_queue"))

        -- waits_since: since when a grant waits for its client to be configured, or for its time; of a code, when it was first claimed.
        -- is_ahead: whether a grant that was put off waits for its time.
        -- failures, answer_lost: how often a code was sent and the road failed, and whether Apple may have taken it then.
        -- detail: Apple's last word about a code that waits, or why it gave none.
        -- import_id: the import that tells the row.
        CREATE TABLE grant_queue (
          id                 \(lastingID)
                                     CONSTRAINT "id is not to be given" CHECK (id > 0),
          client_id          \(name)    NOT NULL
                                     CONSTRAINT "client_id is not empty and has no NUL"
                                     CHECK (\(isFull("client_id")))\(atMost(2048, "client_id")),
          user_id            \(name)    CONSTRAINT "user_id is not empty and has no NUL"
                                     CHECK (\(isFull("user_id")))\(atMost(2048, "user_id")),
          refresh_token      TEXT    CONSTRAINT "refresh_token is NULL or not empty, and has no NUL"
                                     CHECK (\(isFull("refresh_token")))\(atMost(65536, "refresh_token")),
          token_sealed       \(bytes)    CONSTRAINT "token_sealed is 62 to 8253 bytes" CHECK (\(length)(token_sealed) BETWEEN 62 AND 8253),
          authorization_code TEXT    CONSTRAINT "authorization_code is NULL or not empty, and has no NUL"
                                     CHECK (\(isFull("authorization_code")))\(atMost(65536, "authorization_code")),
          redirect_uri       TEXT    \(text("redirect_uri")),
          nonce              TEXT    \(text("nonce")),
          email              TEXT    \(text("email")),
          email_is_private   INTEGER CONSTRAINT "email_is_private is 0, 1 or NULL" CHECK (email_is_private IN (0, 1)),
          granted_at         \(integer) NOT NULL DEFAULT \(now)
                                     CONSTRAINT "granted_at is milliseconds since 1970" CHECK (granted_at \(Self.legal)),
          due_at             \(integer) NOT NULL DEFAULT 0,
          attempts           INTEGER NOT NULL DEFAULT 0,
          claimed_by         TEXT,
          waits_since        \(integer),
          is_ahead           INTEGER NOT NULL DEFAULT 0,
          failures           INTEGER NOT NULL DEFAULT 0,
          answer_lost        INTEGER NOT NULL DEFAULT 0,
          detail             TEXT,
          import_id          \(integer),
          CONSTRAINT "a refresh_token, a token_sealed or an authorization_code"
            CHECK (\(atMostOneSecret)),
          CONSTRAINT "user_id is missing" CHECK (user_id IS NOT NULL OR authorization_code IS NOT NULL)
        )\(queue);
        -- Codes are another lane: they must not stand in the way of this one.
        CREATE INDEX grant_queue_due ON grant_queue (due_at\(thenID)) WHERE authorization_code IS NULL;
        CREATE INDEX grant_queue_code ON grant_queue (granted_at\(thenID)) WHERE authorization_code IS NOT NULL;
        -- What one client may not ask now hides no other's.
        CREATE INDEX grant_queue_code_client ON grant_queue (client_id, due_at, granted_at\(thenID)) WHERE authorization_code IS NOT NULL;
        -- An event looks here for a newer sign-in of its user.
        CREATE INDEX grant_queue_user ON grant_queue (user_id, granted_at);
        CREATE INDEX grant_queue_import ON grant_queue (import_id, id) WHERE import_id IS NOT NULL;
        \(refusingIDs(of: "grant_queue"))

        -- held_at, confirmed_at: since when a request waits for an operator, and when one has confirmed it.
        -- effective_at: from when it counts.
        CREATE TABLE revocation_queue (
          id           \(lastingID)
                               CONSTRAINT "id is not to be given" CHECK (id > 0),
          client_id    \(name)    NOT NULL
                               CONSTRAINT "client_id is not empty and has no NUL"
                               CHECK (\(isFull("client_id")))\(atMost(2048, "client_id")),
          user_id      \(name)    NOT NULL
                               CONSTRAINT "user_id is not empty and has no NUL"
                               CHECK (\(isFull("user_id")))\(atMost(2048, "user_id")),
          requested_at \(integer) NOT NULL DEFAULT \(now)
                               CONSTRAINT "requested_at is milliseconds since 1970" CHECK (requested_at \(Self.legal)),
          due_at       \(integer) NOT NULL DEFAULT 0,
          attempts     INTEGER NOT NULL DEFAULT 0,
          claimed_by   TEXT,
          opened_at    \(integer),
          held_at      \(integer),
          confirmed_at \(integer),
          confirmed_proof \(bytes),
          effective_at \(integer)
        )\(queue);
        -- One that is opened waits for its tokens, in revocation.
        CREATE INDEX revocation_queue_due ON revocation_queue (due_at\(thenID)) WHERE \(Self.unopened);
        CREATE INDEX revocation_queue_held ON revocation_queue (client_id, id) WHERE held_at IS NOT NULL;
        -- A code that is exchanged late belongs to the request that came before.
        CREATE INDEX revocation_queue_user ON revocation_queue (user_id) WHERE opened_at IS NULL;
        \(refusingIDs(of: "revocation_queue"))

        """
    }

    /// Which notifications are not new any more, on SQLite.
    package static let setAside = "due_at <> 0"

    /// True for every notification, and the condition of the server's index by due time. A search by id leaves it out, so that the server
    /// cannot use that index. If the server believes the queue empty, both indexes cost the same. In that one the id comes second, so the
    /// server would read all of it, row by row.
    package static let anyNotification = "received_at > 0"

    /// Which rows were put off. A new row has no due time.
    package static let postponed = "due_at > 0 AND claimed_by IS NULL"

    /// Which sign-ins waited for a client that is known now. A process that died had claimed a sign-in with an attempt: it goes first.
    package static let released = "\(postponed) AND attempts = 0 AND is_ahead = 0 AND client_id IN (SELECT client_id FROM client)"

    /// The two lanes of sign-ins.
    package static let withoutCode = "authorization_code IS NULL"
    package static let withCode = "authorization_code IS NOT NULL"

    private var indexedNotifications: String { words(sqlite: Self.setAside, postgres: Self.anyNotification) }

    /// Which requests to revoke have no tokens at work and do not wait for an operator.
    package static let unopened = "opened_at IS NULL AND held_at IS NULL"

    /// The times that a backend may tell.
    private static let legal = "BETWEEN 1546300800000 AND 4102444800000"

    package var now: String {
        words(
            sqlite: "(CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER))",
            postgres: "(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
        )
    }

    /// The end of a queue. Its rows come and go, so autovacuum removes dead rows soon and without pauses.
    private var queue: String {
        words(
            sqlite: rows,
            postgres: " WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0)"
        )
    }

    /// An index of SQLite ends with the id by itself.
    private var thenID: String { words(sqlite: "", postgres: ", id") }

    private var length: String { words(sqlite: "length", postgres: "octet_length") }

    private var atMostOneSecret: String {
        words(
            sqlite: "(refresh_token IS NOT NULL) + (token_sealed IS NOT NULL) + (authorization_code IS NOT NULL) <= 1",
            postgres: "num_nonnulls(refresh_token, token_sealed, authorization_code) <= 1"
        )
    }

    private func isFull(_ column: String) -> String {
        words(sqlite: "\(column) <> '' AND instr(\(column), char(0)) = 0", postgres: "\(column) <> ''")
    }

    private func atMost(_ size: Int, _ column: String) -> String {
        words(sqlite: "", postgres: " CONSTRAINT \"\(column) is at most \(size) bytes\" CHECK (octet_length(\(column)) <= \(size))")
    }

    private func text(_ column: String) -> String {
        words(sqlite: "CONSTRAINT \"\(column) has no NUL\" CHECK (instr(\(column), char(0)) = 0)", postgres: atMost(65536, column))
    }

    /// Refuses rows that bring an id, as a server does by itself. siwatch counts the rows by their ids, and the greatest id that SQLite
    /// knows would be the last. If a row brings no id, `NEW.id` is -1, and SQLite documents it as undefined: NULL would pass too.
    private func refusingIDs(of table: String) -> String {
        words(
            sqlite: """
                CREATE TRIGGER \(table)_id BEFORE INSERT ON \(table) WHEN NEW.id > 0
                  BEGIN SELECT RAISE(ABORT, 'id is not to be given'); END;
                """,
            postgres: ""
        )
    }
}
