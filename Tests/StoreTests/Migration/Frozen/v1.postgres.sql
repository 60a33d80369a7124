CREATE SCHEMA frozen_schema;
CREATE FUNCTION frozen_schema.tell_of_insert() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'frozen_schema', 'pg_temp'
    AS $$
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
CREATE TABLE frozen_schema.admitted_rejection (
    id bigint NOT NULL,
    app bigint NOT NULL,
    client bigint NOT NULL,
    user_id text NOT NULL COLLATE pg_catalog."C",
    granted_at bigint NOT NULL,
    rejected_at bigint NOT NULL,
    admitted_at bigint NOT NULL
);
ALTER TABLE frozen_schema.admitted_rejection ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME frozen_schema.admitted_rejection_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE frozen_schema.app (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    paused_at bigint,
    paused_proof bytea,
    unverified bigint DEFAULT 0 NOT NULL,
    never_accepted bigint DEFAULT 0 NOT NULL,
    foreign_tokens bigint DEFAULT 0 NOT NULL,
    pending bigint DEFAULT 0 NOT NULL,
    admitted bigint DEFAULT 0 NOT NULL,
    missed bigint DEFAULT 0 NOT NULL,
    revocation_hour_at bigint,
    revocations_opened bigint DEFAULT 0 NOT NULL,
    revocations_held_at bigint,
    revocations_held bigint DEFAULT 0 NOT NULL,
    revocations_proof bytea,
    ended bigint DEFAULT 0 NOT NULL,
    unproven bigint DEFAULT 0 NOT NULL
);
CREATE TABLE frozen_schema.client (
    id bigint NOT NULL,
    client_id text NOT NULL COLLATE pg_catalog."C",
    app bigint NOT NULL,
    valid_at bigint,
    proved_at bigint,
    refused_since bigint,
    refused_at bigint,
    refusal text,
    CONSTRAINT client_check CHECK ((((refused_at IS NULL) = (refused_since IS NULL)) AND ((refused_at IS NULL) = (refusal IS NULL))))
);
CREATE VIEW frozen_schema.app_client AS
 SELECT app.name AS app,
    client.client_id
   FROM (frozen_schema.client
     JOIN frozen_schema.app ON ((app.id = client.app)));
ALTER TABLE frozen_schema.app ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME frozen_schema.app_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE frozen_schema.breaker (
    app bigint NOT NULL,
    state text,
    proof bytea
);
CREATE TABLE frozen_schema.canary (
    user_id text NOT NULL COLLATE pg_catalog."C",
    client bigint NOT NULL,
    asked_at bigint NOT NULL
);
ALTER TABLE frozen_schema.client ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME frozen_schema.client_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE frozen_schema.counter (
    name text NOT NULL COLLATE pg_catalog."C",
    value bigint NOT NULL
)
WITH (fillfactor='10');
CREATE TABLE frozen_schema.credential (
    user_id text NOT NULL COLLATE pg_catalog."C",
    client bigint NOT NULL,
    app bigint NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    changed_at bigint,
    granted_at bigint,
    token_granted_at bigint,
    token_fingerprint bytea,
    sealed_token bytea,
    revoked_at bigint,
    verified_at bigint,
    verified_team text,
    rejected_at bigint,
    answered_at bigint,
    answer text,
    pending_since bigint,
    pending_asked_at bigint,
    pending_key text,
    due_at bigint,
    failures bigint DEFAULT 0 NOT NULL,
    first_check smallint,
    unverified boolean DEFAULT false NOT NULL,
    never_accepted boolean DEFAULT false NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    claimed_by text,
    former_granted_at bigint,
    former_fingerprint bytea,
    former_sealed bytea,
    former_verified_at bigint,
    former_verified_team text,
    older_tokens bytea,
    imported_by bigint,
    CONSTRAINT credential_answer_check CHECK ((answer = ANY (ARRAY['valid'::text, 'rejected'::text, 'another_user'::text, 'unclear'::text]))),
    CONSTRAINT credential_check CHECK (((changed_at IS NOT NULL) OR (reason = 'never_granted'::text))),
    CONSTRAINT credential_check1 CHECK (((pending_since IS NULL) OR ((sealed_token IS NOT NULL) AND (answered_at IS NOT NULL)))),
    CONSTRAINT credential_check2 CHECK (((due_at IS NULL) OR (sealed_token IS NOT NULL))),
    CONSTRAINT credential_check3 CHECK (((token_granted_at IS NULL) = (token_fingerprint IS NULL))),
    CONSTRAINT credential_check4 CHECK (((sealed_token IS NULL) OR (token_fingerprint IS NOT NULL))),
    CONSTRAINT credential_check5 CHECK (((former_granted_at IS NULL) = (former_fingerprint IS NULL))),
    CONSTRAINT credential_check6 CHECK (((former_sealed IS NULL) OR (former_fingerprint IS NOT NULL))),
    CONSTRAINT credential_check7 CHECK ((((pending_since IS NULL) = (pending_asked_at IS NULL)) AND ((pending_since IS NULL) = (pending_key IS NULL)))),
    CONSTRAINT credential_first_check_check CHECK ((first_check = ANY (ARRAY[0, 1]))),
    CONSTRAINT credential_reason_check CHECK ((reason = ANY (ARRAY['granted'::text, 'token_rejected'::text, 'consent_revoked'::text, 'account_deleted'::text, 'revoked_by_app'::text, 'never_granted'::text]))),
    CONSTRAINT credential_state_check CHECK ((state = ANY (ARRAY['authorized'::text, 'revoked'::text, 'notFound'::text])))
);
CREATE TABLE frozen_schema.credential_change (
    id bigint NOT NULL,
    app text NOT NULL COLLATE pg_catalog."C",
    client_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    from_state text,
    to_state text,
    reason text,
    email text,
    email_forwarding text,
    source text NOT NULL,
    notification_jti text,
    occurred_at bigint NOT NULL,
    recorded_at bigint NOT NULL,
    CONSTRAINT credential_change_check CHECK (((kind = 'state'::text) = ((to_state IS NOT NULL) AND (reason IS NOT NULL)))),
    CONSTRAINT credential_change_kind_check CHECK ((kind = ANY (ARRAY['state'::text, 'email'::text]))),
    CONSTRAINT credential_change_source_check CHECK ((source = ANY (ARRAY['notification'::text, 'refresh'::text, 'grant'::text, 'revocation'::text])))
);
ALTER TABLE frozen_schema.credential_change ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME frozen_schema.credential_change_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE frozen_schema.credential_count (
    app bigint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    count bigint NOT NULL
)
WITH (fillfactor='10');
CREATE TABLE frozen_schema.user_event (
    user_id text NOT NULL COLLATE pg_catalog."C",
    app bigint NOT NULL,
    consent_revoked_at bigint,
    deleted_at bigint,
    revoked_at bigint,
    email_at bigint,
    email_rank smallint,
    email text,
    email_is_private integer,
    forwarding_at bigint,
    forwarding text,
    CONSTRAINT user_event_email_is_private_check CHECK ((email_is_private = ANY (ARRAY[0, 1]))),
    CONSTRAINT user_event_email_rank_check CHECK ((email_rank = ANY (ARRAY[0, 1]))),
    CONSTRAINT user_event_forwarding_check CHECK ((forwarding = ANY (ARRAY['enabled'::text, 'disabled'::text])))
);
CREATE VIEW frozen_schema.credential_state AS
 SELECT app.name AS app,
    client.client_id,
    c.user_id,
    c.state,
    c.reason,
    c.changed_at,
    c.verified_at,
    c.due_at AS next_check_at,
    u.email,
    u.email_is_private,
        CASE
            WHEN (u.forwarding_at > COALESCE(u.deleted_at, ('-1'::integer)::bigint)) THEN u.forwarding
            ELSE NULL::text
        END AS email_forwarding
   FROM (((frozen_schema.credential c
     JOIN frozen_schema.app ON ((app.id = c.app)))
     JOIN frozen_schema.client ON ((client.id = c.client)))
     LEFT JOIN frozen_schema.user_event u ON (((u.user_id = c.user_id) AND (u.app = c.app))));
