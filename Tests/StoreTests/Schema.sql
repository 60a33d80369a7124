CREATE TABLE notification_queue (
  id          INTEGER PRIMARY KEY AUTOINCREMENT
                      CONSTRAINT "id is not to be given" CHECK (id > 0),
  payload     TEXT    NOT NULL
                      CONSTRAINT "payload is 1 to 65536 bytes" CHECK (length(CAST(payload AS BLOB)) BETWEEN 1 AND 65536),
  received_at INTEGER NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
                      CONSTRAINT "received_at is milliseconds since 1970" CHECK (received_at BETWEEN 1546300800000 AND 4102444800000),
  due_at      INTEGER NOT NULL DEFAULT 0,
  attempts    INTEGER NOT NULL DEFAULT 0,
  claimed_by  TEXT
) STRICT;

CREATE INDEX notification_queue_due ON notification_queue (due_at) WHERE due_at <> 0;

CREATE TRIGGER notification_queue_id BEFORE INSERT ON notification_queue WHEN NEW.id > 0
  BEGIN SELECT RAISE(ABORT, 'id is not to be given'); END;

CREATE TABLE grant_queue (
  id                 INTEGER PRIMARY KEY AUTOINCREMENT
                             CONSTRAINT "id is not to be given" CHECK (id > 0),
  client_id          TEXT    NOT NULL
                             CONSTRAINT "client_id is not empty and has no NUL"
                             CHECK (client_id <> '' AND instr(client_id, char(0)) = 0),
  user_id            TEXT    CONSTRAINT "user_id is not empty and has no NUL"
                             CHECK (user_id <> '' AND instr(user_id, char(0)) = 0),
  refresh_token      TEXT    CONSTRAINT "refresh_token is NULL or not empty, and has no NUL"
                             CHECK (refresh_token <> '' AND instr(refresh_token, char(0)) = 0),
  token_sealed       BLOB    CONSTRAINT "token_sealed is 62 to 8253 bytes" CHECK (length(token_sealed) BETWEEN 62 AND 8253),
  authorization_code TEXT    CONSTRAINT "authorization_code is NULL or not empty, and has no NUL"
                             CHECK (authorization_code <> '' AND instr(authorization_code, char(0)) = 0),
  redirect_uri       TEXT    CONSTRAINT "redirect_uri has no NUL" CHECK (instr(redirect_uri, char(0)) = 0),
  nonce              TEXT    CONSTRAINT "nonce has no NUL" CHECK (instr(nonce, char(0)) = 0),
  email              TEXT    CONSTRAINT "email has no NUL" CHECK (instr(email, char(0)) = 0),
  email_is_private   INTEGER CONSTRAINT "email_is_private is 0, 1 or NULL" CHECK (email_is_private IN (0, 1)),
  granted_at         INTEGER NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
                             CONSTRAINT "granted_at is milliseconds since 1970" CHECK (granted_at BETWEEN 1546300800000 AND 4102444800000),
  due_at             INTEGER NOT NULL DEFAULT 0,
  attempts           INTEGER NOT NULL DEFAULT 0,
  claimed_by         TEXT,
  waits_since        INTEGER,
  is_ahead           INTEGER NOT NULL DEFAULT 0,
  failures           INTEGER NOT NULL DEFAULT 0,
  answer_lost        INTEGER NOT NULL DEFAULT 0,
  detail             TEXT,
  import_id          INTEGER,
  CONSTRAINT "a refresh_token, a token_sealed or an authorization_code"
    CHECK ((refresh_token IS NOT NULL) + (token_sealed IS NOT NULL) + (authorization_code IS NOT NULL) <= 1),
  CONSTRAINT "user_id is missing" CHECK (user_id IS NOT NULL OR authorization_code IS NOT NULL)
) STRICT;

CREATE INDEX grant_queue_due ON grant_queue (due_at) WHERE authorization_code IS NULL;

CREATE INDEX grant_queue_code ON grant_queue (granted_at) WHERE authorization_code IS NOT NULL;

CREATE INDEX grant_queue_code_client ON grant_queue (client_id, due_at, granted_at) WHERE authorization_code IS NOT NULL;

CREATE INDEX grant_queue_user ON grant_queue (user_id, granted_at);

CREATE INDEX grant_queue_import ON grant_queue (import_id, id) WHERE import_id IS NOT NULL;

CREATE TRIGGER grant_queue_id BEFORE INSERT ON grant_queue WHEN NEW.id > 0
  BEGIN SELECT RAISE(ABORT, 'id is not to be given'); END;

