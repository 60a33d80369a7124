// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Schema {
    /// The registers of `CredentialCore`, and the state that follows from them.
    static let registers = """
        CREATE TABLE app (
          id         INTEGER PRIMARY KEY,
          name       TEXT    NOT NULL UNIQUE,
          -- Since when an operator has its checks paused.
          paused_at  INTEGER,
          unverified INTEGER NOT NULL DEFAULT 0,
          never_accepted INTEGER NOT NULL DEFAULT 0,
          foreign_tokens INTEGER NOT NULL DEFAULT 0,
          -- Rejections that wait to be believed; those believed for an hour; and those of which no notification came.
          pending    INTEGER NOT NULL DEFAULT 0,
          admitted   INTEGER NOT NULL DEFAULT 0,
          missed     INTEGER NOT NULL DEFAULT 0,
          -- Requests to revoke: how many were opened in the hour that began then; since when the brake holds the others, and how many.
          revocation_hour_at   INTEGER,
          revocations_opened   INTEGER NOT NULL DEFAULT 0,
          revocations_braked_at INTEGER,
          revocations_held     INTEGER NOT NULL DEFAULT 0
        ) STRICT;

        CREATE TABLE client (
          id        INTEGER PRIMARY KEY,
          client_id TEXT    NOT NULL UNIQUE,
          app       INTEGER NOT NULL REFERENCES app (id),
          -- When Apple last accepted a token or a code of it, and when a token that it had accepted before.
          valid_at  INTEGER,
          proved_at INTEGER,
          -- Since when Apple refuses it, when it last did, and what it said; NULL once Apple has accepted it again.
          refused_since INTEGER,
          refused_at    INTEGER,
          refusal       TEXT,
          CHECK ((refused_at IS NULL) = (refused_since IS NULL) AND (refused_at IS NULL) = (refusal IS NULL))
        ) STRICT;

        CREATE TABLE credential (
          user_id           TEXT    NOT NULL,
          client            INTEGER NOT NULL REFERENCES client (id),
          app               INTEGER NOT NULL REFERENCES app (id),
          state             TEXT    NOT NULL CHECK (\(isOne("state", of: "authorized", "revoked", "notFound"))),
          reason            TEXT    NOT NULL CHECK (\(isOne("reason", of: "granted", "token_rejected", "consent_revoked", "account_deleted",
                                                               "revoked_by_app", "never_granted"))),
          changed_at        INTEGER CHECK (changed_at IS NOT NULL OR reason = 'never_granted'),
          granted_at        INTEGER,
          token_granted_at  INTEGER,
          token_fingerprint BLOB,
          sealed_token      BLOB,
          revoked_at        INTEGER,
          verified_at       INTEGER,
          -- The team that asked then: what Apple says of the token to another one proves nothing.
          verified_team     TEXT,
          rejected_at       INTEGER,
          answered_at       INTEGER,
          -- What Apple said of the token then, believed or not.
          answer            TEXT CHECK (\(isOne("answer", of: "valid", "rejected", "another_user", "unclear"))),
          -- A rejection that waits to be believed: since when, when Apple had been asked, and with which key.
          pending_since     INTEGER CHECK (pending_since IS NULL OR sealed_token IS NOT NULL AND answered_at IS NOT NULL),
          pending_asked_at  INTEGER,
          pending_key       TEXT,
          due_at            INTEGER CHECK (due_at IS NULL OR sealed_token IS NOT NULL),
          failures          INTEGER NOT NULL DEFAULT 0,
          -- Until the first check has come to anything: 0 of a sign-in that had just happened, 1 of an import. 0 of a recheck, too.
          first_check       INTEGER CHECK (first_check IN (0, 1)),
          unverified        INTEGER NOT NULL DEFAULT 0 CHECK (unverified IN (0, 1)),
          -- Apple rejects the token and has never accepted it.
          never_accepted    INTEGER NOT NULL DEFAULT 0 CHECK (never_accepted IN (0, 1)),
          attempts          INTEGER NOT NULL DEFAULT 0,
          claimed_by        TEXT,
          -- The token before; sealed until Apple accepts this one. When Apple had accepted it, and the team that asked then.
          former_granted_at    INTEGER,
          former_fingerprint   BLOB,
          former_sealed        BLOB,
          former_verified_at   INTEGER,
          former_verified_team TEXT,
          -- By what tokens of sign-ins before that are known again.
          older_tokens         BLOB,
          CHECK ((token_granted_at IS NULL) = (token_fingerprint IS NULL)),
          CHECK (sealed_token IS NULL OR token_fingerprint IS NOT NULL),
          CHECK ((former_granted_at IS NULL) = (former_fingerprint IS NULL)),
          CHECK (former_sealed IS NULL OR former_fingerprint IS NOT NULL),
          CHECK ((pending_since IS NULL) = (pending_asked_at IS NULL) AND (pending_since IS NULL) = (pending_key IS NULL)),
          PRIMARY KEY (user_id, client)
        ) STRICT, WITHOUT ROWID;
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

        CREATE TABLE user_event (
          user_id            TEXT    NOT NULL,
          app                INTEGER NOT NULL REFERENCES app (id),
          consent_revoked_at INTEGER,
          deleted_at         INTEGER,
          revoked_at         INTEGER,
          email_at           INTEGER,
          email_rank         INTEGER CHECK (email_rank IN (0, 1)),
          email              TEXT,
          email_is_private   INTEGER CHECK (email_is_private IN (0, 1)),
          forwarding_at      INTEGER,
          forwarding         TEXT CHECK (forwarding IN ('enabled', 'disabled')),
          PRIMARY KEY (user_id, app)
        ) STRICT, WITHOUT ROWID;

        """

    static let bookkeeping = """
        -- The tokens that requests are to revoke, and how far the proof of each has come.
        CREATE TABLE revocation (
          request           INTEGER NOT NULL REFERENCES revocation_queue (id),
          client            INTEGER NOT NULL REFERENCES client (id),
          app               INTEGER NOT NULL REFERENCES app (id),
          user_id           TEXT    NOT NULL,
          requested_at      INTEGER NOT NULL,
          token_granted_at  INTEGER NOT NULL,
          token_fingerprint BLOB    NOT NULL,
          sealed_token      BLOB    NOT NULL,
          -- What is known of the token.
          standing          TEXT    NOT NULL CHECK (\(isOne("standing", of: "accepted", "accepted_before", "never_accepted"))),
          verified_team     TEXT,
          key_id            TEXT,
          before_at         INTEGER,
          before_date       INTEGER,
          before_answer     TEXT,
          revoke_at         INTEGER,
          revoke_date       INTEGER,
          revoke_answer     TEXT,
          after_at          INTEGER,
          after_date        INTEGER,
          after_answer      TEXT,
          rounds            INTEGER NOT NULL DEFAULT 0,
          failures          INTEGER NOT NULL DEFAULT 0,
          due_at            INTEGER NOT NULL,
          attempts          INTEGER NOT NULL DEFAULT 0,
          claimed_by        TEXT,
          PRIMARY KEY (request, client, token_fingerprint)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX revocation_due ON revocation (client, due_at);
        CREATE INDEX revocation_user ON revocation (user_id);

        -- Apple's keys. The proof shows that siwatch wrote the row.
        CREATE TABLE signing_key (
          kid          TEXT    NOT NULL PRIMARY KEY,
          jwk          TEXT    NOT NULL,
          last_seen_at INTEGER NOT NULL,
          proof        BLOB    NOT NULL
        ) STRICT, WITHOUT ROWID;

        -- Random keys of the database's own, sealed.
        CREATE TABLE secret (
          name   TEXT NOT NULL PRIMARY KEY,
          sealed BLOB NOT NULL
        ) STRICT, WITHOUT ROWID;

        -- Kept by the settling transaction, so that nobody has to count rows.
        CREATE TABLE credential_count (
          app   INTEGER NOT NULL REFERENCES app (id),
          state TEXT    NOT NULL,
          count INTEGER NOT NULL,
          PRIMARY KEY (app, state)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE counter (
          name  TEXT    NOT NULL PRIMARY KEY,
          value INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;

        -- What has judged the rejections of an app so far, as JSON.
        CREATE TABLE breaker (
          app   INTEGER PRIMARY KEY REFERENCES app (id),
          state TEXT    NOT NULL
        ) STRICT;

        -- When each canary was last asked about out of turn.
        CREATE TABLE canary (
          user_id  TEXT    NOT NULL,
          client   INTEGER NOT NULL REFERENCES client (id),
          asked_at INTEGER NOT NULL,
          PRIMARY KEY (user_id, client)
        ) STRICT, WITHOUT ROWID;

        -- Rejections believed lately, until a notification of each had time to come.
        CREATE TABLE admitted_rejection (
          id          INTEGER PRIMARY KEY,
          app         INTEGER NOT NULL REFERENCES app (id),
          client      INTEGER NOT NULL REFERENCES client (id),
          user_id     TEXT    NOT NULL,
          granted_at  INTEGER NOT NULL,
          rejected_at INTEGER NOT NULL,
          admitted_at INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX admitted_rejection_age ON admitted_rejection (admitted_at);

        -- What operators' commands ask of the running daemon, and its answers. Both are JSON.
        CREATE TABLE operator_request (
          id           INTEGER PRIMARY KEY AUTOINCREMENT,
          request      TEXT    NOT NULL,
          requested_at INTEGER NOT NULL,
          answer       TEXT,
          answered_at  INTEGER,
          -- How far a long one has come; NULL once it is done.
          position     TEXT,
          CHECK ((answer IS NULL) = (answered_at IS NULL)),
          CHECK (position IS NULL OR answer IS NOT NULL)
        ) STRICT;
        CREATE INDEX operator_request_open ON operator_request (id) WHERE \(open);

        """
}
