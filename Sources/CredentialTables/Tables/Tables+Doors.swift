// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Tables {
    /// Step 2. Frozen.
    var doors: String {
        """
        -- signed_in_at, real_user_status: of a code, what the id_token says. Otherwise NULL.
        ALTER TABLE grant_log ADD COLUMN signed_in_at \(integer);
        ALTER TABLE grant_log ADD COLUMN real_user_status \(integer);

        \(words(sqlite: "DROP VIEW grant_outcome;\nCREATE", postgres: "CREATE OR REPLACE")) VIEW grant_outcome AS
          SELECT id, client_id, user_id, granted_at, 'waiting' AS outcome, NULL AS reason, \(noTime) AS settled_at,
                 \(noTime) AS signed_in_at, \(noTime) AS real_user_status
            FROM grant_queue
           UNION ALL
          SELECT grant_id, client_id, user_id, granted_at, outcome, reason, settled_at, COALESCE(signed_in_at, granted_at), real_user_status
            FROM grant_log;

        -- The keys that make a request over HTTP safe to repeat.
        -- client: the name of an [[http.client]]. digest: SHA-256 of what was told. row_id: of the row in its queue.
        CREATE TABLE request_key (
          client  \(name)    NOT NULL,
          key     \(name)    NOT NULL,
          digest  \(bytes)    NOT NULL,
          row_id  \(integer) NOT NULL,
          told_at \(integer) NOT NULL,
          PRIMARY KEY (client, key)
        )\(keyed);
        CREATE INDEX request_key_told ON request_key (told_at);

        -- How far the changes were delivered to an [[delivery]] of the configuration: all up to the cursor, but for those that failed.
        -- stopped_at: since when its receiver is gone, and nothing is sent.
        CREATE TABLE delivery (
          name       \(name)    NOT NULL PRIMARY KEY,
          cursor     \(integer) NOT NULL,
          stopped_at \(integer)
        )\(keyed);

        -- due_at: NULL if the change is tried no more.
        CREATE TABLE delivery_retry (
          delivery  \(name)    NOT NULL,
          change_id \(integer) NOT NULL,
          failures  \(integer) NOT NULL,
          due_at    \(integer),
          failed_at \(integer) NOT NULL,
          reason    TEXT    NOT NULL,
          PRIMARY KEY (delivery, change_id)
        )\(keyed);
        CREATE INDEX delivery_retry_due ON delivery_retry (delivery, due_at);
        """
    }
}
