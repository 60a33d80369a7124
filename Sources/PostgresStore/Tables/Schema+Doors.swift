// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Schema {
    /// Step 2. Frozen.
    static let doors = """
        -- signed_in_at, real_user_status: of a code, what the id_token says. Otherwise NULL.
        ALTER TABLE grant_log ADD COLUMN signed_in_at BIGINT;
        ALTER TABLE grant_log ADD COLUMN real_user_status BIGINT;

        CREATE OR REPLACE VIEW grant_outcome AS
          SELECT id, client_id, user_id, granted_at, 'waiting' AS outcome, NULL AS reason, NULL::bigint AS settled_at,
                 NULL::bigint AS signed_in_at, NULL::bigint AS real_user_status
            FROM grant_queue
           UNION ALL
          SELECT grant_id, client_id, user_id, granted_at, outcome, reason, settled_at, COALESCE(signed_in_at, granted_at), real_user_status
            FROM grant_log;

        -- The keys that make a request over HTTP safe to repeat.
        -- client: the name of an [[http.client]]. digest: SHA-256 of what was told. row_id: of the row in its queue.
        CREATE TABLE request_key (
          client  TEXT    COLLATE "C" NOT NULL,
          key     TEXT    COLLATE "C" NOT NULL,
          digest  BYTEA    NOT NULL,
          row_id  BIGINT NOT NULL,
          told_at BIGINT NOT NULL,
          PRIMARY KEY (client, key)
        );
        CREATE INDEX request_key_told ON request_key (told_at);

        -- How far the changes were delivered to an [[delivery]] of the configuration: all up to the cursor, but for those that failed.
        -- stopped_at: since when its receiver is gone, and nothing is sent.
        CREATE TABLE delivery (
          name       TEXT    COLLATE "C" NOT NULL PRIMARY KEY,
          cursor     BIGINT NOT NULL,
          stopped_at BIGINT
        );

        -- due_at: NULL if the change is tried no more.
        CREATE TABLE delivery_retry (
          delivery  TEXT    COLLATE "C" NOT NULL,
          change_id BIGINT NOT NULL,
          failures  BIGINT NOT NULL,
          due_at    BIGINT,
          failed_at BIGINT NOT NULL,
          reason    TEXT    NOT NULL,
          PRIMARY KEY (delivery, change_id)
        );
        CREATE INDEX delivery_retry_due ON delivery_retry (delivery, due_at);
        """
}
