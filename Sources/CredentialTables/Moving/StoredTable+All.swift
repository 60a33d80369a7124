// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension StoredTable {
    /// All tables of a store, in an order in which no row refers to a later one.
    package static let all = [
        StoredTable(
            "app",
            .setting,
            .integers("id"),
            .texts("name"),
            .integers("paused_at", "unverified", "never_accepted", "foreign_tokens", "pending", "admitted", "missed", "ended", "unproven"),
            .integers("revocation_hour_at", "revocations_opened", "revocations_braked_at", "revocations_held")
        ),
        StoredTable(
            "client",
            .setting,
            .integers("id"),
            .texts("client_id"),
            .integers("app", "valid_at", "proved_at", "refused_since", "refused_at"),
            .texts("refusal")
        ),
        // PostgreSQL has a row for each user, to lock it, even without any event.
        StoredTable(
            "user_event",
            .users,
            key: "user_id, app",
            where: "COALESCE(consent_revoked_at, deleted_at, revoked_at, email_at, forwarding_at) IS NOT NULL",
            .texts("user_id"),
            .integers("app", "consent_revoked_at", "deleted_at", "revoked_at", "email_at", "forwarding_at"),
            .integers("email_rank", bytes: 2),
            .integers("email_is_private", bytes: 4),
            .texts("email", "forwarding")
        ),
        StoredTable(
            "credential",
            .users,
            key: "user_id, client",
            .texts("user_id", "state", "reason", "answer", "pending_key", "verified_team", "former_verified_team", "claimed_by"),
            .integers("client", "app", "changed_at", "granted_at", "token_granted_at", "revoked_at", "verified_at", "rejected_at"),
            .integers("answered_at", "pending_since", "pending_asked_at", "due_at", "failures", "former_granted_at", "former_verified_at"),
            .bytes("token_fingerprint", "sealed_token", "former_fingerprint", "former_sealed", "older_tokens"),
            .integers("first_check", bytes: 2),
            .flags("unverified", "never_accepted"),
            .integers("attempts", bytes: 4)
        ),
        StoredTable(
            "notification_queue",
            .users,
            remembersGreatestID: true,
            .integers("id", "received_at", "due_at"),
            .payload,
            .integers("attempts", bytes: 4),
            .texts("claimed_by")
        ),
        StoredTable(
            "grant_queue",
            .users,
            remembersGreatestID: true,
            .integers("id", "granted_at", "due_at", "waits_since"),
            .texts("client_id", "user_id", "refresh_token", "authorization_code", "redirect_uri", "nonce", "email", "claimed_by", "detail"),
            .bytes("token_sealed"),
            .integers("email_is_private", "attempts", "is_ahead", "failures", "answer_lost", bytes: 4)
        ),
        StoredTable(
            "revocation_queue",
            .users,
            remembersGreatestID: true,
            .integers("id", "requested_at", "effective_at", "due_at", "opened_at", "held_at", "confirmed_at"),
            .texts("client_id", "user_id", "claimed_by"),
            .integers("attempts", bytes: 4)
        ),
        StoredTable(
            "revocation",
            .users,
            key: "request, client, token_fingerprint",
            .integers("request", "client", "app", "requested_at", "token_granted_at", "before_at", "before_date", "revoke_at"),
            .integers("revoke_date", "after_at", "after_date", "rounds", "failures", "due_at"),
            .texts("user_id", "standing", "verified_team", "key_id", "before_answer", "revoke_answer", "after_answer", "claimed_by"),
            .bytes("token_fingerprint", "sealed_token"),
            .integers("attempts", bytes: 4)
        ),
        StoredTable(
            "notification_log",
            .log,
            .integers("id", "event_time", "received_at", "settled_at"),
            .texts("app", "jti", "client_id", "user_id", "type", "outcome"),
            .payload
        ),
        StoredTable(
            "notification_quarantine",
            .log,
            remembersGreatestID: true,
            .integers("id", "received_at", "rejected_at"),
            .payload,
            .texts("reason", "detail")
        ),
        StoredTable(
            "grant_log",
            .log,
            .integers("id", "grant_id", "granted_at", "settled_at", "signed_in_at", "real_user_status"),
            .texts("client_id", "user_id", "outcome", "reason", "detail")
        ),
        StoredTable(
            "request_key",
            .log,
            key: "client, key",
            .texts("client", "key"),
            .bytes("digest"),
            .integers("row_id", "told_at")
        ),
        StoredTable("delivery", .log, key: "name", .texts("name"), .integers("cursor", "stopped_at")),
        StoredTable(
            "delivery_retry",
            .log,
            key: "delivery, change_id",
            .texts("delivery", "reason"),
            .integers("change_id", "failures", "due_at", "failed_at")
        ),
        StoredTable(
            "revocation_log",
            .log,
            .integers("id", "request", "requested_at", "effective_at", "token_granted_at", "before_at", "before_date", "revoke_at"),
            .integers("revoke_date", "after_at", "after_date", "settled_at"),
            .texts("app", "client_id", "user_id", "key_id", "before_answer", "revoke_answer", "after_answer", "outcome", "reason")
        ),
        StoredTable(
            "credential_change",
            .log,
            remembersGreatestID: true,
            .integers("id", "occurred_at", "recorded_at"),
            .texts("app", "client_id", "user_id", "kind", "from_state", "to_state", "reason", "email", "email_forwarding", "source"),
            .texts("notification_jti")
        ),
        StoredTable("signing_key", .setting, key: "kid", .texts("kid", "jwk"), .integers("last_seen_at"), .bytes("proof")),
        StoredTable("secret", .setting, key: "name", .texts("name"), .bytes("sealed")),
        StoredTable("credential_count", .setting, key: "app, state", .integers("app", "count"), .texts("state")),
        // SQLite only. In PostgreSQL, the rows tell which new notifications are claimed, and the fleet tells whether siwatch lives. A
        // server has backups of its own.
        StoredTable(
            "counter",
            .setting,
            key: "name",
            where: "name NOT IN ('notification_queue_claimed', 'alive_at', 'backed_up_at')",
            .texts("name"),
            .integers("value")
        ),
        // PostgreSQL has a row for each app, to lock it, even if its breaker has judged nothing.
        StoredTable("breaker", .setting, key: "app", where: "state IS NOT NULL", .integers("app"), .texts("state")),
        StoredTable("canary", .users, key: "user_id, client", .texts("user_id"), .integers("client", "asked_at")),
        StoredTable(
            "admitted_rejection",
            .users,
            .integers("id", "app", "client", "granted_at", "rejected_at", "admitted_at"),
            .texts("user_id")
        ),
        StoredTable(
            "operator_request",
            .users,
            remembersGreatestID: true,
            .integers("id", "requested_at", "answered_at"),
            .texts("request", "answer", "position")
        ),
    ]

    /// The views that backends read.
    package static let views = [
        StoredTable(
            "credential_state",
            .view,
            key: "user_id, client_id",
            .texts("app", "client_id", "user_id", "state", "reason", "email", "email_forwarding"),
            .integers("changed_at", "verified_at", "next_check_at"),
            .integers("email_is_private", bytes: 4)
        ),
        StoredTable(
            "user_state",
            .view,
            key: "user_id, app",
            .texts("app", "user_id", "state", "reason", "email", "email_forwarding"),
            .integers("changed_at", "verified_at"),
            .integers("email_is_private", bytes: 4)
        ),
    ]
}
