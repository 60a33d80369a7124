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
        return try waitingGrants.contains(notification.userID, of: app, since: notification.event.occurredAt, at: now)
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
            if user[client.id] == nil { user.set(CredentialRow(), at: client.id) }
            return user.registers == before || user.isOutdated(event) ? .stale : .applied
        }
    }

    private func log(
        _ work: ClaimedNotification,
        _ notification: VerifiedNotification,
        app: String,
        outcome: NotificationLogOutcome
    ) throws -> NotificationLogOutcome {
        let (user, time) = (notification.userID, notification.event.occurredAt)
        try statements.logNotification.run(
            app,
            notification.tokenID,
            notification.clientID,
            user,
            notification.type,
            time,
            now,
            outcome.rawValue,
            work.id
        )
        if db.changesCount > 0 { return outcome }
        try statements.logDuplicate.run(
            app,
            notification.tokenID,
            notification.clientID,
            user,
            notification.type,
            time,
            work.receivedAt,
            now
        )
        return .duplicate
    }
}

extension RegisterCache.User {
    /// Whether a sign-in at least as new stands above an event at every client of the app.
    fileprivate func isOutdated(_ event: Event) -> Bool {
        switch event.kind {
        case .consentRevoked, .accountDeleted:
            let grants = holdings.compactMap(\.row.credential.grantedAt)
            return !grants.isEmpty && grants.allSatisfy { $0 >= event.occurredAt }
        case .emailEnabled, .emailDisabled, .unknown:
            return false
        }
    }
}
