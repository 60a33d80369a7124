// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension Tables {
    /// The logs. Every row that leaves a queue goes to its log.
    var logs: String {
        """
        CREATE TABLE notification_log (
          id          \(id),
          app         \(name)    NOT NULL,
          jti         TEXT    NOT NULL,
          client_id   \(name)    NOT NULL,
          user_id     \(name)    NOT NULL,
          type        \(name)    NOT NULL,
          event_time  \(integer) NOT NULL,
          payload     \(payload),
          received_at \(integer) NOT NULL,
          settled_at  \(integer) NOT NULL,
          outcome     TEXT    NOT NULL CHECK (\(isWord("outcome", of: "applied", "stale", "duplicate", "unknown_type"))),
          CHECK (payload IS NOT NULL OR outcome = 'duplicate')
        )\(rows);
        -- Time first: what arrives together then stands together, so that a batch touches few pages.
        CREATE UNIQUE INDEX notification_log_event ON notification_log (event_time, user_id, app, type)
          WHERE outcome <> 'duplicate';

        CREATE TABLE notification_quarantine (
          id          \(lastingID),
          payload     \(payload)    NOT NULL,
          received_at \(integer) NOT NULL,
          rejected_at \(integer) NOT NULL,
          reason      TEXT    NOT NULL,
          detail      TEXT    NOT NULL
        )\(rows);
        -- The ring of rubbish that anybody could have sent, oldest first.
        CREATE INDEX notification_quarantine_unsigned ON notification_quarantine (id) WHERE \(members(of: .forged));
        -- The ring of those whose key may still come, oldest first, and by their key.
        CREATE INDEX notification_quarantine_waiting ON notification_quarantine (id) WHERE \(members(of: .unknownKey));
        CREATE INDEX notification_quarantine_key ON notification_quarantine (detail) WHERE reason = 'unknown_key';

        CREATE TABLE grant_log (
          id         \(id),
          grant_id   \(integer) NOT NULL,
          client_id  \(name)    NOT NULL,
          user_id    \(name),
          granted_at \(integer) NOT NULL,
          settled_at \(integer) NOT NULL,
          outcome    TEXT    NOT NULL CHECK (\(isWord("outcome", of: "applied", "stale", "duplicate", "retold", "in_future", "rejected"))),
          reason     TEXT,
          detail     TEXT,
          -- Of a code, what the id_token says. Otherwise NULL.
          signed_in_at     \(integer),
          real_user_status \(integer),
          CHECK ((outcome = 'rejected') = (reason IS NOT NULL))
        )\(rows);
        -- A backend asks by the id that its row had in the queue.
        CREATE INDEX grant_log_grant ON grant_log (grant_id);

        -- The receipt: what Apple was asked, when by our clock and by its own, and what it answered.
        CREATE TABLE revocation_log (
          id               \(id),
          request          \(integer) NOT NULL,
          app              \(name),
          client_id        \(name)    NOT NULL,
          user_id          \(name)    NOT NULL,
          requested_at     \(integer) NOT NULL,
          token_granted_at \(integer),
          key_id           TEXT,
          before_at        \(integer),
          before_date      \(integer),
          before_answer    TEXT CHECK (before_answer IN ('accepted', 'invalid_grant')),
          revoke_at        \(integer),
          revoke_date      \(integer),
          revoke_answer    TEXT CHECK (revoke_answer IN ('revoked', 'unheard')),
          after_at         \(integer),
          after_date       \(integer),
          after_answer     TEXT CHECK (after_answer IN ('accepted', 'invalid_grant')),
          settled_at       \(integer) NOT NULL,
          outcome          TEXT    NOT NULL
                                   CHECK (\(isWord("outcome", of: "proved", "already_invalid", "superseded", "no_token",
                                                          "no_valid_token", "rejected"))),
          reason           TEXT,
          effective_at     \(integer),
          proof            \(bytes),
          CHECK ((outcome = 'rejected') = (reason IS NOT NULL))
        )\(rows);
        CREATE INDEX revocation_log_user ON revocation_log (user_id);
        CREATE INDEX revocation_log_request ON revocation_log (request);

        CREATE TABLE credential_change (
          id               \(lastingID),
          app              \(name)    NOT NULL,
          client_id        \(name)    NOT NULL,
          user_id          \(name)    NOT NULL,
          kind             TEXT    NOT NULL CHECK (kind IN ('state', 'email')),
          from_state       TEXT,
          to_state         TEXT,
          reason           TEXT,
          email            TEXT,
          email_forwarding TEXT,
          source           TEXT    NOT NULL CHECK (\(isWord("source", of: "notification", "refresh", "grant", "revocation"))),
          notification_jti TEXT,
          occurred_at      \(integer) NOT NULL,
          recorded_at      \(integer) NOT NULL,
          CHECK ((kind = 'state') = (to_state IS NOT NULL AND reason IS NOT NULL))
        )\(rows);

        """
    }
}
