// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The text of `--help` beyond the options, in lines of less than 80 characters.
extension AppleSimulatorCommand {
    static let discussion = """
        It answers as Apple does, checks client secrets, and lets people sign in,
        revoke, delete and switch their mail, by control routes on the same port.
        Once it listens it prints: apple-simulator listening on http://127.0.0.1:PORT
        With --print-config that line is a comment before a whole siwatch.toml:
          apple-simulator --print-config > siwatch.toml

        APPLE'S ENDPOINTS
          POST /auth/token   GET /auth/keys   POST /auth/revoke

        CONTROL ROUTES, under /simulator: JSON; times in ms by Apple's clock
          POST   users                 count, address (relay, own, none), SIGN-IN
          GET    users                 the truth about everybody
          GET    users/ID              the truth about one
          POST   sign-ins              PEOPLE, SIGN-IN
          POST   consent-revocations   PEOPLE, client_id, EMISSION
          POST   account-deletions     PEOPLE, EMISSION
          POST   mail-forwarding       PEOPLE, enabled, client_id, EMISSION
          POST   password-changes      PEOPLE
          POST   notifications         PEOPLE, type, client_id, EMISSION:
                                       says it, changes nothing
          GET    notifications         the latest 10,000
          POST   notifications/JTI/redelivery
          POST   keys/rotation         keep_former
          POST   client-keys           client_id, key_id, public_key (PEM)
          DELETE client-keys/ID
          GET    clock
          PUT    clock                 offset_ms
          POST   preparations          signs the next answers ahead
          POST   faults                FAULT
          GET    faults
          DELETE faults, faults/ID
          GET    counters
          DELETE counters
          GET    openapi.json          these routes, for programs

          PEOPLE    user_ids, or any: the first so many to whom it can happen
          SIGN-IN   client_id, credential (refresh_token, authorization_code,
                    none), redirect_uri, nonce, granted_at,
                    id_token (true: beside the code, as the device gets it)
          EMISSION  event_time, issued_at, deliver, events_as_object,
                    event_time_in_seconds, is_private_email (string, bool,
                    absent), deletion_spelling (account-delete,
                    account-deleted), audience (latest, primary, or a client),
                    signature (genuine, forged, unknown_key)
          FAULT     endpoint (token, keys, revoke), grant_type, user_ids,
                    user_share, client_id, count, delay_ms, loses (request,
                    answer), status, headers, body, padding,
                    connection (reset, hang, cut), id_token (another_subject,
                    another_audience, another_issuer, another_nonce,
                    missing_nonce, expired, issued_in_future, forged,
                    unknown_key, not_a_jwt, missing; no flaws:
                    nonce_unsupported, string_flags)

        EXAMPLE
          curl -d '{"count": 3}' URL/simulator/users
          curl -d '{"any": 1}' URL/simulator/consent-revocations
          curl -d '{"status": 503, "count": 10}' URL/simulator/faults
          curl -d '{"id_token": "expired", "grant_type": "authorization_code",
                    "count": 1}' URL/simulator/faults
        """
}
