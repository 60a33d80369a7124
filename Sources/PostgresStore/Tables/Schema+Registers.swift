// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Schema {
    /// The registers of `CredentialCore`, and the state that follows from them.
    static let registers = """
        CREATE TABLE app (
          id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
          name       TEXT   COLLATE "C" NOT NULL UNIQUE,
          -- Since when an operator has its checks paused.
          paused_at  BIGINT,
          unverified BIGINT NOT NULL DEFAULT 0,
          never_accepted BIGINT NOT NULL DEFAULT 0,
          foreign_tokens BIGINT NOT NULL DEFAULT 0,
          -- Rejections that wait to be believed; those believed for an hour; and those of which no notification came.
          pending    BIGINT NOT NULL DEFAULT 0,
          admitted   BIGINT NOT NULL DEFAULT 0,
          missed     BIGINT NOT NULL DEFAULT 0,
          -- Requests to revoke: how many were opened in the hour that began then; since when the brake holds the others, and how many.
          revocation_hour_at   BIGINT,
          revocations_opened   BIGINT NOT NULL DEFAULT 0,
          revocations_braked_at BIGINT,
          revocations_held     BIGINT NOT NULL DEFAULT 0
        );

        CREATE TABLE client (
          id        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
          client_id TEXT   COLLATE "C" NOT NULL UNIQUE,
          app       BIGINT NOT NULL,
          -- When Apple last accepted a token or a code of it, and when a token that it had accepted before.
          valid_at  BIGINT,
          proved_at BIGINT,
          -- Since when Apple refuses it, when it last did, and what it said; NULL once Apple has accepted it again.
          refused_since BIGINT,
          refused_at    BIGINT,
          refusal       TEXT,
          CHECK ((refused_at IS NULL) = (refused_since IS NULL) AND (refused_at IS NULL) = (refusal IS NULL))
        );

        CREATE TABLE credential (
          user_id           TEXT     COLLATE "C" NOT NULL,
          client            BIGINT   NOT NULL,
          app               BIGINT   NOT NULL,
          state             TEXT     NOT NULL CHECK (state IN ('authorized', 'revoked', 'notFound')),
          reason            TEXT     NOT NULL CHECK (reason IN ('granted', 'token_rejected', 'consent_revoked',
                                                                'account_deleted', 'revoked_by_app', 'never_granted')),
          changed_at        BIGINT   CHECK (changed_at IS NOT NULL OR reason = 'never_granted'),
          granted_at        BIGINT,
          token_granted_at  BIGINT,
          token_fingerprint BYTEA,
          sealed_token      BYTEA,
          revoked_at        BIGINT,
          verified_at       BIGINT,
          -- The team that asked then: what Apple says of the token to another one proves nothing.
          verified_team     TEXT,
          rejected_at       BIGINT,
          answered_at       BIGINT,
          -- What Apple said of the token then, believed or not.
          answer            TEXT     CHECK (answer IN ('valid', 'rejected', 'another_user', 'unclear')),
          -- A rejection that waits to be believed: since when, when Apple had been asked, and with which key.
          pending_since     BIGINT   CHECK (pending_since IS NULL OR sealed_token IS NOT NULL AND answered_at IS NOT NULL),
          pending_asked_at  BIGINT,
          pending_key       TEXT,
          due_at            BIGINT   CHECK (due_at IS NULL OR sealed_token IS NOT NULL),
          failures          BIGINT   NOT NULL DEFAULT 0,
          -- Until the first check has come to anything: 0 of a sign-in that had just happened, 1 of an import. 0 of a recheck, too.
          first_check       SMALLINT CHECK (first_check IN (0, 1)),
          unverified        BOOLEAN  NOT NULL DEFAULT FALSE,
          -- Apple rejects the token and has never accepted it.
          never_accepted    BOOLEAN  NOT NULL DEFAULT FALSE,
          attempts          INTEGER  NOT NULL DEFAULT 0,
          claimed_by        TEXT,
          -- The token before; sealed until Apple accepts this one. When Apple had accepted it, and the team that asked then.
          former_granted_at    BIGINT,
          former_fingerprint   BYTEA,
          former_sealed        BYTEA,
          former_verified_at   BIGINT,
          former_verified_team TEXT,
          -- By what tokens of sign-ins before that are known again.
          older_tokens         BYTEA,
          CHECK ((token_granted_at IS NULL) = (token_fingerprint IS NULL)),
          CHECK (sealed_token IS NULL OR token_fingerprint IS NOT NULL),
          CHECK ((former_granted_at IS NULL) = (former_fingerprint IS NULL)),
          CHECK (former_sealed IS NULL OR former_fingerprint IS NOT NULL),
          CHECK ((pending_since IS NULL) = (pending_asked_at IS NULL) AND (pending_since IS NULL) = (pending_key IS NULL)),
          PRIMARY KEY (user_id, client)
        );
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

        -- A row for each user, with an event or without: whoever settles a fact of a user locks it.
        CREATE TABLE user_event (
          user_id            TEXT     COLLATE "C" NOT NULL,
          app                BIGINT   NOT NULL,
          consent_revoked_at BIGINT,
          deleted_at         BIGINT,
          revoked_at         BIGINT,
          email_at           BIGINT,
          email_rank         SMALLINT CHECK (email_rank IN (0, 1)),
          email              TEXT,
          email_is_private   INTEGER  CHECK (email_is_private IN (0, 1)),
          forwarding_at      BIGINT,
          forwarding         TEXT     CHECK (forwarding IN ('enabled', 'disabled')),
          PRIMARY KEY (user_id, app)
        );

        """

    static let bookkeeping = """
        -- The tokens that requests are to revoke, and how far the proof of each has come.
        CREATE TABLE revocation (
          request           BIGINT NOT NULL REFERENCES revocation_queue (id),
          client            BIGINT NOT NULL,
          app               BIGINT NOT NULL,
          user_id           TEXT   COLLATE "C" NOT NULL,
          requested_at      BIGINT NOT NULL,
          token_granted_at  BIGINT NOT NULL,
          token_fingerprint BYTEA  NOT NULL,
          sealed_token      BYTEA  NOT NULL,
          -- What is known of the token.
          standing          TEXT   NOT NULL CHECK (standing IN ('accepted', 'accepted_before', 'never_accepted')),
          verified_team     TEXT,
          key_id            TEXT,
          before_at         BIGINT,
          before_date       BIGINT,
          before_answer     TEXT,
          revoke_at         BIGINT,
          revoke_date       BIGINT,
          revoke_answer     TEXT,
          after_at          BIGINT,
          after_date        BIGINT,
          after_answer      TEXT,
          rounds            BIGINT NOT NULL DEFAULT 0,
          failures          BIGINT NOT NULL DEFAULT 0,
          due_at            BIGINT NOT NULL,
          attempts          INTEGER NOT NULL DEFAULT 0,
          claimed_by        TEXT,
          PRIMARY KEY (request, client, token_fingerprint)
        );
        CREATE INDEX revocation_due ON revocation (client, due_at);
        CREATE INDEX revocation_user ON revocation (user_id);

        -- Apple's keys. The proof shows that siwatch wrote the row.
        CREATE TABLE signing_key (
          kid          TEXT   COLLATE "C" PRIMARY KEY,
          jwk          TEXT   NOT NULL,
          last_seen_at BIGINT NOT NULL,
          proof        BYTEA  NOT NULL
        );

        -- Random keys of the database's own, sealed.
        CREATE TABLE secret (
          name   TEXT  COLLATE "C" PRIMARY KEY,
          sealed BYTEA NOT NULL
        );

        -- Kept by the settling transaction, so that nobody has to count rows.
        CREATE TABLE credential_count (
          app   BIGINT NOT NULL,
          state TEXT   COLLATE "C" NOT NULL,
          count BIGINT NOT NULL,
          PRIMARY KEY (app, state)
        ) WITH (fillfactor = 10);

        CREATE TABLE counter (
          name  TEXT   COLLATE "C" PRIMARY KEY,
          value BIGINT NOT NULL
        ) WITH (fillfactor = 10);

        -- What has judged the rejections of an app so far, as JSON; NULL before it has judged anything.
        CREATE TABLE breaker (
          app   BIGINT PRIMARY KEY,
          state TEXT
        );

        -- When each canary was last asked about out of turn.
        CREATE TABLE canary (
          user_id  TEXT   COLLATE "C" NOT NULL,
          client   BIGINT NOT NULL,
          asked_at BIGINT NOT NULL,
          PRIMARY KEY (user_id, client)
        );

        -- Rejections believed lately, until a notification of each had time to come.
        CREATE TABLE admitted_rejection (
          id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
          app         BIGINT NOT NULL,
          client      BIGINT NOT NULL,
          user_id     TEXT   COLLATE "C" NOT NULL,
          granted_at  BIGINT NOT NULL,
          rejected_at BIGINT NOT NULL,
          admitted_at BIGINT NOT NULL
        );
        CREATE INDEX admitted_rejection_age ON admitted_rejection (admitted_at);

        -- What operators' commands ask of the running daemon, and its answers. Both are JSON.
        CREATE TABLE operator_request (
          id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
          request      TEXT   NOT NULL,
          requested_at BIGINT NOT NULL,
          answer       TEXT,
          answered_at  BIGINT,
          -- How far a long one has come; NULL once it is done.
          position     TEXT,
          CHECK ((answer IS NULL) = (answered_at IS NULL)),
          CHECK (position IS NULL OR answer IS NOT NULL)
        );
        CREATE INDEX operator_request_open ON operator_request (id) WHERE \(open);

        """
}