CREATE TABLE revocation_queue (
  id           INTEGER PRIMARY KEY AUTOINCREMENT
                       CONSTRAINT "id is not to be given" CHECK (id > 0),
  client_id    TEXT    NOT NULL
                       CONSTRAINT "client_id is not empty and has no NUL"
                       CHECK (client_id <> '' AND instr(client_id, char(0)) = 0),
  user_id      TEXT    NOT NULL
                       CONSTRAINT "user_id is not empty and has no NUL"
                       CHECK (user_id <> '' AND instr(user_id, char(0)) = 0),
  requested_at INTEGER NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
                       CONSTRAINT "requested_at is milliseconds since 1970" CHECK (requested_at BETWEEN 1546300800000 AND 4102444800000),
  due_at       INTEGER NOT NULL DEFAULT 0,
  attempts     INTEGER NOT NULL DEFAULT 0,
  claimed_by   TEXT,
  opened_at    INTEGER,
  held_at      INTEGER,
  confirmed_at INTEGER,
  confirmed_proof BLOB,
  effective_at INTEGER
) STRICT;

CREATE INDEX revocation_queue_due ON revocation_queue (due_at) WHERE opened_at IS NULL AND held_at IS NULL;

CREATE INDEX revocation_queue_held ON revocation_queue (client_id, id) WHERE held_at IS NOT NULL;

CREATE INDEX revocation_queue_user ON revocation_queue (user_id) WHERE opened_at IS NULL;

CREATE TRIGGER revocation_queue_id BEFORE INSERT ON revocation_queue WHEN NEW.id > 0
  BEGIN SELECT RAISE(ABORT, 'id is not to be given'); END;

CREATE TABLE notification_log (
  id          INTEGER PRIMARY KEY,
  app         TEXT    NOT NULL,
  jti         TEXT    NOT NULL,
  client_id   TEXT    NOT NULL,
  user_id     TEXT    NOT NULL,
  type        TEXT    NOT NULL,
  event_time  INTEGER NOT NULL,
  payload     TEXT,
  received_at INTEGER NOT NULL,
  settled_at  INTEGER NOT NULL,
  outcome     TEXT    NOT NULL CHECK (outcome = 'applied' OR outcome = 'stale' OR outcome = 'duplicate' OR outcome = 'unknown_type'),
  CHECK (payload IS NOT NULL OR outcome = 'duplicate')
) STRICT;

CREATE UNIQUE INDEX notification_log_event ON notification_log (event_time, user_id, app, type)
  WHERE outcome <> 'duplicate';

CREATE TABLE notification_quarantine (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  payload     TEXT    NOT NULL,
  received_at INTEGER NOT NULL,
  rejected_at INTEGER NOT NULL,
  reason      TEXT    NOT NULL,
  detail      TEXT    NOT NULL
) STRICT;

CREATE INDEX notification_quarantine_unsigned ON notification_quarantine (id) WHERE (reason = 'malformed' OR reason = 'not_an_event' OR reason = 'wrong_algorithm' OR reason = 'forbidden_header' OR reason = 'bad_signature');

CREATE INDEX notification_quarantine_waiting ON notification_quarantine (id) WHERE reason = 'unknown_key';

CREATE INDEX notification_quarantine_key ON notification_quarantine (detail) WHERE reason = 'unknown_key';

CREATE TABLE grant_log (
  id         INTEGER PRIMARY KEY,
  grant_id   INTEGER NOT NULL,
  client_id  TEXT    NOT NULL,
  user_id    TEXT,
  granted_at INTEGER NOT NULL,
  settled_at INTEGER NOT NULL,
  outcome    TEXT    NOT NULL CHECK (outcome = 'applied' OR outcome = 'stale' OR outcome = 'duplicate' OR outcome = 'retold' OR outcome = 'in_future' OR outcome = 'rejected'),
  reason     TEXT,
  detail     TEXT,
  -- Of a code, what the id_token says. Otherwise NULL.
  signed_in_at     INTEGER,
  real_user_status INTEGER,
  CHECK ((outcome = 'rejected') = (reason IS NOT NULL))
) STRICT;

CREATE INDEX grant_log_grant ON grant_log (grant_id);

