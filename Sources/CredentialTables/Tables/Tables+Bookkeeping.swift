// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Tables {
    /// Apple's keys, what is counted and what is under way.
    var bookkeeping: String {
        """
        -- The tokens that requests are to revoke, and how far the proof of each has come.
        CREATE TABLE revocation (
          request           \(integer) NOT NULL REFERENCES revocation_queue (id),
          client            \(integer) NOT NULL\(references("client")),
          app               \(integer) NOT NULL\(references("app")),
          user_id           \(name)    NOT NULL,
          requested_at      \(integer) NOT NULL,
          token_granted_at  \(integer) NOT NULL,
          token_fingerprint \(bytes)    NOT NULL,
          sealed_token      \(bytes)    NOT NULL,
          -- What is known of the token.
          standing          TEXT    NOT NULL CHECK (\(isWord("standing", of: "accepted", "accepted_before", "never_accepted"))),
          verified_team     TEXT,
          key_id            TEXT,
          before_at         \(integer),
          before_date       \(integer),
          before_answer     TEXT,
          revoke_at         \(integer),
          revoke_date       \(integer),
          revoke_answer     TEXT,
          after_at          \(integer),
          after_date        \(integer),
          after_answer      TEXT,
          rounds            \(integer) NOT NULL DEFAULT 0,
          failures          \(integer) NOT NULL DEFAULT 0,
          due_at            \(integer) NOT NULL,
          attempts          INTEGER NOT NULL DEFAULT 0,
          claimed_by        TEXT,
          -- What shows that siwatch has taken up the request with this token.
          proof             \(bytes),
          PRIMARY KEY (request, client, token_fingerprint)
        )\(keyed);
        CREATE INDEX revocation_due ON revocation (client, due_at);
        CREATE INDEX revocation_user ON revocation (user_id);

        -- Apple's keys. The proof shows that siwatch wrote the row.
        CREATE TABLE signing_key (
          kid          \(name)    NOT NULL PRIMARY KEY,
          jwk          TEXT    NOT NULL,
          last_seen_at \(integer) NOT NULL,
          proof        \(bytes)    NOT NULL
        )\(keyed);

        -- Random keys of the database's own, sealed.
        CREATE TABLE secret (
          name   \(name) NOT NULL PRIMARY KEY,
          sealed \(bytes) NOT NULL
        )\(keyed);

        -- Kept by the settling transaction, so that nobody has to count rows.
        CREATE TABLE credential_count (
          app   \(integer) NOT NULL\(references("app")),
          state \(name)    NOT NULL,
          count \(integer) NOT NULL,
          PRIMARY KEY (app, state)
        )\(counted);

        CREATE TABLE counter (
          name  \(name)    NOT NULL PRIMARY KEY,
          value \(integer) NOT NULL
        )\(counted);

        -- What has judged the rejections of an app so far, as JSON; NULL on a server before it has judged anything.
        CREATE TABLE breaker (
          app   \(integer) PRIMARY KEY\(references("app")),
          state TEXT\(words(sqlite: "    NOT NULL", postgres: "")),
          proof \(bytes)
        )\(rows);

        -- When each canary was last asked about out of turn.
        CREATE TABLE canary (
          user_id  \(name)    NOT NULL,
          client   \(integer) NOT NULL\(references("client")),
          asked_at \(integer) NOT NULL,
          PRIMARY KEY (user_id, client)
        )\(keyed);

        -- Rejections believed lately, until a notification of each had time to come.
        CREATE TABLE admitted_rejection (
          id          \(id),
          app         \(integer) NOT NULL\(references("app")),
          client      \(integer) NOT NULL\(references("client")),
          user_id     \(name)    NOT NULL,
          granted_at  \(integer) NOT NULL,
          rejected_at \(integer) NOT NULL,
          admitted_at \(integer) NOT NULL
        )\(rows);
        CREATE INDEX admitted_rejection_age ON admitted_rejection (admitted_at);

        -- What operators' commands ask of the running daemon, and its answers. Both are JSON.
        CREATE TABLE operator_request (
          id           \(lastingID),
          request      TEXT    NOT NULL,
          requested_at \(integer) NOT NULL,
          answer       TEXT,
          answered_at  \(integer),
          -- How far a long one has come; NULL once it is done.
          position     TEXT,
          -- A random number, and what shows that siwatch's user wrote the request, or the position once it has an answer.
          number       \(integer),
          proof        \(bytes),
          CHECK ((answer IS NULL) = (answered_at IS NULL)),
          CHECK (position IS NULL OR answer IS NOT NULL)
        )\(rows);
        CREATE INDEX operator_request_open ON operator_request (id) WHERE answer IS NULL OR position IS NOT NULL;

        """
    }
}

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