CREATE TABLE frozen_schema.delivery (
    name text NOT NULL COLLATE pg_catalog."C",
    cursor bigint NOT NULL,
    stopped_at bigint
);
CREATE TABLE frozen_schema.delivery_retry (
    delivery text NOT NULL COLLATE pg_catalog."C",
    change_id bigint NOT NULL,
    failures bigint NOT NULL,
    due_at bigint,
    failed_at bigint NOT NULL,
    reason text NOT NULL
);
CREATE TABLE frozen_schema.grant_log (
    id bigint NOT NULL,
    grant_id bigint NOT NULL,
    client_id text NOT NULL COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    granted_at bigint NOT NULL,
    settled_at bigint NOT NULL,
    outcome text NOT NULL,
    reason text,
    detail text,
    signed_in_at bigint,
    real_user_status bigint,
    CONSTRAINT grant_log_check CHECK (((outcome = 'rejected'::text) = (reason IS NOT NULL))),
    CONSTRAINT grant_log_outcome_check CHECK ((outcome = ANY (ARRAY['applied'::text, 'stale'::text, 'duplicate'::text, 'retold'::text, 'in_future'::text, 'rejected'::text])))
);
ALTER TABLE frozen_schema.grant_log ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME frozen_schema.grant_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE frozen_schema.grant_queue (
    id bigint NOT NULL,
    client_id text NOT NULL COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    refresh_token text,
    token_sealed bytea,
    authorization_code text,
    redirect_uri text,
    nonce text,
    email text,
    email_is_private integer,
    granted_at bigint DEFAULT (floor((EXTRACT(epoch FROM clock_timestamp()) * (1000)::numeric)))::bigint NOT NULL,
    due_at bigint DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    claimed_by text,
    waits_since bigint,
    is_ahead integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    answer_lost integer DEFAULT 0 NOT NULL,
    detail text,
    import_id bigint,
    CONSTRAINT "a refresh_token, a token_sealed or an authorization_code" CHECK ((num_nonnulls(refresh_token, token_sealed, authorization_code) <= 1)),
    CONSTRAINT "authorization_code is NULL or not empty, and has no NUL" CHECK ((authorization_code <> ''::text)),
    CONSTRAINT "authorization_code is at most 65536 bytes" CHECK ((octet_length(authorization_code) <= 65536)),
    CONSTRAINT "client_id is at most 2048 bytes" CHECK ((octet_length(client_id) <= 2048)),
    CONSTRAINT "client_id is not empty and has no NUL" CHECK ((client_id <> ''::text)),
    CONSTRAINT "email is at most 65536 bytes" CHECK ((octet_length(email) <= 65536)),
    CONSTRAINT "email_is_private is 0, 1 or NULL" CHECK ((email_is_private = ANY (ARRAY[0, 1]))),
    CONSTRAINT "granted_at is milliseconds since 1970" CHECK (((granted_at >= '1546300800000'::bigint) AND (granted_at <= '4102444800000'::bigint))),
    CONSTRAINT "id is not to be given" CHECK ((id > 0)),
    CONSTRAINT "nonce is at most 65536 bytes" CHECK ((octet_length(nonce) <= 65536)),
    CONSTRAINT "redirect_uri is at most 65536 bytes" CHECK ((octet_length(redirect_uri) <= 65536)),
    CONSTRAINT "refresh_token is NULL or not empty, and has no NUL" CHECK ((refresh_token <> ''::text)),
    CONSTRAINT "refresh_token is at most 65536 bytes" CHECK ((octet_length(refresh_token) <= 65536)),
    CONSTRAINT "token_sealed is 62 to 8253 bytes" CHECK (((octet_length(token_sealed) >= 62) AND (octet_length(token_sealed) <= 8253))),
    CONSTRAINT "user_id is at most 2048 bytes" CHECK ((octet_length(user_id) <= 2048)),
    CONSTRAINT "user_id is missing" CHECK (((user_id IS NOT NULL) OR (authorization_code IS NOT NULL))),
    CONSTRAINT "user_id is not empty and has no NUL" CHECK ((user_id <> ''::text))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');
CREATE VIEW frozen_schema.grant_outcome AS
 SELECT grant_queue.id,
    grant_queue.client_id,
    grant_queue.user_id,
    grant_queue.granted_at,
    'waiting'::text AS outcome,
    NULL::text AS reason,
    NULL::bigint AS settled_at,
    NULL::bigint AS signed_in_at,
    NULL::bigint AS real_user_status
   FROM frozen_schema.grant_queue
UNION ALL
 SELECT grant_log.grant_id AS id,
    grant_log.client_id,
    grant_log.user_id,
    grant_log.granted_at,
    grant_log.outcome,
    grant_log.reason,
    grant_log.settled_at,
    COALESCE(grant_log.signed_in_at, grant_log.granted_at) AS signed_in_at,
    grant_log.real_user_status
   FROM frozen_schema.grant_log;
ALTER TABLE frozen_schema.grant_queue ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME frozen_schema.grant_queue_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE SEQUENCE frozen_schema.grant_queue_quiet
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;
CREATE TABLE frozen_schema.replica (
    owner text NOT NULL COLLATE pg_catalog."C",
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    replica text NOT NULL,
    lanes text NOT NULL
)
WITH (fillfactor='10');
CREATE VIEW frozen_schema.heartbeat AS
 SELECT max(replica.seen_at) AS alive_at
   FROM frozen_schema.replica;
CREATE TABLE frozen_schema.import (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    told bigint NOT NULL,
    told_from bigint NOT NULL,
    told_to bigint NOT NULL
);
ALTER TABLE frozen_schema.import ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME frozen_schema.import_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE frozen_schema.lane (
    app text NOT NULL COLLATE pg_catalog."C",
    owner text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    epoch bigint DEFAULT 0 NOT NULL,
    until bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='10');
CREATE TABLE frozen_schema.notification_log (
    id bigint NOT NULL,
    app text NOT NULL COLLATE pg_catalog."C",
    jti text NOT NULL,
    client_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    event_time bigint NOT NULL,
    payload bytea,
    received_at bigint NOT NULL,
    settled_at bigint NOT NULL,
    outcome text NOT NULL,
    CONSTRAINT notification_log_check CHECK (((payload IS NOT NULL) OR (outcome = 'duplicate'::text))),
    CONSTRAINT notification_log_outcome_check CHECK ((outcome = ANY (ARRAY['applied'::text, 'stale'::text, 'duplicate'::text, 'unknown_type'::text])))
);
ALTER TABLE frozen_schema.notification_log ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME frozen_schema.notification_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE frozen_schema.notification_quarantine (
    id bigint NOT NULL,
    payload bytea NOT NULL,
    received_at bigint NOT NULL,
    rejected_at bigint NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL
);
ALTER TABLE frozen_schema.notification_quarantine ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME frozen_schema.notification_quarantine_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE frozen_schema.notification_queue (
    id bigint NOT NULL,
    payload bytea NOT NULL,
    received_at bigint DEFAULT (floor((EXTRACT(epoch FROM clock_timestamp()) * (1000)::numeric)))::bigint NOT NULL,
    due_at bigint DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    claimed_by text,
    CONSTRAINT "id is not to be given" CHECK ((id > 0)),
    CONSTRAINT "payload is 1 to 65536 bytes" CHECK (((octet_length(payload) >= 1) AND (octet_length(payload) <= 65536))),
    CONSTRAINT "received_at is milliseconds since 1970" CHECK (((received_at >= '1546300800000'::bigint) AND (received_at <= '4102444800000'::bigint)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');
ALTER TABLE frozen_schema.notification_queue ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME frozen_schema.notification_queue_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE SEQUENCE frozen_schema.notification_queue_quiet
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;
CREATE TABLE frozen_schema.operator_request (
    id bigint NOT NULL,
    request text NOT NULL,
    requested_at bigint NOT NULL,
    answer text,
    answered_at bigint,
    "position" text,
    number bigint,
    proof bytea,
    CONSTRAINT operator_request_check CHECK (((answer IS NULL) = (answered_at IS NULL))),
    CONSTRAINT operator_request_check1 CHECK ((("position" IS NULL) OR (answer IS NOT NULL)))
);
ALTER TABLE frozen_schema.operator_request ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME frozen_schema.operator_request_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE SEQUENCE frozen_schema.operator_request_quiet
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;
CREATE TABLE frozen_schema.request_key (
    client text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    digest bytea NOT NULL,
    row_id bigint NOT NULL,
    told_at bigint NOT NULL
);
CREATE TABLE frozen_schema.revocation (
    request bigint NOT NULL,
    client bigint NOT NULL,
    app bigint NOT NULL,
    user_id text NOT NULL COLLATE pg_catalog."C",
    requested_at bigint NOT NULL,
    token_granted_at bigint NOT NULL,
    token_fingerprint bytea NOT NULL,
    sealed_token bytea NOT NULL,
    standing text NOT NULL,
    verified_team text,
    key_id text,
    before_at bigint,
    before_date bigint,
    before_answer text,
    revoke_at bigint,
    revoke_date bigint,
    revoke_answer text,
    after_at bigint,
    after_date bigint,
    after_answer text,
    rounds bigint DEFAULT 0 NOT NULL,
    failures bigint DEFAULT 0 NOT NULL,
    due_at bigint NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    claimed_by text,
    proof bytea,
    CONSTRAINT revocation_standing_check CHECK ((standing = ANY (ARRAY['accepted'::text, 'accepted_before'::text, 'never_accepted'::text])))
);
CREATE TABLE frozen_schema.revocation_log (
    id bigint NOT NULL,
    request bigint NOT NULL,
    app text COLLATE pg_catalog."C",
    client_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    requested_at bigint NOT NULL,
    token_granted_at bigint,
    key_id text,
    before_at bigint,
    before_date bigint,
    before_answer text,
    revoke_at bigint,
    revoke_date bigint,
    revoke_answer text,
    after_at bigint,
    after_date bigint,
    after_answer text,
    settled_at bigint NOT NULL,
    outcome text NOT NULL,
    reason text,
    effective_at bigint,
    proof bytea,
    CONSTRAINT revocation_log_after_answer_check CHECK ((after_answer = ANY (ARRAY['accepted'::text, 'invalid_grant'::text]))),
    CONSTRAINT revocation_log_before_answer_check CHECK ((before_answer = ANY (ARRAY['accepted'::text, 'invalid_grant'::text]))),
    CONSTRAINT revocation_log_check CHECK (((outcome = 'rejected'::text) = (reason IS NOT NULL))),
    CONSTRAINT revocation_log_outcome_check CHECK ((outcome = ANY (ARRAY['proved'::text, 'already_invalid'::text, 'superseded'::text, 'no_token'::text, 'no_valid_token'::text, 'rejected'::text]))),
    CONSTRAINT revocation_log_revoke_answer_check CHECK ((revoke_answer = ANY (ARRAY['revoked'::text, 'unheard'::text])))
);
ALTER TABLE frozen_schema.revocation_log ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME frozen_schema.revocation_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE frozen_schema.revocation_queue (
    id bigint NOT NULL,
    client_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    requested_at bigint DEFAULT (floor((EXTRACT(epoch FROM clock_timestamp()) * (1000)::numeric)))::bigint NOT NULL,
    due_at bigint DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    claimed_by text,
    opened_at bigint,
    held_at bigint,
    confirmed_at bigint,
    confirmed_proof bytea,
    effective_at bigint,
    CONSTRAINT "client_id is at most 2048 bytes" CHECK ((octet_length(client_id) <= 2048)),
    CONSTRAINT "client_id is not empty and has no NUL" CHECK ((client_id <> ''::text)),
    CONSTRAINT "id is not to be given" CHECK ((id > 0)),
    CONSTRAINT "requested_at is milliseconds since 1970" CHECK (((requested_at >= '1546300800000'::bigint) AND (requested_at <= '4102444800000'::bigint))),
    CONSTRAINT "user_id is at most 2048 bytes" CHECK ((octet_length(user_id) <= 2048)),
    CONSTRAINT "user_id is not empty and has no NUL" CHECK ((user_id <> ''::text))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');
CREATE VIEW frozen_schema.revocation_outcome AS
 SELECT revocation_queue.id,
    revocation_queue.client_id,
    revocation_queue.user_id,
    revocation_queue.requested_at,
        CASE
            WHEN (revocation_queue.held_at IS NULL) THEN 'waiting'::text
            ELSE 'held'::text
        END AS outcome,
    NULL::text AS reason,
    NULL::bigint AS settled_at
   FROM frozen_schema.revocation_queue
UNION ALL
 SELECT revocation_log.request AS id,
    revocation_log.client_id,
    revocation_log.user_id,
    revocation_log.requested_at,
    revocation_log.outcome,
    revocation_log.reason,
    revocation_log.settled_at
   FROM frozen_schema.revocation_log;
ALTER TABLE frozen_schema.revocation_queue ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME frozen_schema.revocation_queue_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE SEQUENCE frozen_schema.revocation_queue_quiet
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;
CREATE TABLE frozen_schema.schema_version (
    version integer NOT NULL,
    compatible_from integer NOT NULL
);
CREATE TABLE frozen_schema.secret (
    name text NOT NULL COLLATE pg_catalog."C",
    sealed bytea NOT NULL
);
CREATE TABLE frozen_schema.settled_batch (
    owner text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    settled_at bigint NOT NULL
)
WITH (fillfactor='10');
CREATE TABLE frozen_schema.signing_key (
    kid text NOT NULL COLLATE pg_catalog."C",
    jwk text NOT NULL,
    last_seen_at bigint NOT NULL,
    proof bytea NOT NULL
);
CREATE VIEW frozen_schema.user_state AS
 SELECT app.name AS app,
    c.user_id,
    c.state,
    c.reason,
    c.changed_at,
    ( SELECT max(o.verified_at) AS max
           FROM frozen_schema.credential o
          WHERE ((o.user_id = c.user_id) AND (o.app = c.app))) AS verified_at,
    u.email,
    u.email_is_private,
        CASE
            WHEN (u.forwarding_at > COALESCE(u.deleted_at, ('-1'::integer)::bigint)) THEN u.forwarding
            ELSE NULL::text
        END AS email_forwarding
   FROM ((frozen_schema.credential c
     JOIN frozen_schema.app ON ((app.id = c.app)))
     LEFT JOIN frozen_schema.user_event u ON (((u.user_id = c.user_id) AND (u.app = c.app))))
  WHERE (NOT (EXISTS ( SELECT 1
           FROM frozen_schema.credential o
          WHERE ((o.user_id = c.user_id) AND (o.app = c.app) AND (o.client <> c.client) AND (ROW((o.state <> 'authorized'::text), (o.changed_at IS NULL), (- COALESCE(o.changed_at, (0)::bigint)),
                CASE o.reason
                    WHEN 'account_deleted'::text THEN 0
                    WHEN 'revoked_by_app'::text THEN 1
                    WHEN 'consent_revoked'::text THEN 2
                    WHEN 'token_rejected'::text THEN 3
                    ELSE 4
                END, o.client) < ROW((c.state <> 'authorized'::text), (c.changed_at IS NULL), (- COALESCE(c.changed_at, (0)::bigint)),
                CASE c.reason
                    WHEN 'account_deleted'::text THEN 0
                    WHEN 'revoked_by_app'::text THEN 1
                    WHEN 'consent_revoked'::text THEN 2
                    WHEN 'token_rejected'::text THEN 3
                    ELSE 4
                END, c.client))))));
INSERT INTO frozen_schema.admitted_rejection OVERRIDING SYSTEM VALUE VALUES (1, 1, 1, 'person 4', 1750000000000, 1750014400000, 1750018000000);
INSERT INTO frozen_schema.admitted_rejection OVERRIDING SYSTEM VALUE VALUES (2, 1, 1, 'person 1', 1, 2, 3);
INSERT INTO frozen_schema.admitted_rejection OVERRIDING SYSTEM VALUE VALUES (3, 1, 1, 'person 10', 1, 2, 3);
INSERT INTO frozen_schema.app OVERRIDING SYSTEM VALUE VALUES (1, 'example', NULL, NULL, 0, 1, 0, 1, 0, 0, 1750028800000, 1, NULL, 0, '\x6465636964656400000000056c696d6974000000080000000000000001000000080000019775d8500000000008000000000000000100000000000000080000000000000000', 4, 1);
INSERT INTO frozen_schema.app OVERRIDING SYSTEM VALUE VALUES (2, 'other', 1750000000000, '\x646563696465640000000005706175736500000008000000000000000200000008000001977420dc00', 0, 1, 0, 0, 0, 0, NULL, 0, NULL, 0, NULL, 0, 0);
INSERT INTO frozen_schema.breaker VALUES (1, '{"blamedClients":[],"clearedClients":[],"rejectedCanaries":[],"window":"11"}', '\x646563696465640000000007627265616b65720000000800000000000000010000004c7b22626c616d6564436c69656e7473223a5b5d2c22636c6561726564436c69656e7473223a5b5d2c2272656a656374656443616e6172696573223a5b5d2c2277696e646f77223a223131227d');
INSERT INTO frozen_schema.breaker VALUES (2, NULL, NULL);
INSERT INTO frozen_schema.canary VALUES ('person 1', 1, 5);
INSERT INTO frozen_schema.canary VALUES ('person 10', 1, 5);
INSERT INTO frozen_schema.client OVERRIDING SYSTEM VALUE VALUES (1, 'app', 1, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.client OVERRIDING SYSTEM VALUE VALUES (2, 'web', 1, NULL, NULL, 1, 2, 'invalid_client: é');
INSERT INTO frozen_schema.client OVERRIDING SYSTEM VALUE VALUES (3, 'elsewhere', 2, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.counter VALUES ('checks_answered', 4);
INSERT INTO frozen_schema.counter VALUES ('checks_answered_at', 1750021600000);
INSERT INTO frozen_schema.counter VALUES ('grant_queue_removed', 29);
INSERT INTO frozen_schema.counter VALUES ('notification_queue_removed', 26);
INSERT INTO frozen_schema.counter VALUES ('quarantine_unknown_key_bytes', 1);
INSERT INTO frozen_schema.counter VALUES ('quarantine_unknown_key_rows', 1);
INSERT INTO frozen_schema.counter VALUES ('quarantine_unsigned_bytes', 18);
INSERT INTO frozen_schema.counter VALUES ('quarantine_unsigned_rows', 6);
INSERT INTO frozen_schema.counter VALUES ('revocation_queue_removed', 1);
INSERT INTO frozen_schema.credential VALUES ('person 1', 1, 1, 'revoked', 'consent_revoked', 1750003600000, 1750000000000, 1750000000000, '\x868bad2d2b7edd6b8a6eb2a2414d64b505aeb1cf7455100d97013cd0505bbcdd', NULL, NULL, 1750000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1);
INSERT INTO frozen_schema.credential VALUES ('person 10', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\xe30558198bbb67db185d785b397d15300983c65404432e4885cedf6ec0f02b54', '\x7365616c65640061707000706572736f6e203130003137353030303030303030303000303174', NULL, 1750000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000320830, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 11', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\x70a7624f5a631fb20dd2851c46707f270d8c25cfe851db5d03491c30ec889f8d', '\x7365616c65640061707000706572736f6e203131003137353030303030303030303000313174', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000213764, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 12', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\xc537b7c88c1c0453b33ac38423c0ec7c6cd7129c91a0fbe4796159759192a6cb', '\x7365616c65640061707000706572736f6e203132003137353030303030303030303000323174', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000474797, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 13', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\x4447725349fe6832e5b3057fb0add15a08c28b0510b7bd83d347b06899f13b93', '\x7365616c65640061707000706572736f6e203133003137353030303030303030303000333174', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000163325, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 14', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\x8f1c85c9f014bb5cff6161afdfb13e8b63de76a2d50108983f3d4222a552dc8e', '\x7365616c65640061707000706572736f6e203134003137353030303030303030303000343174', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000151760, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 15', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\x59428ff0c4996ae1084227ecf4ff970a04c887e8c47813aa3adf1ec6d8451541', '\x7365616c65640061707000706572736f6e203135003137353030303030303030303000353174', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000180900, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 16', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\xa31ec59e3f2737afe48a9f6e26a191bff27faf8547bd8f1f88b1b0301e6731fe', '\x7365616c65640061707000706572736f6e203136003137353030303030303030303000363174', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000547618, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 17', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\x27d1743f6ab75c7ba0bebe560abc27ce72a39da741b32aac5d7ec373a0b02fb9', '\x7365616c65640061707000706572736f6e203137003137353030303030303030303000373174', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000370908, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 18', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\xa9bf9dce7ed11a7e29dc936702e54dfad14407d04b622d0291691d046ce37240', '\x7365616c65640061707000706572736f6e203138003137353030303030303030303000383174', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000413699, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 19', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\x79fc9dac76fb661fa42c56d3d78256c4a7f4a508440693daa9e62fd60d79f98f', '\x7365616c65640061707000706572736f6e203139003137353030303030303030303000393174', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000276369, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 2', 1, 1, 'notFound', 'account_deleted', 1750007200000, 1750000000000, 1750000000000, '\x7bea007e1c3e212b1753ffbd0383c41478e32cd7a4f50a44e270ff1e0ab84cfb', NULL, NULL, 1750000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 2', 2, 1, 'notFound', 'account_deleted', 1750007200000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 20', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\x1a1887f5c40c2f46c59db6239a913b0325600356d5830c8c10d17753f1e92e9f', '\x7365616c65640061707000706572736f6e203230003137353030303030303030303000303274', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000408992, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 3', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\x7b01cc8d971638563734a311865a13267879f996bfc20af8233628f85bdca17a', '\x7365616c65640061707000706572736f6e20330031373530303030303030303030003374', NULL, 1750000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000429023, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 4', 1, 1, 'revoked', 'token_rejected', 1750000000001, 1750000000000, 1750000000000, '\x502b847debd334ff9a82e80c4c4ea16fda7020596d5b4276b273081eed90875b', '\x7365616c65640061707000706572736f6e20340031373530303030303030303030003474', NULL, 1750000000000, NULL, 1750014400000, 1750014401000, 'rejected', NULL, NULL, NULL, NULL, 0, NULL, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 5', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\x44df174ddc97c05016886f81199de39e2aa7feba7f68e090d6a5f86096bc83dc', '\x7365616c65640061707000706572736f6e20350031373530303030303030303030003574', NULL, 1750000000000, NULL, NULL, 1750021601000, 'rejected', 1750021601000, 1750021600000, 'KEY', 1750022501000, 0, NULL, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 6', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\x2c43df2cfccd6bfe73a37a93c50f97494b03d00b3d5a2be24e87d28969388b61', '\x7365616c65640061707000706572736f6e20360031373530303030303030303030003674', NULL, 1750000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000326966, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 7', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\xa679edd58cefeef83d0ddf334f3091b4f6539c56bcebdaa9e281b786c6c7602e', '\x7365616c65640061707000706572736f6e20370031373530303030303030303030003774', NULL, 1750000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000318411, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 8', 1, 1, 'revoked', 'revoked_by_app', 1750025200000, 1750000000000, 1750000000000, '\xa3238bc15c4b47fa304d2b53bf8891a7e1aa52d397b8bf8ddb697ff0a860fa29', NULL, 1750025200000, 1750000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 8', 2, 1, 'revoked', 'revoked_by_app', 1750025200000, 1750000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('person 9', 1, 1, 'authorized', 'granted', 1750000000000, 1750000000000, 1750000000000, '\xf41579e96cf8ac49afb26efb025bbc2e3f50fac2dbed4cd932801803444d5b09', '\x7365616c65640061707000706572736f6e20390031373530303030303030303030003974', NULL, 1750000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1750000207864, 0, 0, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('u1', 1, 1, 'notFound', 'account_deleted', 1750170890000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('u1', 2, 1, 'authorized', 'granted', 1750173939000, 1750173939000, 1750173939000, '\xdd12764cdaacd0acc170f37192ddf427c101c8e73fdb319bed510d79b8c1c757', '\x7365616c6564007765620075310031373530313733393339303030003372', NULL, NULL, NULL, 1750347741000, 1750347741000, 'rejected', NULL, NULL, NULL, NULL, 0, NULL, false, true, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('u1', 3, 2, 'authorized', 'granted', 1750171188000, 1750171188000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('u2', 1, 1, 'notFound', 'account_deleted', 1750260234000, 1750170896000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('u2', 2, 1, 'notFound', 'account_deleted', 1750260234000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('u2', 3, 2, 'authorized', 'granted', 1750085694000, 1750085694000, 1750085694000, '\xdd12764cdaacd0acc170f37192ddf427c101c8e73fdb319bed510d79b8c1c757', '\x7365616c656400656c736577686572650075320031373530303835363934303030003372', NULL, NULL, NULL, 1750260489000, 1750260489000, 'rejected', NULL, NULL, NULL, NULL, 0, NULL, false, true, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('u3', 2, 1, 'notFound', 'account_deleted', 1750346674000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential VALUES ('u3', 3, 2, 'notFound', 'account_deleted', 1749997688000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, false, false, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (1, 'example', 'web', 'u1', 'state', NULL, 'notFound', 'account_deleted', NULL, NULL, 'notification', 'jti', 1750000088000, 1750000088000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (2, 'other', 'elsewhere', 'u3', 'state', NULL, 'notFound', 'account_deleted', NULL, NULL, 'notification', 'jti', 1749997688000, 1750000088000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (3, 'example', 'web', 'u3', 'state', NULL, 'notFound', 'account_deleted', NULL, NULL, 'notification', 'jti', 1749999044000, 1750000244000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (4, 'example', 'web', 'u3', 'email', NULL, NULL, NULL, NULL, 'disabled', 'notification', 'jti', 1749999044000, 1750000244000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (5, 'other', 'elsewhere', 'u2', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750085694000, 1750173488000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (6, 'other', 'elsewhere', 'u2', 'email', NULL, NULL, NULL, 'a2@example.com', NULL, 'grant', NULL, 1750085694000, 1750173488000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (7, 'example', 'web', 'u1', 'state', 'notFound', 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750173784000, 1750173808000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (8, 'example', 'web', 'u1', 'email', NULL, NULL, NULL, 'a2@example.com', NULL, 'grant', NULL, 1750173784000, 1750173808000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (9, 'example', 'app', 'u1', 'state', NULL, 'notFound', 'account_deleted', NULL, NULL, 'notification', 'jti', 1750170890000, 1750173890000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (10, 'example', 'app', 'u1', 'email', NULL, NULL, NULL, 'a2@example.com', NULL, 'notification', 'jti', 1750170890000, 1750173890000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (11, 'other', 'elsewhere', 'u1', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750171188000, 1750173971000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (12, 'other', 'elsewhere', 'u1', 'email', NULL, NULL, NULL, 'a2@example.com', NULL, 'grant', NULL, 1750171188000, 1750173971000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (13, 'example', 'app', 'u2', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750170896000, 1750260540000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (14, 'example', 'app', 'u2', 'email', NULL, NULL, NULL, 'a2@example.com', NULL, 'grant', NULL, 1750170896000, 1750260540000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (15, 'example', 'app', 'u1', 'email', NULL, NULL, NULL, 'a@example.com', 'enabled', 'notification', 'jti', 1750256968000, 1750260568000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (16, 'example', 'web', 'u1', 'email', NULL, NULL, NULL, 'a@example.com', 'enabled', 'notification', 'jti', 1750256968000, 1750260568000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (17, 'example', 'app', 'u2', 'state', 'authorized', 'notFound', 'account_deleted', NULL, NULL, 'notification', 'jti', 1750260234000, 1750260834000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (18, 'example', 'app', 'u2', 'email', NULL, NULL, NULL, NULL, NULL, 'notification', 'jti', 1750260234000, 1750260834000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (19, 'example', 'web', 'u2', 'state', NULL, 'notFound', 'account_deleted', NULL, NULL, 'notification', 'jti', 1750260234000, 1750260834000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (20, 'other', 'elsewhere', 'u3', 'email', NULL, NULL, NULL, 'a@example.com', 'enabled', 'notification', 'jti', 1750347274000, 1750347874000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (21, 'example', 'web', 'u3', 'state', 'notFound', 'notFound', 'account_deleted', NULL, NULL, 'notification', 'jti', 1750346674000, 1750347874000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (22, 'example', 'web', 'u3', 'email', NULL, NULL, NULL, NULL, NULL, 'notification', 'jti', 1750346674000, 1750347874000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (23, 'example', 'app', 'person 1', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (24, 'example', 'app', 'person 1', 'email', NULL, NULL, NULL, 'é1@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (25, 'example', 'app', 'person 2', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (26, 'example', 'app', 'person 2', 'email', NULL, NULL, NULL, 'é2@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (27, 'example', 'app', 'person 3', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (28, 'example', 'app', 'person 3', 'email', NULL, NULL, NULL, 'é3@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (29, 'example', 'app', 'person 4', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (30, 'example', 'app', 'person 4', 'email', NULL, NULL, NULL, 'é4@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (31, 'example', 'app', 'person 5', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (32, 'example', 'app', 'person 5', 'email', NULL, NULL, NULL, 'é5@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (33, 'example', 'app', 'person 6', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (34, 'example', 'app', 'person 6', 'email', NULL, NULL, NULL, 'é6@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (35, 'example', 'app', 'person 7', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (36, 'example', 'app', 'person 7', 'email', NULL, NULL, NULL, 'é7@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (37, 'example', 'app', 'person 8', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (38, 'example', 'app', 'person 8', 'email', NULL, NULL, NULL, 'é8@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (39, 'example', 'app', 'person 9', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (40, 'example', 'app', 'person 9', 'email', NULL, NULL, NULL, 'é9@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (41, 'example', 'app', 'person 10', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (42, 'example', 'app', 'person 10', 'email', NULL, NULL, NULL, 'é10@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (43, 'example', 'app', 'person 11', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (44, 'example', 'app', 'person 11', 'email', NULL, NULL, NULL, 'é11@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (45, 'example', 'app', 'person 12', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (46, 'example', 'app', 'person 12', 'email', NULL, NULL, NULL, 'é12@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (47, 'example', 'app', 'person 13', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (48, 'example', 'app', 'person 13', 'email', NULL, NULL, NULL, 'é13@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (49, 'example', 'app', 'person 14', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (50, 'example', 'app', 'person 14', 'email', NULL, NULL, NULL, 'é14@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (51, 'example', 'app', 'person 15', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (52, 'example', 'app', 'person 15', 'email', NULL, NULL, NULL, 'é15@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (53, 'example', 'app', 'person 16', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (54, 'example', 'app', 'person 16', 'email', NULL, NULL, NULL, 'é16@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (55, 'example', 'app', 'person 17', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (56, 'example', 'app', 'person 17', 'email', NULL, NULL, NULL, 'é17@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (57, 'example', 'app', 'person 18', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (58, 'example', 'app', 'person 18', 'email', NULL, NULL, NULL, 'é18@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (59, 'example', 'app', 'person 19', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (60, 'example', 'app', 'person 19', 'email', NULL, NULL, NULL, 'é19@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (61, 'example', 'app', 'person 20', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (62, 'example', 'app', 'person 20', 'email', NULL, NULL, NULL, 'é20@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (63, 'example', 'app', 'person 1', 'state', 'authorized', 'revoked', 'consent_revoked', NULL, NULL, 'notification', 'jti', 1750003600000, 1750003600000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (64, 'example', 'app', 'person 2', 'state', 'authorized', 'notFound', 'account_deleted', NULL, NULL, 'notification', 'jti', 1750007200000, 1750007200000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (65, 'example', 'app', 'person 2', 'email', NULL, NULL, NULL, NULL, NULL, 'notification', 'jti', 1750007200000, 1750007200000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (66, 'example', 'web', 'person 2', 'state', NULL, 'notFound', 'account_deleted', NULL, NULL, 'notification', 'jti', 1750007200000, 1750007200000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (67, 'example', 'app', 'person 3', 'email', NULL, NULL, NULL, 'relay@example.com', 'disabled', 'notification', 'jti', 1750010800000, 1750010800000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (68, 'example', 'app', 'person 4', 'state', 'authorized', 'revoked', 'token_rejected', NULL, NULL, 'refresh', NULL, 1750000000001, 1750018000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (69, 'example', 'web', 'person 8', 'state', NULL, 'authorized', 'granted', NULL, NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (70, 'example', 'web', 'person 8', 'email', NULL, NULL, NULL, 'é8@example.com', NULL, 'grant', NULL, 1750000000000, 1750000000000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (71, 'example', 'app', 'person 8', 'state', 'authorized', 'revoked', 'revoked_by_app', NULL, NULL, 'revocation', NULL, 1750025200000, 1750025200000);
INSERT INTO frozen_schema.credential_change OVERRIDING SYSTEM VALUE VALUES (72, 'example', 'app', 'person 8', 'email', NULL, NULL, NULL, NULL, NULL, 'revocation', NULL, 1750025200000, 1750025200000);
INSERT INTO frozen_schema.credential_count VALUES (1, 'authorized', 17);
INSERT INTO frozen_schema.credential_count VALUES (1, 'notFound', 6);
INSERT INTO frozen_schema.credential_count VALUES (1, 'revoked', 4);
INSERT INTO frozen_schema.credential_count VALUES (2, 'authorized', 2);
INSERT INTO frozen_schema.credential_count VALUES (2, 'notFound', 1);
INSERT INTO frozen_schema.delivery VALUES ('hook', 5, NULL);
INSERT INTO frozen_schema.delivery_retry VALUES ('hook', 4, 2, NULL, 3, 'status 500');
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (1, 2, 'elsewhere', 'u2', 1750085694000, 1750173488000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (2, 4, 'web', 'u1', 1750173784000, 1750173808000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (3, 3, 'elsewhere', 'u1', 1750171188000, 1750173971000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (4, 6, 'app', 'u2', 1750170896000, 1750260540000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (5, 7, 'web', 'u1', 1750173939000, 1750260540000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (6, 1, 'forgotten', 'u1', 1749996497000, 1750780629000, 'rejected', 'unknown_client_expired', NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (7, 5, 'forgotten', 'u4', 1750171414000, 1750867629000, 'rejected', 'unknown_client_expired', NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (8, 8, 'forgotten', 'u3', 1750259548000, 1750868229000, 'rejected', 'unknown_client_expired', NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (9, 9, 'app', 'person 1', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (10, 10, 'app', 'person 2', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (11, 11, 'app', 'person 3', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (12, 12, 'app', 'person 4', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (13, 13, 'app', 'person 5', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (14, 14, 'app', 'person 6', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (15, 15, 'app', 'person 7', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (16, 16, 'app', 'person 8', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (17, 17, 'app', 'person 9', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (18, 18, 'app', 'person 10', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (19, 19, 'app', 'person 11', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (20, 20, 'app', 'person 12', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (21, 21, 'app', 'person 13', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (22, 22, 'app', 'person 14', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (23, 23, 'app', 'person 15', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (24, 24, 'app', 'person 16', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (25, 25, 'app', 'person 17', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (26, 26, 'app', 'person 18', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (27, 27, 'app', 'person 19', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (28, 28, 'app', 'person 20', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_log OVERRIDING SYSTEM VALUE VALUES (29, 29, 'web', 'person 8', 1750000000000, 1750000000000, 'applied', NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.grant_queue OVERRIDING SYSTEM VALUE VALUES (30, 'forgotten', 'waits', 'r', NULL, NULL, NULL, NULL, '', NULL, 1750000000000, 1750021600000, 0, NULL, 1750000000000, 0, 0, 0, NULL, 1);
INSERT INTO frozen_schema.grant_queue OVERRIDING SYSTEM VALUE VALUES (31, 'app', 'sealed', NULL, '\x0707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707', NULL, NULL, NULL, NULL, NULL, 1750000000000, 1750021600000, 0, NULL, 1750000000000, 0, 0, 0, NULL, NULL);
INSERT INTO frozen_schema.grant_queue OVERRIDING SYSTEM VALUE VALUES (32, 'app', NULL, NULL, NULL, 'code', NULL, NULL, NULL, NULL, 1750000000000, 0, 0, NULL, NULL, 0, 0, 0, NULL, NULL);
INSERT INTO frozen_schema.import OVERRIDING SYSTEM VALUE VALUES (1, 'é', 3, 1, 2);
INSERT INTO frozen_schema.lane VALUES ('example', 'first', 3, 4);
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (1, 'example', 'jti', 'web', 'u1', 'account-deleted', 1750000088000, '\x787878', 1750000035000, 1750000088000, 'applied');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (2, 'other', 'jti', 'elsewhere', 'u4', 'something-new', 1749998288000, '\x787878', 1750000035000, 1750000088000, 'unknown_type');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (3, 'other', 'jti', 'elsewhere', 'u3', 'account-deleted', 1749997688000, '\x787878', 1750000035000, 1750000088000, 'applied');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (4, 'example', 'jti', 'web', 'u1', 'account-deleted', 1749996559000, '\x787878', 1750000035000, 1750000159000, 'stale');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (5, 'example', 'jti', 'web', 'u3', 'email-disabled', 1750000222000, '\x787878', 1750000193000, 1750000222000, 'applied');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (6, 'example', 'jti', 'web', 'u3', 'account-deleted', 1749999044000, '\x787878', 1750000035000, 1750000244000, 'applied');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (7, 'example', 'jti', 'app', 'u1', 'account-deleted', 1750170890000, '\x787878', 1750086895000, 1750173890000, 'stale');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (8, 'example', 'jti', 'app', 'u1', 'email-enabled', 1750256968000, '\x787878', 1750174007000, 1750260568000, 'applied');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (9, 'example', 'jti', 'web', 'u2', 'account-deleted', 1750260234000, '\x787878', 1750260776000, 1750260834000, 'applied');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (10, 'example', 'jti', 'app', 'u2', 'email-enabled', 1750259034000, '\x787878', 1750260776000, 1750260834000, 'applied');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (11, 'other', 'jti', 'elsewhere', 'u3', 'email-enabled', 1750347274000, '\x787878', 1750260776000, 1750347874000, 'applied');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (12, 'example', 'jti', 'app', 'u4', 'something-new', 1750344874000, '\x787878', 1750174007000, 1750347874000, 'unknown_type');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (13, 'example', 'jti', 'web', 'u3', 'account-deleted', 1750346674000, '\x787878', 1750260744000, 1750347874000, 'applied');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (14, 'example', 'jti', 'app', 'person 1', 'consent-revoked', 1750003600000, '\x6a7773', 1750003600000, 1750003600000, 'applied');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (15, 'example', 'jti', 'web', 'person 2', 'account-deleted', 1750007200000, '\x6a7773', 1750007200000, 1750007200000, 'applied');
INSERT INTO frozen_schema.notification_log OVERRIDING SYSTEM VALUE VALUES (16, 'example', 'jti', 'app', 'person 3', 'email-disabled', 1750010800000, '\x6a7773', 1750010800000, 1750010800000, 'applied');
INSERT INTO frozen_schema.notification_quarantine OVERRIDING SYSTEM VALUE VALUES (1, '\x787878', 1750174007000, 1750260568000, 'missing_claim', '');
INSERT INTO frozen_schema.notification_quarantine OVERRIDING SYSTEM VALUE VALUES (2, '\x787878', 1750260910000, 1750260920000, 'not_an_event', '');
INSERT INTO frozen_schema.notification_quarantine OVERRIDING SYSTEM VALUE VALUES (3, '\x787878', 1750260910000, 1750260920000, 'forbidden_header', '');
INSERT INTO frozen_schema.notification_quarantine OVERRIDING SYSTEM VALUE VALUES (4, '\x787878', 1750086895000, 1750261188000, 'malformed', '');
INSERT INTO frozen_schema.notification_quarantine OVERRIDING SYSTEM VALUE VALUES (5, '\x787878', 1750086895000, 1750261251000, 'bad_signature', '');
INSERT INTO frozen_schema.notification_quarantine OVERRIDING SYSTEM VALUE VALUES (6, '\x787878', 1750260744000, 1750347874000, 'wrong_audience', '');
INSERT INTO frozen_schema.notification_quarantine OVERRIDING SYSTEM VALUE VALUES (7, '\x787878', 1750261047000, 1750522029000, 'missing_claim', '');
INSERT INTO frozen_schema.notification_quarantine OVERRIDING SYSTEM VALUE VALUES (8, '\x787878', 1750260649000, 1750522029000, 'forbidden_header', '');
INSERT INTO frozen_schema.notification_quarantine OVERRIDING SYSTEM VALUE VALUES (9, '\x787878', 1750260649000, 1750522629000, 'expired', '');
INSERT INTO frozen_schema.notification_quarantine OVERRIDING SYSTEM VALUE VALUES (10, '\x787878', 1750086895000, 1750522629000, 'wrong_algorithm', '');
INSERT INTO frozen_schema.notification_quarantine OVERRIDING SYSTEM VALUE VALUES (11, '\x78', 1, 2, 'unknown_key', 'not yours: �');
INSERT INTO frozen_schema.notification_queue OVERRIDING SYSTEM VALUE VALUES (27, '\x787878', 1750086400000, -1, 1, NULL);
INSERT INTO frozen_schema.notification_queue OVERRIDING SYSTEM VALUE VALUES (28, '\x787878', 1750086400000, -1, 1, NULL);
INSERT INTO frozen_schema.notification_queue OVERRIDING SYSTEM VALUE VALUES (29, '\x787878', 1750086400000, 0, 0, NULL);
INSERT INTO frozen_schema.notification_queue OVERRIDING SYSTEM VALUE VALUES (30, '\x7bff007d', 1750086400000, 0, 0, NULL);
INSERT INTO frozen_schema.notification_queue OVERRIDING SYSTEM VALUE VALUES (31, '\xc3a9', 1750086400000, 0, 0, NULL);
INSERT INTO frozen_schema.operator_request OVERRIDING SYSTEM VALUE VALUES (1, '{"pause":{"app":"other"}}', 1750000000000, '{"paused":{"since":1750000000000}}', 1750000000000, NULL, 1546228116487122435, NULL);
INSERT INTO frozen_schema.operator_request OVERRIDING SYSTEM VALUE VALUES (2, '{}', 1, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.replica VALUES ('first', 1, 2, '{}', '[]');
INSERT INTO frozen_schema.request_key VALUES ('web', 'é', '\x0100', 3, 4);
INSERT INTO frozen_schema.revocation VALUES (2, 1, 1, 'person 6', 1750025200000, 1750000000000, '\x2c43df2cfccd6bfe73a37a93c50f97494b03d00b3d5a2be24e87d28969388b61', '\x7365616c65640061707000706572736f6e20360031373530303030303030303030003674', 'accepted_before', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 1750028800000, 0, NULL, '\x6465636964656400000000076f70656e696e670000000800000000000000020000000361707000000008706572736f6e203600000008000001977420dc00000000202c43df2cfccd6bfe73a37a93c50f97494b03d00b3d5a2be24e87d28969388b61000000080000019775a16180');
INSERT INTO frozen_schema.revocation_log OVERRIDING SYSTEM VALUE VALUES (1, 1, 'example', 'app', 'person 8', 1750025200000, 1750000000000, 'KEY', 1750025200000, 1750025200000, 'accepted', 1750025200000, 1750025200000, 'revoked', 1750025200000, 1750025200000, 'invalid_grant', 1750025200000, 'proved', NULL, 1750025200000, '\x646563696465640000000007726563656970740000000800000000000000010000000361707000000008706572736f6e203800000008000001977420dc00000000080000019775a16180');
INSERT INTO frozen_schema.revocation_log OVERRIDING SYSTEM VALUE VALUES (2, 1, NULL, 'app', 'u', 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2, 'no_token', NULL, NULL, NULL);
INSERT INTO frozen_schema.revocation_queue OVERRIDING SYSTEM VALUE VALUES (2, 'app', 'person 6', 1750025200000, 1750028860000, 0, NULL, 1750028800000, NULL, NULL, NULL, 1750025200000);
INSERT INTO frozen_schema.revocation_queue OVERRIDING SYSTEM VALUE VALUES (3, 'elsewhere', 'nobody', 1750025200000, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.schema_version VALUES (1, 1);
INSERT INTO frozen_schema.secret VALUES ('fingerprint', '\x0001ff');
INSERT INTO frozen_schema.settled_batch VALUES ('first', 5, 6);
INSERT INTO frozen_schema.signing_key VALUES ('A', '{}', 1750086400000, '\x');
INSERT INTO frozen_schema.user_event VALUES ('person 1', 1, 1750003600000, NULL, NULL, 1750000000000, 0, 'é1@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 10', 1, NULL, NULL, NULL, 1750000000000, 0, 'é10@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 11', 1, NULL, NULL, NULL, 1750000000000, 0, 'é11@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 12', 1, NULL, NULL, NULL, 1750000000000, 0, 'é12@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 13', 1, NULL, NULL, NULL, 1750000000000, 0, 'é13@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 14', 1, NULL, NULL, NULL, 1750000000000, 0, 'é14@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 15', 1, NULL, NULL, NULL, 1750000000000, 0, 'é15@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 16', 1, NULL, NULL, NULL, 1750000000000, 0, 'é16@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 17', 1, NULL, NULL, NULL, 1750000000000, 0, 'é17@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 18', 1, NULL, NULL, NULL, 1750000000000, 0, 'é18@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 19', 1, NULL, NULL, NULL, 1750000000000, 0, 'é19@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 2', 1, NULL, 1750007200000, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 20', 1, NULL, NULL, NULL, 1750000000000, 0, 'é20@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 3', 1, NULL, NULL, NULL, 1750010800000, 1, 'relay@example.com', 1, 1750010800000, 'disabled');
INSERT INTO frozen_schema.user_event VALUES ('person 4', 1, NULL, NULL, NULL, 1750000000000, 0, 'é4@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 5', 1, NULL, NULL, NULL, 1750000000000, 0, 'é5@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 6', 1, NULL, NULL, NULL, 1750000000000, 0, 'é6@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 7', 1, NULL, NULL, NULL, 1750000000000, 0, 'é7@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 8', 1, NULL, NULL, 1750025200000, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('person 9', 1, NULL, NULL, NULL, 1750000000000, 0, 'é9@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('u1', 1, NULL, 1750170890000, NULL, 1750256968000, 1, 'a@example.com', NULL, 1750256968000, 'enabled');
INSERT INTO frozen_schema.user_event VALUES ('u1', 2, NULL, NULL, NULL, 1750171188000, 0, 'a2@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('u2', 1, NULL, 1750260234000, NULL, NULL, NULL, NULL, NULL, 1750259034000, 'enabled');
INSERT INTO frozen_schema.user_event VALUES ('u2', 2, NULL, NULL, NULL, 1750085694000, 0, 'a2@example.com', NULL, NULL, NULL);
INSERT INTO frozen_schema.user_event VALUES ('u3', 1, NULL, 1750346674000, NULL, NULL, NULL, NULL, NULL, 1750000222000, 'disabled');
INSERT INTO frozen_schema.user_event VALUES ('u3', 2, NULL, 1749997688000, NULL, 1750347274000, 1, 'a@example.com', NULL, 1750347274000, 'enabled');
SELECT pg_catalog.setval('frozen_schema.admitted_rejection_id_seq', 3, true);
SELECT pg_catalog.setval('frozen_schema.app_id_seq', 2, true);
SELECT pg_catalog.setval('frozen_schema.client_id_seq', 3, true);
SELECT pg_catalog.setval('frozen_schema.credential_change_id_seq', 74, true);
SELECT pg_catalog.setval('frozen_schema.grant_log_id_seq', 29, true);
SELECT pg_catalog.setval('frozen_schema.grant_queue_id_seq', 32, true);
SELECT pg_catalog.setval('frozen_schema.grant_queue_quiet', 1796053757248, true);
SELECT pg_catalog.setval('frozen_schema.import_id_seq', 1, true);
SELECT pg_catalog.setval('frozen_schema.notification_log_id_seq', 16, true);
SELECT pg_catalog.setval('frozen_schema.notification_quarantine_id_seq', 11, true);
SELECT pg_catalog.setval('frozen_schema.notification_queue_id_seq', 31, true);
SELECT pg_catalog.setval('frozen_schema.notification_queue_quiet', 1796053757246, true);
SELECT pg_catalog.setval('frozen_schema.operator_request_id_seq', 2, true);
SELECT pg_catalog.setval('frozen_schema.operator_request_quiet', 1796053757266, true);
SELECT pg_catalog.setval('frozen_schema.revocation_log_id_seq', 2, true);
SELECT pg_catalog.setval('frozen_schema.revocation_queue_id_seq', 3, true);
SELECT pg_catalog.setval('frozen_schema.revocation_queue_quiet', 1796053757249, true);
ALTER TABLE ONLY frozen_schema.admitted_rejection
    ADD CONSTRAINT admitted_rejection_pkey PRIMARY KEY (id);
ALTER TABLE ONLY frozen_schema.app
    ADD CONSTRAINT app_name_key UNIQUE (name);
ALTER TABLE ONLY frozen_schema.app
    ADD CONSTRAINT app_pkey PRIMARY KEY (id);
ALTER TABLE ONLY frozen_schema.breaker
    ADD CONSTRAINT breaker_pkey PRIMARY KEY (app);
ALTER TABLE ONLY frozen_schema.canary
    ADD CONSTRAINT canary_pkey PRIMARY KEY (user_id, client);
ALTER TABLE ONLY frozen_schema.client
    ADD CONSTRAINT client_client_id_key UNIQUE (client_id);
ALTER TABLE ONLY frozen_schema.client
    ADD CONSTRAINT client_pkey PRIMARY KEY (id);
ALTER TABLE ONLY frozen_schema.counter
    ADD CONSTRAINT counter_pkey PRIMARY KEY (name);
ALTER TABLE ONLY frozen_schema.credential_change
    ADD CONSTRAINT credential_change_pkey PRIMARY KEY (id);
ALTER TABLE ONLY frozen_schema.credential_count
    ADD CONSTRAINT credential_count_pkey PRIMARY KEY (app, state);
ALTER TABLE ONLY frozen_schema.credential
    ADD CONSTRAINT credential_pkey PRIMARY KEY (user_id, client);
ALTER TABLE ONLY frozen_schema.delivery
    ADD CONSTRAINT delivery_pkey PRIMARY KEY (name);
ALTER TABLE ONLY frozen_schema.delivery_retry
    ADD CONSTRAINT delivery_retry_pkey PRIMARY KEY (delivery, change_id);
ALTER TABLE ONLY frozen_schema.grant_log
    ADD CONSTRAINT grant_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY frozen_schema.grant_queue
    ADD CONSTRAINT grant_queue_pkey PRIMARY KEY (id);
ALTER TABLE ONLY frozen_schema.import
    ADD CONSTRAINT import_name_key UNIQUE (name);
ALTER TABLE ONLY frozen_schema.import
    ADD CONSTRAINT import_pkey PRIMARY KEY (id);
ALTER TABLE ONLY frozen_schema.lane
    ADD CONSTRAINT lane_pkey PRIMARY KEY (app);
ALTER TABLE ONLY frozen_schema.notification_log
    ADD CONSTRAINT notification_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY frozen_schema.notification_quarantine
    ADD CONSTRAINT notification_quarantine_pkey PRIMARY KEY (id);
ALTER TABLE ONLY frozen_schema.notification_queue
    ADD CONSTRAINT notification_queue_pkey PRIMARY KEY (id);
ALTER TABLE ONLY frozen_schema.operator_request
    ADD CONSTRAINT operator_request_pkey PRIMARY KEY (id);
ALTER TABLE ONLY frozen_schema.replica
    ADD CONSTRAINT replica_pkey PRIMARY KEY (owner);
ALTER TABLE ONLY frozen_schema.request_key
    ADD CONSTRAINT request_key_pkey PRIMARY KEY (client, key);
ALTER TABLE ONLY frozen_schema.revocation_log
    ADD CONSTRAINT revocation_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY frozen_schema.revocation
    ADD CONSTRAINT revocation_pkey PRIMARY KEY (request, client, token_fingerprint);
ALTER TABLE ONLY frozen_schema.revocation_queue
    ADD CONSTRAINT revocation_queue_pkey PRIMARY KEY (id);
ALTER TABLE ONLY frozen_schema.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (version);
ALTER TABLE ONLY frozen_schema.secret
    ADD CONSTRAINT secret_pkey PRIMARY KEY (name);
ALTER TABLE ONLY frozen_schema.settled_batch
    ADD CONSTRAINT settled_batch_pkey PRIMARY KEY (owner);
ALTER TABLE ONLY frozen_schema.signing_key
    ADD CONSTRAINT signing_key_pkey PRIMARY KEY (kid);
ALTER TABLE ONLY frozen_schema.user_event
    ADD CONSTRAINT user_event_pkey PRIMARY KEY (user_id, app);
CREATE INDEX admitted_rejection_age ON frozen_schema.admitted_rejection USING btree (admitted_at);
CREATE INDEX credential_doubted ON frozen_schema.credential USING btree (app, user_id) WHERE ((answer = 'rejected'::text) AND (due_at IS NOT NULL));
CREATE INDEX credential_due ON frozen_schema.credential USING btree (client, due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX credential_first ON frozen_schema.credential USING btree (client, first_check, due_at) WHERE (first_check IS NOT NULL);
CREATE INDEX credential_foreign ON frozen_schema.credential USING btree (app, user_id) WHERE (answer = 'another_user'::text);
CREATE INDEX credential_imported ON frozen_schema.credential USING btree (imported_by, user_id) WHERE (imported_by IS NOT NULL);
CREATE INDEX credential_never_accepted ON frozen_schema.credential USING btree (app, user_id) WHERE never_accepted;
CREATE INDEX credential_pending ON frozen_schema.credential USING btree (app, pending_since) WHERE (pending_since IS NOT NULL);
CREATE INDEX credential_pending_due ON frozen_schema.credential USING btree (app, due_at) WHERE (pending_since IS NOT NULL);
CREATE INDEX credential_rejected ON frozen_schema.credential USING btree (rejected_at) WHERE ((rejected_at IS NOT NULL) AND (sealed_token IS NOT NULL));
CREATE INDEX credential_team ON frozen_schema.credential USING btree (app, verified_team) WHERE ((verified_team IS NOT NULL) AND (sealed_token IS NOT NULL));
CREATE INDEX delivery_retry_due ON frozen_schema.delivery_retry USING btree (delivery, due_at);
CREATE INDEX grant_log_grant ON frozen_schema.grant_log USING btree (grant_id);
CREATE INDEX grant_queue_code ON frozen_schema.grant_queue USING btree (granted_at, id) WHERE (authorization_code IS NOT NULL);
CREATE INDEX grant_queue_code_client ON frozen_schema.grant_queue USING btree (client_id, due_at, granted_at, id) WHERE (authorization_code IS NOT NULL);
CREATE INDEX grant_queue_due ON frozen_schema.grant_queue USING btree (due_at, id) WHERE (authorization_code IS NULL);
CREATE INDEX grant_queue_import ON frozen_schema.grant_queue USING btree (import_id, id) WHERE (import_id IS NOT NULL);
CREATE INDEX grant_queue_user ON frozen_schema.grant_queue USING btree (user_id, granted_at);
CREATE UNIQUE INDEX notification_log_event ON frozen_schema.notification_log USING btree (event_time, user_id, app, type) WHERE (outcome <> 'duplicate'::text);
CREATE INDEX notification_quarantine_key ON frozen_schema.notification_quarantine USING btree (detail) WHERE (reason = 'unknown_key'::text);
CREATE INDEX notification_quarantine_unsigned ON frozen_schema.notification_quarantine USING btree (id) WHERE (reason = ANY (ARRAY['malformed'::text, 'not_an_event'::text, 'wrong_algorithm'::text, 'forbidden_header'::text, 'bad_signature'::text]));
CREATE INDEX notification_quarantine_waiting ON frozen_schema.notification_quarantine USING btree (id) WHERE (reason = 'unknown_key'::text);
CREATE INDEX notification_queue_due ON frozen_schema.notification_queue USING btree (due_at, id) WHERE (received_at > 0);
CREATE INDEX operator_request_open ON frozen_schema.operator_request USING btree (id) WHERE ((answer IS NULL) OR ("position" IS NOT NULL));
CREATE INDEX request_key_told ON frozen_schema.request_key USING btree (told_at);
CREATE INDEX revocation_due ON frozen_schema.revocation USING btree (client, due_at);
CREATE INDEX revocation_log_request ON frozen_schema.revocation_log USING btree (request);
CREATE INDEX revocation_log_user ON frozen_schema.revocation_log USING btree (user_id);
CREATE INDEX revocation_queue_due ON frozen_schema.revocation_queue USING btree (due_at, id) WHERE ((opened_at IS NULL) AND (held_at IS NULL));
CREATE INDEX revocation_queue_held ON frozen_schema.revocation_queue USING btree (client_id, id) WHERE (held_at IS NOT NULL);
CREATE INDEX revocation_queue_user ON frozen_schema.revocation_queue USING btree (user_id) WHERE (opened_at IS NULL);
CREATE INDEX revocation_user ON frozen_schema.revocation USING btree (user_id);
CREATE TRIGGER grant_queue_insert AFTER INSERT ON frozen_schema.grant_queue FOR EACH STATEMENT EXECUTE FUNCTION frozen_schema.tell_of_insert('grant_queue_quiet');
CREATE TRIGGER notification_queue_insert AFTER INSERT ON frozen_schema.notification_queue FOR EACH STATEMENT EXECUTE FUNCTION frozen_schema.tell_of_insert('notification_queue_quiet');
CREATE TRIGGER operator_request_insert AFTER INSERT ON frozen_schema.operator_request FOR EACH STATEMENT EXECUTE FUNCTION frozen_schema.tell_of_insert('operator_request_quiet');
CREATE TRIGGER revocation_queue_insert AFTER INSERT ON frozen_schema.revocation_queue FOR EACH STATEMENT EXECUTE FUNCTION frozen_schema.tell_of_insert('revocation_queue_quiet');
ALTER TABLE ONLY frozen_schema.revocation
    ADD CONSTRAINT revocation_request_fkey FOREIGN KEY (request) REFERENCES frozen_schema.revocation_queue(id);
GRANT USAGE ON SCHEMA frozen_schema TO siwatch_backend;
GRANT USAGE ON SCHEMA frozen_schema TO siwatch_reader;
GRANT USAGE ON SCHEMA frozen_schema TO siwatch_notifications;
GRANT USAGE ON SCHEMA frozen_schema TO siwatch_grants;
GRANT USAGE ON SCHEMA frozen_schema TO siwatch_revocations;
REVOKE ALL ON FUNCTION frozen_schema.tell_of_insert() FROM PUBLIC;
GRANT SELECT ON TABLE frozen_schema.app_client TO siwatch_reader;
GRANT SELECT ON TABLE frozen_schema.app_client TO siwatch_backend;
GRANT SELECT ON TABLE frozen_schema.credential_change TO siwatch_reader;
GRANT SELECT ON TABLE frozen_schema.credential_change TO siwatch_backend;
GRANT SELECT ON TABLE frozen_schema.credential_state TO siwatch_reader;
GRANT SELECT ON TABLE frozen_schema.credential_state TO siwatch_backend;
GRANT SELECT(id) ON TABLE frozen_schema.grant_queue TO siwatch_grants;
GRANT SELECT(id) ON TABLE frozen_schema.grant_queue TO siwatch_backend;
GRANT INSERT(client_id) ON TABLE frozen_schema.grant_queue TO siwatch_grants;
GRANT INSERT(client_id) ON TABLE frozen_schema.grant_queue TO siwatch_backend;
GRANT INSERT(user_id) ON TABLE frozen_schema.grant_queue TO siwatch_grants;
GRANT INSERT(user_id) ON TABLE frozen_schema.grant_queue TO siwatch_backend;
GRANT INSERT(refresh_token) ON TABLE frozen_schema.grant_queue TO siwatch_grants;
GRANT INSERT(refresh_token) ON TABLE frozen_schema.grant_queue TO siwatch_backend;
GRANT INSERT(token_sealed) ON TABLE frozen_schema.grant_queue TO siwatch_grants;
GRANT INSERT(token_sealed) ON TABLE frozen_schema.grant_queue TO siwatch_backend;
GRANT INSERT(authorization_code) ON TABLE frozen_schema.grant_queue TO siwatch_grants;
GRANT INSERT(authorization_code) ON TABLE frozen_schema.grant_queue TO siwatch_backend;
GRANT INSERT(redirect_uri) ON TABLE frozen_schema.grant_queue TO siwatch_grants;
GRANT INSERT(redirect_uri) ON TABLE frozen_schema.grant_queue TO siwatch_backend;
GRANT INSERT(nonce) ON TABLE frozen_schema.grant_queue TO siwatch_grants;
GRANT INSERT(nonce) ON TABLE frozen_schema.grant_queue TO siwatch_backend;
GRANT INSERT(email) ON TABLE frozen_schema.grant_queue TO siwatch_grants;
GRANT INSERT(email) ON TABLE frozen_schema.grant_queue TO siwatch_backend;
GRANT INSERT(email_is_private) ON TABLE frozen_schema.grant_queue TO siwatch_grants;
GRANT INSERT(email_is_private) ON TABLE frozen_schema.grant_queue TO siwatch_backend;
GRANT INSERT(granted_at) ON TABLE frozen_schema.grant_queue TO siwatch_grants;
GRANT INSERT(granted_at) ON TABLE frozen_schema.grant_queue TO siwatch_backend;
GRANT SELECT ON TABLE frozen_schema.grant_outcome TO siwatch_reader;
GRANT SELECT ON TABLE frozen_schema.grant_outcome TO siwatch_backend;
GRANT SELECT ON TABLE frozen_schema.heartbeat TO siwatch_reader;
GRANT SELECT ON TABLE frozen_schema.heartbeat TO siwatch_backend;
GRANT SELECT(id) ON TABLE frozen_schema.notification_queue TO siwatch_notifications;
GRANT SELECT(id) ON TABLE frozen_schema.notification_queue TO siwatch_backend;
GRANT INSERT(payload) ON TABLE frozen_schema.notification_queue TO siwatch_notifications;
GRANT INSERT(payload) ON TABLE frozen_schema.notification_queue TO siwatch_backend;
GRANT INSERT(received_at) ON TABLE frozen_schema.notification_queue TO siwatch_notifications;
GRANT INSERT(received_at) ON TABLE frozen_schema.notification_queue TO siwatch_backend;
GRANT SELECT(id) ON TABLE frozen_schema.revocation_queue TO siwatch_revocations;
GRANT SELECT(id) ON TABLE frozen_schema.revocation_queue TO siwatch_backend;
GRANT INSERT(client_id) ON TABLE frozen_schema.revocation_queue TO siwatch_revocations;
GRANT INSERT(client_id) ON TABLE frozen_schema.revocation_queue TO siwatch_backend;
GRANT INSERT(user_id) ON TABLE frozen_schema.revocation_queue TO siwatch_revocations;
GRANT INSERT(user_id) ON TABLE frozen_schema.revocation_queue TO siwatch_backend;
GRANT INSERT(requested_at) ON TABLE frozen_schema.revocation_queue TO siwatch_revocations;
GRANT INSERT(requested_at) ON TABLE frozen_schema.revocation_queue TO siwatch_backend;
GRANT SELECT ON TABLE frozen_schema.revocation_outcome TO siwatch_reader;
GRANT SELECT ON TABLE frozen_schema.revocation_outcome TO siwatch_backend;
GRANT SELECT ON TABLE frozen_schema.user_state TO siwatch_reader;
GRANT SELECT ON TABLE frozen_schema.user_state TO siwatch_backend;