CREATE TABLE revocation_log (
  id               INTEGER PRIMARY KEY,
  request          INTEGER NOT NULL,
  app              TEXT,
  client_id        TEXT    NOT NULL,
  user_id          TEXT    NOT NULL,
  requested_at     INTEGER NOT NULL,
  token_granted_at INTEGER,
  key_id           TEXT,
  before_at        INTEGER,
  before_date      INTEGER,
  before_answer    TEXT CHECK (before_answer IN ('accepted', 'invalid_grant')),
  revoke_at        INTEGER,
  revoke_date      INTEGER,
  revoke_answer    TEXT CHECK (revoke_answer IN ('revoked', 'unheard')),
  after_at         INTEGER,
  after_date       INTEGER,
  after_answer     TEXT CHECK (after_answer IN ('accepted', 'invalid_grant')),
  settled_at       INTEGER NOT NULL,
  outcome          TEXT    NOT NULL
                           CHECK (outcome = 'proved' OR outcome = 'already_invalid' OR outcome = 'superseded' OR outcome = 'no_token' OR outcome = 'no_valid_token' OR outcome = 'rejected'),
  reason           TEXT,
  effective_at     INTEGER,
  proof            BLOB,
  CHECK ((outcome = 'rejected') = (reason IS NOT NULL))
) STRICT;

CREATE INDEX revocation_log_user ON revocation_log (user_id);

CREATE INDEX revocation_log_request ON revocation_log (request);

CREATE TABLE credential_change (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  app              TEXT    NOT NULL,
  client_id        TEXT    NOT NULL,
  user_id          TEXT    NOT NULL,
  kind             TEXT    NOT NULL CHECK (kind IN ('state', 'email')),
  from_state       TEXT,
  to_state         TEXT,
  reason           TEXT,
  email            TEXT,
  email_forwarding TEXT,
  source           TEXT    NOT NULL CHECK (source = 'notification' OR source = 'refresh' OR source = 'grant' OR source = 'revocation'),
  notification_jti TEXT,
  occurred_at      INTEGER NOT NULL,
  recorded_at      INTEGER NOT NULL,
  CHECK ((kind = 'state') = (to_state IS NOT NULL AND reason IS NOT NULL))
) STRICT;

CREATE TABLE app (
  id         INTEGER PRIMARY KEY,
  name       TEXT    NOT NULL UNIQUE,
  -- Since when an operator has its checks paused.
  paused_at  INTEGER,
  -- What shows that siwatch wrote that.
  paused_proof BLOB,
  unverified INTEGER NOT NULL DEFAULT 0,
  never_accepted INTEGER NOT NULL DEFAULT 0,
  foreign_tokens INTEGER NOT NULL DEFAULT 0,
  -- Rejections that wait to be believed; those believed for an hour; and those of which no notification came.
  pending    INTEGER NOT NULL DEFAULT 0,
  admitted   INTEGER NOT NULL DEFAULT 0,
  missed     INTEGER NOT NULL DEFAULT 0,
  -- Requests to revoke: how many were opened in the hour that began then; since when the limit holds the others, and how many.
  revocation_hour_at   INTEGER,
  revocations_opened   INTEGER NOT NULL DEFAULT 0,
  revocations_held_at  INTEGER,
  revocations_held     INTEGER NOT NULL DEFAULT 0,
  revocations_proof    BLOB,
  -- Sign-ins of users whose end Apple has signed, and those that undid it and that nothing at Apple proves.
  ended      INTEGER NOT NULL DEFAULT 0,
  unproven   INTEGER NOT NULL DEFAULT 0
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
  state             TEXT    NOT NULL CHECK (state = 'authorized' OR state = 'revoked' OR state = 'notFound'),
  reason            TEXT    NOT NULL CHECK (reason = 'granted' OR reason = 'token_rejected' OR reason = 'consent_revoked' OR reason = 'account_deleted' OR reason = 'revoked_by_app' OR reason = 'never_granted'),
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
  answer            TEXT CHECK (answer = 'valid' OR answer = 'rejected' OR answer = 'another_user' OR answer = 'unclear'),
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
  -- The import that alone has told of it.
  imported_by          INTEGER,
  CHECK ((token_granted_at IS NULL) = (token_fingerprint IS NULL)),
  CHECK (sealed_token IS NULL OR token_fingerprint IS NOT NULL),
  CHECK ((former_granted_at IS NULL) = (former_fingerprint IS NULL)),
  CHECK (former_sealed IS NULL OR former_fingerprint IS NOT NULL),
  CHECK ((pending_since IS NULL) = (pending_asked_at IS NULL) AND (pending_since IS NULL) = (pending_key IS NULL)),
  PRIMARY KEY (user_id, client)
) STRICT, WITHOUT ROWID;

CREATE INDEX credential_due ON credential (client, due_at) WHERE due_at IS NOT NULL;

CREATE INDEX credential_first ON credential (client, first_check, due_at) WHERE first_check IS NOT NULL;

