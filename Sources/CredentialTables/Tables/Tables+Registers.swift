// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Tables {
    /// The registers of `CredentialCore`, and the state that follows from them.
    var registers: String {
        """
        CREATE TABLE app (
          id         \(id),
          name       \(name)    NOT NULL UNIQUE,
          -- Since when an operator has its checks paused.
          paused_at  \(integer),
          -- What shows that siwatch wrote that.
          paused_proof \(bytes),
          unverified \(integer) NOT NULL DEFAULT 0,
          never_accepted \(integer) NOT NULL DEFAULT 0,
          foreign_tokens \(integer) NOT NULL DEFAULT 0,
          -- Rejections that wait to be believed; those believed for an hour; and those of which no notification came.
          pending    \(integer) NOT NULL DEFAULT 0,
          admitted   \(integer) NOT NULL DEFAULT 0,
          missed     \(integer) NOT NULL DEFAULT 0,
          -- Requests to revoke: how many were opened in the hour that began then; since when the limit holds the others, and how many.
          revocation_hour_at   \(integer),
          revocations_opened   \(integer) NOT NULL DEFAULT 0,
          revocations_held_at  \(integer),
          revocations_held     \(integer) NOT NULL DEFAULT 0,
          revocations_proof    \(bytes),
          -- Sign-ins of users whose end Apple has signed, and those that undid it and that nothing at Apple proves.
          ended      \(integer) NOT NULL DEFAULT 0,
          unproven   \(integer) NOT NULL DEFAULT 0
        )\(rows);

        CREATE TABLE client (
          id        \(id),
          client_id \(name)    NOT NULL UNIQUE,
          app       \(integer) NOT NULL\(references("app")),
          -- When Apple last accepted a token or a code of it, and when a token that it had accepted before.
          valid_at  \(integer),
          proved_at \(integer),
          -- Since when Apple refuses it, when it last did, and what it said; NULL once Apple has accepted it again.
          refused_since \(integer),
          refused_at    \(integer),
          refusal       TEXT,
          CHECK ((refused_at IS NULL) = (refused_since IS NULL) AND (refused_at IS NULL) = (refusal IS NULL))
        )\(rows);

        CREATE TABLE credential (
          user_id           \(name)    NOT NULL,
          client            \(integer) NOT NULL\(references("client")),
          app               \(integer) NOT NULL\(references("app")),
          state             TEXT    NOT NULL CHECK (\(isWord("state", of: "authorized", "revoked", "notFound"))),
          reason            TEXT    NOT NULL CHECK (\(isWord("reason", of: "granted", "token_rejected", "consent_revoked", "account_deleted",
                                                               "revoked_by_app", "never_granted"))),
          changed_at        \(integer) CHECK (changed_at IS NOT NULL OR reason = 'never_granted'),
          granted_at        \(integer),
          token_granted_at  \(integer),
          token_fingerprint \(bytes),
          sealed_token      \(bytes),
          revoked_at        \(integer),
          verified_at       \(integer),
          -- The team that asked then: what Apple says of the token to another one proves nothing.
          verified_team     TEXT,
          rejected_at       \(integer),
          answered_at       \(integer),
          -- What Apple said of the token then, believed or not.
          answer            TEXT CHECK (\(isWord("answer", of: "valid", "rejected", "another_user", "unclear"))),
          -- A rejection that waits to be believed: since when, when Apple had been asked, and with which key.
          pending_since     \(integer) CHECK (pending_since IS NULL OR sealed_token IS NOT NULL AND answered_at IS NOT NULL),
          pending_asked_at  \(integer),
          pending_key       TEXT,
          due_at            \(integer) CHECK (due_at IS NULL OR sealed_token IS NOT NULL),
          failures          \(integer) NOT NULL DEFAULT 0,
          -- Until the first check has come to anything: 0 of a sign-in that had just happened, 1 of an import. 0 of a recheck, too.
          first_check       \(small) CHECK (first_check IN (0, 1)),
          unverified        \(flag("unverified")),
          -- Apple rejects the token and has never accepted it.
          never_accepted    \(flag("never_accepted")),
          attempts          INTEGER NOT NULL DEFAULT 0,
          claimed_by        TEXT,
          -- The token before; sealed until Apple accepts this one. When Apple had accepted it, and the team that asked then.
          former_granted_at    \(integer),
          former_fingerprint   \(bytes),
          former_sealed        \(bytes),
          former_verified_at   \(integer),
          former_verified_team TEXT,
          -- By what tokens of sign-ins before that are known again.
          older_tokens         \(bytes),
          -- The import that alone has told of it.
          imported_by          \(integer),
          CHECK ((token_granted_at IS NULL) = (token_fingerprint IS NULL)),
          CHECK (sealed_token IS NULL OR token_fingerprint IS NOT NULL),
          CHECK ((former_granted_at IS NULL) = (former_fingerprint IS NULL)),
          CHECK (former_sealed IS NULL OR former_fingerprint IS NOT NULL),
          CHECK ((pending_since IS NULL) = (pending_asked_at IS NULL) AND (pending_since IS NULL) = (pending_key IS NULL)),
          PRIMARY KEY (user_id, client)
        )\(keyed);
        -- The schedule: what is due costs O(log n) to find, and no client stands in the way of another.
        CREATE INDEX credential_due ON credential (client, due_at) WHERE due_at IS NOT NULL;
        -- First checks: those of new sign-ins go before a backlog, and a client that Apple has not accepted yet is tried with the next.
        CREATE INDEX credential_first ON credential (client, first_check, due_at) WHERE first_check IS NOT NULL;
        -- For those who list them.
        CREATE INDEX credential_never_accepted ON credential (app, user_id) WHERE never_accepted;
        CREATE INDEX credential_foreign ON credential (app, user_id) WHERE answer = 'another_user';
        -- Tokens that are held, by the team from which Apple has accepted them.
        CREATE INDEX credential_team ON credential (app, verified_team) WHERE verified_team IS NOT NULL AND sealed_token IS NOT NULL;
        -- Rejected tokens that are still kept, for a while, to undo a mistake.
        CREATE INDEX credential_rejected ON credential (rejected_at) WHERE rejected_at IS NOT NULL AND sealed_token IS NOT NULL;
        -- Rejections that wait to be believed, and those of them that are due.
        CREATE INDEX credential_pending ON credential (app, pending_since) WHERE pending_since IS NOT NULL;
        CREATE INDEX credential_pending_due ON credential (app, due_at) WHERE pending_since IS NOT NULL;
        CREATE INDEX credential_doubted ON credential (app, user_id) WHERE answer = 'rejected' AND due_at IS NOT NULL;
        CREATE INDEX credential_imported ON credential (imported_by, user_id) WHERE imported_by IS NOT NULL;

        -- On a server each user has a row, even without an event, because each settlement locks the rows of its users.
        CREATE TABLE user_event (
          user_id            \(name)    NOT NULL,
          app                \(integer) NOT NULL\(references("app")),
          consent_revoked_at \(integer),
          deleted_at         \(integer),
          revoked_at         \(integer),
          email_at           \(integer),
          email_rank         \(small) CHECK (email_rank IN (0, 1)),
          email              TEXT,
          email_is_private   INTEGER CHECK (email_is_private IN (0, 1)),
          forwarding_at      \(integer),
          forwarding         TEXT CHECK (forwarding IN ('enabled', 'disabled')),
          PRIMARY KEY (user_id, app)
        )\(keyed);

        """
    }
}
