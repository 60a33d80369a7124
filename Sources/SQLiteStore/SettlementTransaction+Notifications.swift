// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import Foundation
internal import GRDB

/// Notifications: what Apple signed moves registers and is kept as evidence, what it did not sign goes to quarantine.
extension SettlementTransaction {
    mutating func settle(_ work: ClaimedNotification, _ verdict: NotificationVerdict) throws -> Settled {
        switch verdict {
        case .postponed(let until):
            return try postpone(.notification, work.id, work.claim, until: until)
        case .rejected(let reason, let detail):
            guard try isHeld(.notification, work.id, work.claim) else { return .superseded }
            try quarantine.add(notification: work.id, payloadSize: work.payload.count, reason: reason, detail: detail, at: now)
            try remove(.notification, work.id)
            return .quarantined(reason)
        case .verified(let notification):
            // A client that no app names any more: the verifier knows the configuration, so this is a row of a former life.
            guard let client = directory.clients[notification.clientID] else {
                return try postpone(.notification, work.id, work.claim, until: now.advanced(by: SettlementRules.unknownClientRetry))
            }
            if try awaitsNewerGrant(notification, of: client.app, receivedAt: work.receivedAt) {
                return try postpone(.notification, work.id, work.claim, until: now.advanced(by: min(rules.pollInterval, .seconds(60))))
            }
            guard try isHeld(.notification, work.id, work.claim) else { return .superseded }
            let outcome = try apply(notification, of: client)
            let logged = try log(work, notification, app: client.app.name, outcome: outcome)
            try remove(.notification, work.id)
            return .notification(logged)
        }
    }

    /// An event is judged against the newest grant known, one that still waits in its queue included: a user who signed in again is
    /// never reported revoked in between.
    private func awaitsNewerGrant(
        _ notification: VerifiedNotification,
        of app: ClientDirectory.App,
        receivedAt: Timestamp
    ) throws -> Bool {
        switch notification.event.kind {
        case .consentRevoked, .accountDeleted: break
        case .emailEnabled, .emailDisabled, .unknown: return false
        }
        // A moment that has yet to come is from a clock that has since been set back.
        guard let start = [receivedAt, rules.startedAt].filter({ $0 <= now }).max(),
            now < start.advanced(by: SettlementRules.longestWaitForGrant)
        else { return false }
        return try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (SELECT 1 FROM grant_queue g JOIN client c ON c.client_id = g.client_id
                                    WHERE g.user_id = ? AND g.granted_at >= ? AND c.app = ?)
                    """
            ),
            arguments: [notification.userID, notification.event.occurredAt.milliseconds, app.id]
        ) ?? false
    }

    private mutating func apply(
        _ notification: VerifiedNotification,
        of client: ClientDirectory.Client
    ) throws -> NotificationLogOutcome {
        let event = notification.event
        if event.kind == .unknown { return .unknownType }
        let key = RegisterCache.Key(app: client.app, userID: notification.userID)
        return try withUser(key, .notification, at: event.occurredAt, tokenID: notification.tokenID) { user in
            let before = user.registers
            user.registers.apply(event)
            if user.rows[client.id] == nil { user.rows[client.id] = CredentialRow() }
            return user.registers == before || user.isOutdated(event) ? .stale : .applied
        }
    }

    private func log(
        _ work: ClaimedNotification,
        _ notification: VerifiedNotification,
        app: String,
        outcome: NotificationLogOutcome
    ) throws -> NotificationLogOutcome {
        let isFirst = try db.changed(
            cached: """
                INSERT INTO notification_log (app, jti, client_id, user_id, type, event_time, payload, received_at, settled_at, outcome)
                SELECT ?, ?, ?, ?, ?, ?, payload, received_at, ?, ? FROM notification_queue WHERE id = ?
                    ON CONFLICT (user_id, app, type, event_time) WHERE outcome <> 'duplicate' DO NOTHING
                """,
            [
                app, notification.tokenID, notification.clientID, notification.userID, notification.type,
                notification.event.occurredAt.milliseconds, now.milliseconds, outcome.rawValue, work.id,
            ]
        )
        if isFirst { return outcome }
        try db.execute(
            cached: """
                INSERT INTO notification_log (app, jti, client_id, user_id, type, event_time, received_at, settled_at, outcome)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'duplicate')
                """,
            [
                app, notification.tokenID, notification.clientID, notification.userID, notification.type,
                notification.event.occurredAt.milliseconds, work.receivedAt.milliseconds, now.milliseconds,
            ]
        )
        return .duplicate
    }
}

extension RegisterCache.User {
    /// Whether a sign-in at least as new stands above an event at every client of the app.
    fileprivate func isOutdated(_ event: Event) -> Bool {
        switch event.kind {
        case .consentRevoked, .accountDeleted:
            let grants = rows.values.compactMap(\.credential.grantedAt)
            return !grants.isEmpty && grants.allSatisfy { $0 >= event.occurredAt }
        case .emailEnabled, .emailDisabled, .unknown:
            return false
        }
    }
}
