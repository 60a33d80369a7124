CREATE TABLE notification_queue (
  id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY
                      CONSTRAINT "id is not to be given" CHECK (id > 0),
  payload     BYTEA    NOT NULL
                      CONSTRAINT "payload is 1 to 65536 bytes" CHECK (octet_length(payload) BETWEEN 1 AND 65536),
  received_at BIGINT NOT NULL DEFAULT (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
                      CONSTRAINT "received_at is milliseconds since 1970" CHECK (received_at BETWEEN 1546300800000 AND 4102444800000),
  due_at      BIGINT NOT NULL DEFAULT 0,
  attempts    INTEGER NOT NULL DEFAULT 0,
  claimed_by  TEXT
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- In a file, a row that has just come stands in the table alone.
CREATE INDEX notification_queue_due ON notification_queue (due_at, id) WHERE received_at > 0;


-- waits_since: since when a grant waits for its client to be configured, or for its time; of a code, when it was first claimed.
-- is_ahead: whether a grant that was put off waits for its time.
-- failures, answer_lost: how often a code was sent and the road failed, and whether Apple may have taken it then.
-- detail: Apple's last word about a code that waits, or why it gave none.
-- import_id: the import that tells the row.
CREATE TABLE grant_queue (
  id                 BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY
                             CONSTRAINT "id is not to be given" CHECK (id > 0),
  client_id          TEXT COLLATE "C"    NOT NULL
                             CONSTRAINT "client_id is not empty and has no NUL"
                             CHECK (client_id <> '') CONSTRAINT "client_id is at most 2048 bytes" CHECK (octet_length(client_id) <= 2048),
  user_id            TEXT COLLATE "C"    CONSTRAINT "user_id is not empty and has no NUL"
                             CHECK (user_id <> '') CONSTRAINT "user_id is at most 2048 bytes" CHECK (octet_length(user_id) <= 2048),
  refresh_token      TEXT    CONSTRAINT "refresh_token is NULL or not empty, and has no NUL"
                             CHECK (refresh_token <> '') CONSTRAINT "refresh_token is at most 65536 bytes" CHECK (octet_length(refresh_token) <= 65536),
  token_sealed       BYTEA    CONSTRAINT "token_sealed is 62 to 8253 bytes" CHECK (octet_length(token_sealed) BETWEEN 62 AND 8253),
  authorization_code TEXT    CONSTRAINT "authorization_code is NULL or not empty, and has no NUL"
                             CHECK (authorization_code <> '') CONSTRAINT "authorization_code is at most 65536 bytes" CHECK (octet_length(authorization_code) <= 65536),
  redirect_uri       TEXT     CONSTRAINT "redirect_uri is at most 65536 bytes" CHECK (octet_length(redirect_uri) <= 65536),
  nonce              TEXT     CONSTRAINT "nonce is at most 65536 bytes" CHECK (octet_length(nonce) <= 65536),
  email              TEXT     CONSTRAINT "email is at most 65536 bytes" CHECK (octet_length(email) <= 65536),
  email_is_private   INTEGER CONSTRAINT "email_is_private is 0, 1 or NULL" CHECK (email_is_private IN (0, 1)),
  granted_at         BIGINT NOT NULL DEFAULT (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
                             CONSTRAINT "granted_at is milliseconds since 1970" CHECK (granted_at BETWEEN 1546300800000 AND 4102444800000),
  due_at             BIGINT NOT NULL DEFAULT 0,
  attempts           INTEGER NOT NULL DEFAULT 0,
  claimed_by         TEXT,
  waits_since        BIGINT,
  is_ahead           INTEGER NOT NULL DEFAULT 0,
  failures           INTEGER NOT NULL DEFAULT 0,
  answer_lost        INTEGER NOT NULL DEFAULT 0,
  detail             TEXT,
  import_id          BIGINT,
  CONSTRAINT "a refresh_token, a token_sealed or an authorization_code"
    CHECK (num_nonnulls(refresh_token, token_sealed, authorization_code) <= 1),
  CONSTRAINT "user_id is missing" CHECK (user_id IS NOT NULL OR authorization_code IS NOT NULL)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- Codes are another lane: they must not stand in the way of this one.
CREATE INDEX grant_queue_due ON grant_queue (due_at, id) WHERE authorization_code IS NULL;
CREATE INDEX grant_queue_code ON grant_queue (granted_at, id) WHERE authorization_code IS NOT NULL;
-- What one client may not ask now hides no other's.
CREATE INDEX grant_queue_code_client ON grant_queue (client_id, due_at, granted_at, id) WHERE authorization_code IS NOT NULL;
-- An event looks here for a newer sign-in of its user.
CREATE INDEX grant_queue_user ON grant_queue (user_id, granted_at);
CREATE INDEX grant_queue_import ON grant_queue (import_id, id) WHERE import_id IS NOT NULL;


-- held_at, confirmed_at: since when a request waits for an operator, and when one has confirmed it.
-- effective_at: from when it counts.
CREATE TABLE revocation_queue (
  id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY
                       CONSTRAINT "id is not to be given" CHECK (id > 0),
  client_id    TEXT COLLATE "C"    NOT NULL
                       CONSTRAINT "client_id is not empty and has no NUL"
                       CHECK (client_id <> '') CONSTRAINT "client_id is at most 2048 bytes" CHECK (octet_length(client_id) <= 2048),
  user_id      TEXT COLLATE "C"    NOT NULL
                       CONSTRAINT "user_id is not empty and has no NUL"
                       CHECK (user_id <> '') CONSTRAINT "user_id is at most 2048 bytes" CHECK (octet_length(user_id) <= 2048),
  requested_at BIGINT NOT NULL DEFAULT (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
                       CONSTRAINT "requested_at is milliseconds since 1970" CHECK (requested_at BETWEEN 1546300800000 AND 4102444800000),
  due_at       BIGINT NOT NULL DEFAULT 0,
  attempts     INTEGER NOT NULL DEFAULT 0,
  claimed_by   TEXT,
  opened_at    BIGINT,
  held_at      BIGINT,
  confirmed_at BIGINT,
  confirmed_proof BYTEA,
  effective_at BIGINT
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- One that is opened waits for its tokens, in revocation.
CREATE INDEX revocation_queue_due ON revocation_queue (due_at, id) WHERE opened_at IS NULL AND held_at IS NULL;
CREATE INDEX revocation_queue_held ON revocation_queue (client_id, id) WHERE held_at IS NOT NULL;
-- A code that is exchanged late belongs to the request that came before.
CREATE INDEX revocation_queue_user ON revocation_queue (user_id) WHERE opened_at IS NULL;

CREATE TABLE notification_log (
  id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  app         TEXT COLLATE "C"    NOT NULL,
  jti         TEXT    NOT NULL,
  client_id   TEXT COLLATE "C"    NOT NULL,
  user_id     TEXT COLLATE "C"    NOT NULL,
  type        TEXT COLLATE "C"    NOT NULL,
  event_time  BIGINT NOT NULL,
  payload     BYTEA,
  received_at BIGINT NOT NULL,
  settled_at  BIGINT NOT NULL,
  outcome     TEXT    NOT NULL CHECK (outcome IN ('applied', 'stale', 'duplicate', 'unknown_type')),
  CHECK (payload IS NOT NULL OR outcome = 'duplicate')
);
-- Time first: what arrives together then stands together, so that a batch touches few pages.
CREATE UNIQUE INDEX notification_log_event ON notification_log (event_time, user_id, app, type)
  WHERE outcome <> 'duplicate';

CREATE TABLE notification_quarantine (
  id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  payload     BYTEA    NOT NULL,
  received_at BIGINT NOT NULL,
  rejected_at BIGINT NOT NULL,
  reason      TEXT    NOT NULL,
  detail      TEXT    NOT NULL
);
-- The ring of rubbish that anybody could have sent, oldest first.
CREATE INDEX notification_quarantine_unsigned ON notification_quarantine (id) WHERE (reason IN ('malformed', 'not_an_event', 'wrong_algorithm', 'forbidden_header', 'bad_signature'));
-- The ring of those whose key may still come, oldest first, and by their key.
CREATE INDEX notification_quarantine_waiting ON notification_quarantine (id) WHERE reason = 'unknown_key';
CREATE INDEX notification_quarantine_key ON notification_quarantine (detail) WHERE reason = 'unknown_key';

CREATE TABLE grant_log (
  id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  grant_id   BIGINT NOT NULL,
  client_id  TEXT COLLATE "C"    NOT NULL,
  user_id    TEXT COLLATE "C",
  granted_at BIGINT NOT NULL,
  settled_at BIGINT NOT NULL,
  outcome    TEXT    NOT NULL CHECK (outcome IN ('applied', 'stale', 'duplicate', 'retold', 'in_future', 'rejected')),
  reason     TEXT,
  detail     TEXT,
  -- Of a code, what the id_token says. Otherwise NULL.
  signed_in_at     BIGINT,
  real_user_status BIGINT,
  CHECK ((outcome = 'rejected') = (reason IS NOT NULL))
);
-- A backend asks by the id that its row had in the queue.
CREATE INDEX grant_log_grant ON grant_log (grant_id);

-- The receipt: what Apple was asked, when by our clock and by its own, and what it answered.
CREATE TABLE revocation_log (
  id               BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  request          BIGINT NOT NULL,
  app              TEXT COLLATE "C",
  client_id        TEXT COLLATE "C"    NOT NULL,
  user_id          TEXT COLLATE "C"    NOT NULL,
  requested_at     BIGINT NOT NULL,
  token_granted_at BIGINT,
  key_id           TEXT,
  before_at        BIGINT,
  before_date      BIGINT,
  before_answer    TEXT CHECK (before_answer IN ('accepted', 'invalid_grant')),
  revoke_at        BIGINT,
  revoke_date      BIGINT,
  revoke_answer    TEXT CHECK (revoke_answer IN ('revoked', 'unheard')),
  after_at         BIGINT,
  after_date       BIGINT,
  after_answer     TEXT CHECK (after_answer IN ('accepted', 'invalid_grant')),
  settled_at       BIGINT NOT NULL,
  outcome          TEXT    NOT NULL
                           CHECK (outcome IN ('proved', 'already_invalid', 'superseded', 'no_token', 'no_valid_token', 'rejected')),
  reason           TEXT,
  effective_at     BIGINT,
  proof            BYTEA,
  CHECK ((outcome = 'rejected') = (reason IS NOT NULL))
);
CREATE INDEX revocation_log_user ON revocation_log (user_id);
CREATE INDEX revocation_log_request ON revocation_log (request);

CREATE TABLE credential_change (
  id               BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  app              TEXT COLLATE "C"    NOT NULL,
  client_id        TEXT COLLATE "C"    NOT NULL,
  user_id          TEXT COLLATE "C"    NOT NULL,
  kind             TEXT    NOT NULL CHECK (kind IN ('state', 'email')),
  from_state       TEXT,
  to_state         TEXT,
  reason           TEXT,
  email            TEXT,
  email_forwarding TEXT,
  source           TEXT    NOT NULL CHECK (source IN ('notification', 'refresh', 'grant', 'revocation')),
  notification_jti TEXT,
  occurred_at      BIGINT NOT NULL,
  recorded_at      BIGINT NOT NULL,
  CHECK ((kind = 'state') = (to_state IS NOT NULL AND reason IS NOT NULL))
);
CREATE TABLE app (
  id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name       TEXT COLLATE "C"    NOT NULL UNIQUE,
  -- Since when an operator has its checks paused.
  paused_at  BIGINT,
  -- What shows that siwatch wrote that.
  paused_proof BYTEA,
  unverified BIGINT NOT NULL DEFAULT 0,
  never_accepted BIGINT NOT NULL DEFAULT 0,
  foreign_tokens BIGINT NOT NULL DEFAULT 0,
  -- Rejections that wait to be believed; those believed for an hour; and those of which no notification came.
  pending    BIGINT NOT NULL DEFAULT 0,
  admitted   BIGINT NOT NULL DEFAULT 0,
  missed     BIGINT NOT NULL DEFAULT 0,
  -- Requests to revoke: how many were opened in the hour that began then; since when the limit holds the others, and how many.
  revocation_hour_at   BIGINT,
  revocations_opened   BIGINT NOT NULL DEFAULT 0,
  revocations_held_at  BIGINT,
  revocations_held     BIGINT NOT NULL DEFAULT 0,
  revocations_proof    BYTEA,
  -- Sign-ins of users whose end Apple has signed, and those that undid it and that nothing at Apple proves.
  ended      BIGINT NOT NULL DEFAULT 0,
  unproven   BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE client (
  id        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  client_id TEXT COLLATE "C"    NOT NULL UNIQUE,
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
  user_id           TEXT COLLATE "C"    NOT NULL,
  client            BIGINT NOT NULL,
  app               BIGINT NOT NULL,
  state             TEXT    NOT NULL CHECK (state IN ('authorized', 'revoked', 'notFound')),
  reason            TEXT    NOT NULL CHECK (reason IN ('granted', 'token_rejected', 'consent_revoked', 'account_deleted', 'revoked_by_app', 'never_granted')),
  changed_at        BIGINT CHECK (changed_at IS NOT NULL OR reason = 'never_granted'),
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
  answer            TEXT CHECK (answer IN ('valid', 'rejected', 'another_user', 'unclear')),
  -- A rejection that waits to be believed: since when, when Apple had been asked, and with which key.
  pending_since     BIGINT CHECK (pending_since IS NULL OR sealed_token IS NOT NULL AND answered_at IS NOT NULL),
  pending_asked_at  BIGINT,
  pending_key       TEXT,
  due_at            BIGINT CHECK (due_at IS NULL OR sealed_token IS NOT NULL),
  failures          BIGINT NOT NULL DEFAULT 0,
  -- Until the first check has come to anything: 0 of a sign-in that had just happened, 1 of an import. 0 of a recheck, too.
  first_check       SMALLINT CHECK (first_check IN (0, 1)),
  unverified        BOOLEAN NOT NULL DEFAULT FALSE,
  -- Apple rejects the token and has never accepted it.
  never_accepted    BOOLEAN NOT NULL DEFAULT FALSE,
  attempts          INTEGER NOT NULL DEFAULT 0,
  claimed_by        TEXT,
  -- The token before; sealed until Apple accepts this one. When Apple had accepted it, and the team that asked then.
  former_granted_at    BIGINT,
  former_fingerprint   BYTEA,
  former_sealed        BYTEA,
  former_verified_at   BIGINT,
  former_verified_team TEXT,
  -- By what tokens of sign-ins before that are known again.
  older_tokens         BYTEA,
  -- The import that alone has told of it.
  imported_by          BIGINT,
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
CREATE INDEX credential_doubted ON credential (app, user_id) WHERE answer = 'rejected' AND due_at IS NOT NULL;
CREATE INDEX credential_imported ON credential (imported_by, user_id) WHERE imported_by IS NOT NULL;

-- On a server each user has a row, even without an event, because each settlement locks the rows of its users.
CREATE TABLE user_event (
  user_id            TEXT COLLATE "C"    NOT NULL,
  app                BIGINT NOT NULL,
  consent_revoked_at BIGINT,
  deleted_at         BIGINT,
  revoked_at         BIGINT,
  email_at           BIGINT,
  email_rank         SMALLINT CHECK (email_rank IN (0, 1)),
  email              TEXT,
  email_is_private   INTEGER CHECK (email_is_private IN (0, 1)),
  forwarding_at      BIGINT,
  forwarding         TEXT CHECK (forwarding IN ('enabled', 'disabled')),
  PRIMARY KEY (user_id, app)
);
-- The tokens that requests are to revoke, and how far the proof of each has come.
CREATE TABLE revocation (
  request           BIGINT NOT NULL REFERENCES revocation_queue (id),
  client            BIGINT NOT NULL,
  app               BIGINT NOT NULL,
  user_id           TEXT COLLATE "C"    NOT NULL,
  requested_at      BIGINT NOT NULL,
  token_granted_at  BIGINT NOT NULL,
  token_fingerprint BYTEA    NOT NULL,
  sealed_token      BYTEA    NOT NULL,
  -- What is known of the token.
  standing          TEXT    NOT NULL CHECK (standing IN ('accepted', 'accepted_before', 'never_accepted')),
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
  -- What shows that siwatch has taken up the request with this token.
  proof             BYTEA,
  PRIMARY KEY (request, client, token_fingerprint)
);
CREATE INDEX revocation_due ON revocation (client, due_at);
CREATE INDEX revocation_user ON revocation (user_id);

-- Apple's keys. The proof shows that siwatch wrote the row.
CREATE TABLE signing_key (
  kid          TEXT COLLATE "C"    NOT NULL PRIMARY KEY,
  jwk          TEXT    NOT NULL,
  last_seen_at BIGINT NOT NULL,
  proof        BYTEA    NOT NULL
);

-- Random keys of the database's own, sealed.
CREATE TABLE secret (
  name   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  sealed BYTEA NOT NULL
);

-- Kept by the settling transaction, so that nobody has to count rows.
CREATE TABLE credential_count (
  app   BIGINT NOT NULL,
  state TEXT COLLATE "C"    NOT NULL,
  count BIGINT NOT NULL,
  PRIMARY KEY (app, state)
) WITH (fillfactor = 10);

CREATE TABLE counter (
  name  TEXT COLLATE "C"    NOT NULL PRIMARY KEY,
  value BIGINT NOT NULL
) WITH (fillfactor = 10);

-- What has judged the rejections of an app so far, as JSON; NULL on a server before it has judged anything.
CREATE TABLE breaker (
  app   BIGINT PRIMARY KEY,
  state TEXT,
  proof BYTEA
);

-- When each canary was last asked about out of turn.
CREATE TABLE canary (
  user_id  TEXT COLLATE "C"    NOT NULL,
  client   BIGINT NOT NULL,
  asked_at BIGINT NOT NULL,
  PRIMARY KEY (user_id, client)
);

-- Rejections believed lately, until a notification of each had time to come.
CREATE TABLE admitted_rejection (
  id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  app         BIGINT NOT NULL,
  client      BIGINT NOT NULL,
  user_id     TEXT COLLATE "C"    NOT NULL,
  granted_at  BIGINT NOT NULL,
  rejected_at BIGINT NOT NULL,
  admitted_at BIGINT NOT NULL
);
CREATE INDEX admitted_rejection_age ON admitted_rejection (admitted_at);

-- What operators' commands ask of the running daemon, and its answers. Both are JSON.
CREATE TABLE operator_request (
  id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  request      TEXT    NOT NULL,
  requested_at BIGINT NOT NULL,
  answer       TEXT,
  answered_at  BIGINT,
  -- How far a long one has come; NULL once it is done.
  position     TEXT,
  -- A random number, and what shows that siwatch's user wrote the request, or the position once it has an answer.
  number       BIGINT,
  proof        BYTEA,
  CHECK ((answer IS NULL) = (answered_at IS NULL)),
  CHECK (position IS NULL OR answer IS NOT NULL)
);
CREATE INDEX operator_request_open ON operator_request (id) WHERE answer IS NULL OR position IS NOT NULL;
-- The keys that make a request over HTTP safe to repeat.
-- client: the name of an [[http.client]]. digest: SHA-256 of what was told. row_id: of the row in its queue.
CREATE TABLE request_key (
  client  TEXT COLLATE "C"    NOT NULL,
  key     TEXT COLLATE "C"    NOT NULL,
  digest  BYTEA    NOT NULL,
  row_id  BIGINT NOT NULL,
  told_at BIGINT NOT NULL,
  PRIMARY KEY (client, key)
);
CREATE INDEX request_key_told ON request_key (told_at);

-- How far the changes were delivered to an [[delivery]] of the configuration: all up to the cursor, but for those that failed.
-- stopped_at: since when its receiver is gone, and nothing is sent.
CREATE TABLE delivery (
  name       TEXT COLLATE "C"    NOT NULL PRIMARY KEY,
  cursor     BIGINT NOT NULL,
  stopped_at BIGINT
);

-- due_at: NULL if the change is tried no more.
CREATE TABLE delivery_retry (
  delivery  TEXT COLLATE "C"    NOT NULL,
  change_id BIGINT NOT NULL,
  failures  BIGINT NOT NULL,
  due_at    BIGINT,
  failed_at BIGINT NOT NULL,
  reason    TEXT    NOT NULL,
  PRIMARY KEY (delivery, change_id)
);
CREATE INDEX delivery_retry_due ON delivery_retry (delivery, due_at);

-- told: how many sign-ins, but for those that an undo has taken back or given up. Their first and their last batch.
CREATE TABLE import (
  id        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name      TEXT COLLATE "C"    NOT NULL UNIQUE,
  told      BIGINT NOT NULL,
  told_from BIGINT NOT NULL,
  told_to   BIGINT NOT NULL
);
CREATE TABLE replica (
  owner      TEXT   COLLATE "C" PRIMARY KEY,
  started_at BIGINT NOT NULL,
  seen_at    BIGINT NOT NULL,
  -- What it is and which lanes it could own, as JSON.
  replica    TEXT   NOT NULL,
  lanes      TEXT   NOT NULL
) WITH (fillfactor = 10);

-- Who asks Apple for an app, and, without a name, who keeps house.
CREATE TABLE lane (
  app   TEXT   COLLATE "C" PRIMARY KEY,
  owner TEXT   COLLATE "C" NOT NULL DEFAULT '',
  -- How many owners it has had.
  epoch BIGINT NOT NULL DEFAULT 0,
  until BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 10);

-- The last batch that each has settled.
CREATE TABLE settled_batch (
  owner      TEXT   COLLATE "C" PRIMARY KEY,
  number     BIGINT NOT NULL,
  settled_at BIGINT NOT NULL
) WITH (fillfactor = 10);
CREATE VIEW app_client AS
  SELECT app.name         AS app,
         client.client_id AS client_id
    FROM client
    JOIN app ON app.id = client.app;

CREATE VIEW credential_state AS
  SELECT app.name         AS app,
         client.client_id AS client_id,
         c.user_id        AS user_id,
         c.state          AS state,
         c.reason         AS reason,
         c.changed_at     AS changed_at,
         c.verified_at    AS verified_at,
         c.due_at         AS next_check_at,
         u.email                                                                          AS email,
         u.email_is_private                                                                 AS email_is_private,
         CASE WHEN u.forwarding_at > COALESCE(u.deleted_at, -1) THEN u.forwarding END       AS email_forwarding
    FROM credential c
    JOIN app ON app.id = c.app
    JOIN client ON client.id = c.client
    LEFT JOIN user_event u ON u.user_id = c.user_id AND u.app = c.app;

CREATE VIEW user_state AS
  SELECT app.name     AS app,
         c.user_id    AS user_id,
         c.state      AS state,
         c.reason     AS reason,
         c.changed_at AS changed_at,
         (SELECT MAX(o.verified_at) FROM credential o WHERE o.user_id = c.user_id AND o.app = c.app) AS verified_at,
         u.email                                                                          AS email,
         u.email_is_private                                                                 AS email_is_private,
         CASE WHEN u.forwarding_at > COALESCE(u.deleted_at, -1) THEN u.forwarding END       AS email_forwarding
    FROM credential c
    JOIN app ON app.id = c.app
    LEFT JOIN user_event u ON u.user_id = c.user_id AND u.app = c.app
   WHERE NOT EXISTS (SELECT 1 FROM credential o
                      WHERE o.user_id = c.user_id AND o.app = c.app AND o.client <> c.client
                        AND (o.state <> 'authorized', o.changed_at IS NULL, -COALESCE(o.changed_at, 0),
CASE o.reason WHEN 'account_deleted' THEN 0 WHEN 'revoked_by_app' THEN 1 WHEN 'consent_revoked' THEN 2
                 WHEN 'token_rejected' THEN 3 ELSE 4 END,
o.client) < (c.state <> 'authorized', c.changed_at IS NULL, -COALESCE(c.changed_at, 0),
CASE c.reason WHEN 'account_deleted' THEN 0 WHEN 'revoked_by_app' THEN 1 WHEN 'consent_revoked' THEN 2
                 WHEN 'token_rejected' THEN 3 ELSE 4 END,
c.client));

CREATE VIEW grant_outcome AS
  SELECT id, client_id, user_id, granted_at, 'waiting' AS outcome, NULL AS reason, NULL::bigint AS settled_at,
         NULL::bigint AS signed_in_at, NULL::bigint AS real_user_status
    FROM grant_queue
   UNION ALL
  SELECT grant_id, client_id, user_id, granted_at, outcome, reason, settled_at, COALESCE(signed_in_at, granted_at), real_user_status
    FROM grant_log;

CREATE VIEW revocation_outcome AS
  SELECT id, client_id, user_id, requested_at, CASE WHEN held_at IS NULL THEN 'waiting' ELSE 'held' END AS outcome,
         NULL AS reason, NULL::bigint AS settled_at
    FROM revocation_queue
   UNION ALL
  SELECT request, client_id, user_id, requested_at, outcome, reason, settled_at FROM revocation_log;

CREATE VIEW heartbeat AS
  SELECT MAX(seen_at) AS alive_at FROM replica;
CREATE SEQUENCE notification_queue_quiet MINVALUE 0;
CREATE SEQUENCE grant_queue_quiet MINVALUE 0;
CREATE SEQUENCE revocation_queue_quiet MINVALUE 0;
CREATE SEQUENCE operator_request_quiet MINVALUE 0;

CREATE FUNCTION tell_of_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  gate   REGCLASS := TG_ARGV[0];
  now_ms BIGINT   := extract(epoch FROM clock_timestamp()) * 1000;
BEGIN
  -- A time too far ahead is of a clock that has since been set back.
  -- Anybody who may connect can fill the server's queue of notifications. A full one would refuse this insert; siwatch finds the row
  -- without a word within a second.
  IF COALESCE(pg_sequence_last_value(gate), 0) NOT BETWEEN now_ms AND now_ms + 1000 AND pg_notification_queue_usage() < 0.5 THEN
    PERFORM setval(gate, now_ms + 250);
    PERFORM pg_notify('siwatch_' || 'credential_change'::regclass::oid, TG_TABLE_NAME);
  END IF;
  RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION tell_of_insert() FROM PUBLIC;

CREATE TRIGGER notification_queue_insert AFTER INSERT ON notification_queue FOR EACH STATEMENT EXECUTE FUNCTION tell_of_insert('notification_queue_quiet');
CREATE TRIGGER grant_queue_insert AFTER INSERT ON grant_queue FOR EACH STATEMENT EXECUTE FUNCTION tell_of_insert('grant_queue_quiet');
CREATE TRIGGER revocation_queue_insert AFTER INSERT ON revocation_queue FOR EACH STATEMENT EXECUTE FUNCTION tell_of_insert('revocation_queue_quiet');
CREATE TRIGGER operator_request_insert AFTER INSERT ON operator_request FOR EACH STATEMENT EXECUTE FUNCTION tell_of_insert('operator_request_quiet');
REVOKE ALL ON SCHEMA siwatch FROM PUBLIC;
GRANT USAGE ON SCHEMA siwatch TO siwatch_backend, siwatch_reader, siwatch_notifications, siwatch_grants, siwatch_revocations;
GRANT INSERT (payload, received_at), SELECT (id) ON notification_queue TO siwatch_notifications, siwatch_backend;
GRANT INSERT (client_id, user_id, refresh_token, token_sealed, authorization_code, redirect_uri, nonce, email, email_is_private,
              granted_at),
      SELECT (id) ON grant_queue TO siwatch_grants, siwatch_backend;
GRANT INSERT (client_id, user_id, requested_at), SELECT (id) ON revocation_queue TO siwatch_revocations, siwatch_backend;
GRANT SELECT ON app_client, credential_state, user_state, credential_change, grant_outcome, revocation_outcome, heartbeat
   TO siwatch_reader, siwatch_backend;
