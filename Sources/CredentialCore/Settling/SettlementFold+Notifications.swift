// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Notifications: a signed one moves registers and is kept as evidence. A rejected one goes to the quarantine.
extension SettlementFold {
    mutating func settle(_ work: ClaimedNotification, _ verdict: NotificationVerdict) -> Settled {
        switch verdict {
        case .postponed(let until):
            return postpone(work, until: until)
        case .rejected(let reason, let detail):
            guard release(work) else { return .superseded }
            changes.queueRows.append(.quarantine(work, reason, detail: detail))
            return .quarantined(reason)
        case .verified(let notification):
            // No app names this client any more. The verifier knows the configuration, so the row is from an earlier configuration.
            guard let app = apps[notification.clientID] else {
                return postpone(work, until: now.advanced(by: SettlementRules.unknownClientRetry))
            }
            if awaitsNewerGrant(notification, of: app, receivedAt: work.receivedAt) {
                return postpone(work, until: now.advanced(by: min(rules.pollInterval, SettlementRules.longestSignInRetry)))
            }
            guard release(work) else { return .superseded }
            if let forgotten = forgotten(AppUserID(app: app, userID: notification.userID), at: notification.event.occurredAt) {
                // The log had the event. It learns neither the `sub` nor the message again.
                var unnamed = notification
                unnamed.userID = forgotten.pseudonym
                changes.queueRows.append(.logNotification(work, unnamed, app: app, .duplicate, settlement: changes.results.count))
                return .notification(.duplicate)
            }
            let outcome = apply(notification, of: app)
            changes.queueRows.append(.logNotification(work, notification, app: app, outcome, settlement: changes.results.count))
            return .notification(outcome)
        }
    }

    private mutating func postpone(_ work: ClaimedNotification, until time: Timestamp) -> Settled {
        guard release(work) else { return .superseded }
        changes.queueRows.append(.postponeNotification(work.id, until: time))
        return .postponed
    }

    /// - Returns: whether the claim still held the row.
    private mutating func release(_ work: ClaimedNotification) -> Bool {
        guard basis.heldNotifications[work.id] == work.claim else { return false }
        basis.heldNotifications[work.id] = nil
        return true
    }

    /// Whether an event must wait for a grant in the queue that is not older, so that nobody is reported revoked in between.
    private func awaitsNewerGrant(_ notification: VerifiedNotification, of app: String, receivedAt: Timestamp) -> Bool {
        guard notification.event.endsSignIns else { return false }
        let id = AppUserID(app: app, userID: notification.userID)
        return isWorthWaiting(for: waitingGrants(of: id).filter { $0.grantedAt >= notification.event.occurredAt }, since: receivedAt)
    }

    private mutating func apply(_ notification: VerifiedNotification, of app: String) -> NotificationLogOutcome {
        let event = notification.event
        if event.kind == .unknown { return .unknownType }
        let id = AppUserID(app: app, userID: notification.userID)
        return withUser(id, .notification, at: event.occurredAt, tokenID: notification.tokenID) { user in
            let before = user.registers
            user.apply(event)
            if user[notification.clientID] == nil { user[notification.clientID] = CredentialRecord() }
            return user.registers == before || user.isOutdated(event) ? .stale : .applied
        }
    }
}