CREATE INDEX credential_never_accepted ON credential (app, user_id) WHERE never_accepted;

CREATE INDEX credential_foreign ON credential (app, user_id) WHERE answer = 'another_user';

CREATE INDEX credential_team ON credential (app, verified_team) WHERE verified_team IS NOT NULL AND sealed_token IS NOT NULL;

CREATE INDEX credential_rejected ON credential (rejected_at) WHERE rejected_at IS NOT NULL AND sealed_token IS NOT NULL;

CREATE INDEX credential_pending ON credential (app, pending_since) WHERE pending_since IS NOT NULL;

CREATE INDEX credential_pending_due ON credential (app, due_at) WHERE pending_since IS NOT NULL;

CREATE INDEX credential_doubted ON credential (app, user_id) WHERE answer = 'rejected' AND due_at IS NOT NULL;

CREATE INDEX credential_imported ON credential (imported_by, user_id) WHERE imported_by IS NOT NULL;

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
  standing          TEXT    NOT NULL CHECK (standing = 'accepted' OR standing = 'accepted_before' OR standing = 'never_accepted'),
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
  -- What shows that siwatch has taken up the request with this token.
  proof             BLOB,
  PRIMARY KEY (request, client, token_fingerprint)
) STRICT, WITHOUT ROWID;

CREATE INDEX revocation_due ON revocation (client, due_at);

CREATE INDEX revocation_user ON revocation (user_id);

CREATE TABLE signing_key (
  kid          TEXT    NOT NULL PRIMARY KEY,
  jwk          TEXT    NOT NULL,
  last_seen_at INTEGER NOT NULL,
  proof        BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE secret (
  name   TEXT NOT NULL PRIMARY KEY,
  sealed BLOB NOT NULL
) STRICT, WITHOUT ROWID;

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

CREATE TABLE breaker (
  app   INTEGER PRIMARY KEY REFERENCES app (id),
  state TEXT    NOT NULL,
  proof BLOB
) STRICT;

CREATE TABLE canary (
  user_id  TEXT    NOT NULL,
  client   INTEGER NOT NULL REFERENCES client (id),
  asked_at INTEGER NOT NULL,
  PRIMARY KEY (user_id, client)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE operator_request (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  request      TEXT    NOT NULL,
  requested_at INTEGER NOT NULL,
  answer       TEXT,
  answered_at  INTEGER,
  -- How far a long one has come; NULL once it is done.
  position     TEXT,
  -- A random number, and what shows that siwatch's user wrote the request, or the position once it has an answer.
  number       INTEGER,
  proof        BLOB,
  CHECK ((answer IS NULL) = (answered_at IS NULL)),
  CHECK (position IS NULL OR answer IS NOT NULL)
) STRICT;

CREATE INDEX operator_request_open ON operator_request (id) WHERE answer IS NULL OR position IS NOT NULL;

CREATE TABLE request_key (
  client  TEXT    NOT NULL,
  key     TEXT    NOT NULL,
  digest  BLOB    NOT NULL,
  row_id  INTEGER NOT NULL,
  told_at INTEGER NOT NULL,
  PRIMARY KEY (client, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX request_key_told ON request_key (told_at);

CREATE TABLE delivery (
  name       TEXT    NOT NULL PRIMARY KEY,
  cursor     INTEGER NOT NULL,
  stopped_at INTEGER
) STRICT, WITHOUT ROWID;

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

CREATE TABLE import (
  id        INTEGER PRIMARY KEY,
  name      TEXT    NOT NULL UNIQUE,
  told      INTEGER NOT NULL,
  told_from INTEGER NOT NULL,
  told_to   INTEGER NOT NULL
) STRICT;

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
  SELECT id, client_id, user_id, granted_at, 'waiting' AS outcome, NULL AS reason, NULL AS settled_at,
         NULL AS signed_in_at, NULL AS real_user_status
    FROM grant_queue
   UNION ALL
  SELECT grant_id, client_id, user_id, granted_at, outcome, reason, settled_at, COALESCE(signed_in_at, granted_at), real_user_status
    FROM grant_log;

CREATE VIEW revocation_outcome AS
  SELECT id, client_id, user_id, requested_at, CASE WHEN held_at IS NULL THEN 'waiting' ELSE 'held' END AS outcome,
         NULL AS reason, NULL AS settled_at
    FROM revocation_queue
   UNION ALL
  SELECT request, client_id, user_id, requested_at, outcome, reason, settled_at FROM revocation_log;

CREATE VIEW heartbeat AS
  SELECT (SELECT value FROM counter WHERE name = 'alive_at') AS alive_at;
