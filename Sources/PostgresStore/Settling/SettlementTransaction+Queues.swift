// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// Writes the changes of queue rows. Each row that leaves a queue goes to a log or to the quarantine, and its payload never leaves the
/// server.
struct QueueWrites {
    let connection: Connection
    let now: Timestamp
    /// The number of rows that have left each queue.
    private(set) var removed: [Queue: Int] = [:]
    private(set) var quarantine: QuarantineRing
    private var postponedNotifications = RowArrays()
    private var logged = NotificationLogRows()
    private var loggedGrants = RowArrays()
    private var postponedGrants = RowArrays()
    private var postponedCodes = RowArrays()

    init(on connection: Connection, at now: Timestamp) {
        self.connection = connection
        self.now = now
        quarantine = QuarantineRing(on: connection)
    }

    mutating func add(_ rows: [QueueRowChange], _ revocations: RevocationRows<Connection>) throws {
        for row in rows {
            switch row {
            case .logNotification(let work, let notification, let app, let outcome, let settlement):
                logged.append(work, notification, app: app, outcome, settlement: settlement)
                removed[.notification, default: 0] += 1
            case .quarantine(let work, let reason, let detail):
                quarantine.add(notification: work.id, payloadSize: work.payload.count, reason: reason, detail: detail)
                removed[.notification, default: 0] += 1
            case .postponeNotification(let id, let until):
                postponedNotifications.append(id, until)
            case .logGrant(let entry):
                loggedGrants.append(
                    entry.id,
                    entry.userID,
                    entry.outcome.rawValue,
                    entry.reason?.rawValue,
                    entry.detail,
                    entry.signedInAt,
                    entry.realUserStatus
                )
                removed[.grant, default: 0] += 1
            case .postponeGrant(let id, let until, let waitsSince, let isAhead):
                postponedGrants.append(id, until, waitsSince, isAhead ? 1 : 0)
            case .postponeCode(let id, let until, let failures, let isAnswerLost, let detail):
                postponedCodes.append(id, until, failures, isAnswerLost ? 1 : 0, detail)
            case .revocation(let change):
                if try revocations.write(change) { removed[.revocation, default: 0] += 1 }
            }
        }
    }

    /// - Returns: the answer that tells which notifications are duplicates.
    func send() throws -> Connection.Answer? {
        // If a vacuum found a queue empty, the server expects one row, and a nested loop would go through all pairs of a batch.
        try connection.send("SET LOCAL enable_nestloop = off")
        let duplicates = try logged.send(on: connection, at: now)
        try quarantine.send(at: now)
        try connection.send(
            """
            UPDATE notification_queue q SET due_at = n.due_at, attempts = 0, claimed_by = NULL
              FROM unnest($1, $2) AS n (id, due_at) WHERE q.id = n.id AND q.id = ANY($1)
            """,
            postponedNotifications
        )
        try connection.send(
            """
            WITH gone AS (DELETE FROM grant_queue WHERE id = ANY($1) RETURNING id, client_id, user_id, granted_at)
            INSERT INTO grant_log (grant_id, client_id, user_id, granted_at, settled_at, outcome, reason, detail, signed_in_at,
                                   real_user_status)
            SELECT gone.id, gone.client_id, COALESCE(n.user_id, gone.user_id), gone.granted_at, $8, n.outcome, n.reason, n.detail,
                   n.signed_in_at, n.real_user_status
              FROM unnest($1, $2, $3, $4, $5, $6, $7) WITH ORDINALITY
                   AS n (id, user_id, outcome, reason, detail, signed_in_at, real_user_status, place)
              JOIN gone ON gone.id = n.id
             ORDER BY n.place
            """,
            loggedGrants,
            [now.parameter]
        )
        try connection.send(
            """
            UPDATE grant_queue q SET due_at = n.due_at, attempts = 0, claimed_by = NULL, waits_since = n.waits_since,
                   is_ahead = n.is_ahead
              FROM unnest($1, $2, $3, $4) AS n (id, due_at, waits_since, is_ahead) WHERE q.id = n.id AND q.id = ANY($1)
            """,
            postponedGrants
        )
        try connection.send(
            """
            UPDATE grant_queue q SET due_at = n.due_at, attempts = 0, claimed_by = NULL, failures = n.failures, answer_lost = n.answer_lost,
                   detail = n.detail
              FROM unnest($1, $2, $3, $4, $5) AS n (id, due_at, failures, answer_lost, detail) WHERE q.id = n.id AND q.id = ANY($1)
            """,
            postponedCodes
        )
        try connection.send("SET LOCAL enable_nestloop = on")
        return duplicates
    }
}

/// Notifications that go to their log.
private struct NotificationLogRows {
    private struct Event: Hashable {
        var id: AppUserID
        var type: String
        var time: Timestamp
    }

    private var rows = RowArrays()
    private var events: Set<Event> = []

    mutating func append(
        _ work: ClaimedNotification,
        _ notification: VerifiedNotification,
        app: String,
        _ outcome: NotificationLogOutcome,
        settlement: Int
    ) {
        let event = Event(
            id: AppUserID(app: app, userID: notification.userID),
            type: notification.type,
            time: notification.event.occurredAt
        )
        let isFirst = outcome != .duplicate && events.insert(event).inserted
        rows.append(
            work.id,
            settlement,
            isFirst,
            app,
            notification.tokenID,
            notification.clientID,
            notification.userID,
            notification.type,
            event.time,
            outcome.rawValue
        )
    }

    /// Logs an event as a duplicate if the log has it already, or if it came earlier in the batch.
    ///
    /// - Returns: the answer that names the settlements that were duplicates.
    func send(on connection: Connection, at now: Timestamp) throws -> Connection.Answer? {
        guard rows.count > 0 else { return nil }
        return try connection.send(
            """
            WITH gone AS (DELETE FROM notification_queue WHERE id = ANY($1) RETURNING id, payload, received_at),
            told AS MATERIALIZED (
              SELECT n.*, gone.payload, gone.received_at
                FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
                     AS n (id, settlement, is_first, app, jti, client_id, user_id, type, event_time, outcome)
                JOIN gone ON gone.id = n.id),
            fresh AS (
              INSERT INTO notification_log (app, jti, client_id, user_id, type, event_time, payload, received_at, settled_at, outcome)
              SELECT app, jti, client_id, user_id, type, event_time, payload, received_at, $11, outcome
                FROM told WHERE is_first ORDER BY event_time, user_id COLLATE "C", app COLLATE "C", type COLLATE "C"
                  ON CONFLICT (event_time, user_id, app, type) WHERE outcome <> 'duplicate' DO NOTHING
              RETURNING event_time, user_id, app, type),
            repeated AS (
              SELECT told.* FROM told LEFT JOIN fresh f
                  ON told.is_first AND f.event_time = told.event_time AND f.user_id = told.user_id AND f.app = told.app
                     AND f.type = told.type
               WHERE f.user_id IS NULL),
            kept AS (
              INSERT INTO notification_log (app, jti, client_id, user_id, type, event_time, received_at, settled_at, outcome)
              SELECT app, jti, client_id, user_id, type, event_time, received_at, $11, 'duplicate' FROM repeated ORDER BY settlement)
            SELECT settlement FROM repeated
            """,
            rows.parameters + [now.parameter]
        )
    }
}
