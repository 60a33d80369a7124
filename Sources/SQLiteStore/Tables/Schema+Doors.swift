// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Schema {
    /// Step 2. Frozen.
    static let doors = """
        -- signed_in_at, real_user_status: of a code, what the id_token says. Otherwise NULL.
        ALTER TABLE grant_log ADD COLUMN signed_in_at INTEGER;
        ALTER TABLE grant_log ADD COLUMN real_user_status INTEGER;

        DROP VIEW grant_outcome;
        CREATE VIEW grant_outcome AS
          SELECT id, client_id, user_id, granted_at, 'waiting' AS outcome, NULL AS reason, NULL AS settled_at,
                 NULL AS signed_in_at, NULL AS real_user_status
            FROM grant_queue
           UNION ALL
          SELECT grant_id, client_id, user_id, granted_at, outcome, reason, settled_at, COALESCE(signed_in_at, granted_at), real_user_status
            FROM grant_log;

        -- The keys that make a request over HTTP safe to repeat.
        -- client: the name of an [[http.client]]. digest: SHA-256 of what was told. row_id: of the row in its queue.
        CREATE TABLE request_key (
          client  TEXT    NOT NULL,
          key     TEXT    NOT NULL,
          digest  BLOB    NOT NULL,
          row_id  INTEGER NOT NULL,
          told_at INTEGER NOT NULL,
          PRIMARY KEY (client, key)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX request_key_told ON request_key (told_at);

        -- How far the changes were delivered to an [[delivery]] of the configuration: all up to the cursor, but for those that failed.
        -- stopped_at: since when its receiver is gone, and nothing is sent.
        CREATE TABLE delivery (
          name       TEXT    NOT NULL PRIMARY KEY,
          cursor     INTEGER NOT NULL,
          stopped_at INTEGER
        ) STRICT, WITHOUT ROWID;

        -- due_at: NULL if the change is tried no more.
        CREATE TABLE delivery_retry (
          delivery  TEXT    NOT NULL,
          change_id INTEGER NOT NULL,
          failures  INTEGER NOT NULL,
          due_at    INTEGER,
          failed_at INTEGER NOT NULL,
          reason    TEXT    NOT NULL,
          PRIMARY KEY (delivery, change_id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX delivery_retry_due ON delivery_retry (delivery, due_at);
        """
}
