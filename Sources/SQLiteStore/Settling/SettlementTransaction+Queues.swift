// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB

/// Writes the changes of queue rows. Each row that leaves a queue goes to a log or to the quarantine.
extension SettlementTransaction {
    /// - Returns: whether it erased a token, or a message about a forgotten user.
    func writeQueueRows(_ rows: [QueueRowChange], _ batch: inout SettledBatch) throws -> Bool {
        guard !rows.isEmpty else { return false }
        let statements = try QueueStatements(db)
        let revocations = RevocationRows(on: connection, directory: directory, at: now)
        var quarantine = QuarantineRing(on: connection)
        var removed: [Queue: Int] = [:]
        var hasErased = false
        // Delete notifications before inserting their log entries. The entries take their pages over, so SQLite writes each page once.
        let settled = try rows.compactMap { row in
            switch row {
            case .logNotification(let work, _, _, _, _): return work.id
            case .quarantine(let work, let reason, let detail):
                try quarantine.add(notification: work.id, payloadSize: work.payload.count, reason: reason, detail: detail, at: now)
                return work.id
            default: return nil as Int64?
            }
        }
        for ids in settled.ranges { try statements.removeNotifications.run(ids.lowerBound, ids.upperBound) }
        if !settled.isEmpty { removed[.notification] = settled.count }
        for row in rows {
            switch row {
            case .logNotification(let work, let notification, let app, let outcome, let settlement):
                if try !statements.log(work, notification, app: app, outcome, at: now) {
                    batch.results[settlement] = .notification(.duplicate)
                }
                // The message names a forgotten user.
                if outcome == .duplicate { hasErased = true }
            case .quarantine: break
            case .postponeNotification(let id, let until):
                try connection.execute(
                    "UPDATE notification_queue SET due_at = $1, attempts = 0, claimed_by = NULL WHERE id = $2",
                    until,
                    id
                )
            case .logGrant(let entry):
                try statements.logGrant.run(
                    entry.userID,
                    now,
                    entry.outcome.rawValue,
                    entry.reason?.rawValue,
                    entry.detail,
                    entry.signedInAt,
                    entry.realUserStatus,
                    entry.id
                )
                try statements.removeGrant.run(entry.id)
                removed[.grant, default: 0] += 1
                if entry.hasSecret { hasErased = true }
            case .postponeGrant(let id, let until, let waitsSince, let isAhead):
                try connection.execute(
                    "UPDATE grant_queue SET due_at = $1, attempts = 0, claimed_by = NULL, waits_since = $2, is_ahead = $3 WHERE id = $4",
                    until,
                    waitsSince,
                    isAhead ? 1 : 0,
                    id
                )
            case .postponeCode(let id, let until, let failures, let isAnswerLost, let detail):
                try connection.execute(
                    """
                    UPDATE grant_queue
                       SET due_at = $1, attempts = 0, claimed_by = NULL, failures = $2, answer_lost = $3, detail = $4 WHERE id = $5
                    """,
                    until,
                    failures,
                    isAnswerLost,
                    detail,
                    id
                )
            case .revocation(let change):
                if try revocations.write(change) { removed[.revocation, default: 0] += 1 }
                if case .finish = change { hasErased = true }
            }
        }
        batch.evicted = try quarantine.save()
        for (queue, count) in removed { try connection.add(count, to: queue.removedCounter) }
        return hasErased
    }
}

private struct QueueStatements {
    let removeNotifications, removeGrant, logGrant: PreparedStatement
    private let logNotification, logDuplicate: PreparedStatement
    private let db: Database

    init(_ db: Database) throws {
        self.db = db
        removeNotifications = try PreparedStatement("DELETE FROM notification_queue WHERE id BETWEEN ? AND ?", in: db)
        removeGrant = try PreparedStatement("DELETE FROM grant_queue WHERE id = ?", in: db)
        // Copies from the row itself, because a backend may have written text that Swift cannot hold.
        logGrant = try PreparedStatement(
            """
            INSERT INTO grant_log (grant_id, client_id, user_id, granted_at, settled_at, outcome, reason, detail, signed_in_at,
                                   real_user_status)
            SELECT id, client_id, COALESCE(?, user_id), granted_at, ?, ?, ?, ?, ?, ? FROM grant_queue WHERE id = ?
            """,
            in: db
        )
        // Binds values instead of selecting from the queue. SQLite keeps a copy of each page that a statement of many rows may have to
        // undo.
        logNotification = try PreparedStatement(
            """
            INSERT INTO notification_log (app, jti, client_id, user_id, type, event_time, payload, received_at, settled_at, outcome)
            VALUES (?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?, ?, ?)
                ON CONFLICT (event_time, user_id, app, type) WHERE outcome <> 'duplicate' DO NOTHING
            """,
            in: db
        )
        logDuplicate = try PreparedStatement(
            """
            INSERT INTO notification_log (app, jti, client_id, user_id, type, event_time, received_at, settled_at, outcome)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'duplicate')
            """,
            in: db
        )
    }

    /// - Returns: false if the log already has the event. Then it logs this one as a duplicate.
    func log(
        _ work: ClaimedNotification,
        _ notification: VerifiedNotification,
        app: String,
        _ outcome: NotificationLogOutcome,
        at now: Timestamp
    ) throws -> Bool {
        let (user, time) = (notification.userID, notification.event.occurredAt)
        let (jti, client, type) = (notification.tokenID, notification.clientID, notification.type)
        if outcome != .duplicate {
            try logNotification.run(app, jti, client, user, type, time, work.payload, work.receivedAt, now, outcome.rawValue)
            if db.changesCount > 0 { return true }
        }
        try logDuplicate.run(app, jti, client, user, type, time, work.receivedAt, now)
        return false
    }
}

extension Collection<Int64> {
    /// Ranges of consecutive numbers, in order.
    var ranges: [ClosedRange<Int64>] {
        var ranges: [ClosedRange<Int64>] = []
        for number in sorted() {
            if let last = ranges.last, number - last.upperBound <= 1 {
                ranges[ranges.endIndex - 1] = last.lowerBound...number
            } else {
                ranges.append(number...number)
            }
        }
        return ranges
    }
}
