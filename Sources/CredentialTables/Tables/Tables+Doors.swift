// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Tables {
    /// What the HTTP door, deliveries and imports note.
    var doors: String {
        """
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

        -- told: how many sign-ins, but for those that an undo has taken back or given up. Their first and their last batch.
        CREATE TABLE import (
          id        \(id),
          name      \(name)    NOT NULL UNIQUE,
          told      \(integer) NOT NULL,
          told_from \(integer) NOT NULL,
          told_to   \(integer) NOT NULL
        )\(rows);

        """
    }
}
