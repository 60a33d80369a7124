// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CoreMetrics
internal import CredentialCore
internal import Logging

/// What a commit did, counted a batch at a time.
extension Telemetry {
    func settled(_ judged: [Judged], _ batch: SettledBatch, in duration: Duration, at now: Timestamp) {
        gauge(Metric.storeFull, 0)
        record(Metric.storeTransactionDuration, duration.inSeconds)
        record(Metric.settlementBatchSize, Double(judged.count))
        count(Metric.settlements, by: judged.count)
        if batch.evicted > 0 { count(Metric.notificationsEvicted, by: batch.evicted) }
        var tally: [Tallied: Int] = [:]
        var lastReceived: Timestamp?
        for (judged, result) in zip(judged, batch.results) {
            if case .notification(let work, .verified(let notification)) = judged.settlement, case .notification = result {
                notificationLag.record(max(notification.event.occurredAt.duration(to: now).inSeconds, 0))
                lastReceived = work.receivedAt
            }
            if let counted = Tallied(judged, result) { tally[counted, default: 0] += 1 }
        }
        if let lastReceived { gauge(Metric.notificationLastReceived, lastReceived.inSeconds) }
        for transition in batch.transitions {
            tally[Tallied(transition), default: 0] += 1
            changed(transition)
        }
        for (counted, number) in tally { count(counted.metric, counted.labels, by: number) }
    }

    /// What one settlement or change counts as, to count a batch before touching a counter.
    private enum Tallied: Hashable {
        case notification(Event.Kind.Label, NotificationLogOutcome)
        case quarantined(RejectionReason)
        case grant(GrantLogOutcome)
        case refresh(app: String, RefreshLabel)
        case transition(app: String, from: CredentialState?, to: CredentialState, StateReason)

        init(_ transition: StateTransition) {
            self = .transition(app: transition.app, from: transition.from, to: transition.to, transition.reason)
        }

        /// Nil for what is not settled yet.
        init?(_ judged: Judged, _ result: Settled) {
            switch (judged.settlement, result) {
            case (.notification(_, .verified(let notification)), .notification(let outcome)):
                self = .notification(notification.event.kind.label, outcome)
            case (.notification, .quarantined(let reason)):
                self = .quarantined(reason)
            case (.grant, .grant(let outcome, _)):
                self = .grant(outcome)
            case (.refresh, .refreshed):
                guard let refresh = judged.refresh else { return nil }
                self = .refresh(app: refresh.app, refresh.label)
            case (.refresh, .held):
                guard let refresh = judged.refresh else { return nil }
                self = .refresh(app: refresh.app, .held)
            case (.notification, _), (.grant, _), (.refresh, _), (.admission, _):
                return nil
            }
        }

        var metric: Metric {
            switch self {
            case .notification: .notifications
            case .quarantined: .notificationsRejected
            case .grant: .grants
            case .refresh: .refreshes
            case .transition: .stateTransitions
            }
        }

        var labels: [String: String] {
            switch self {
            case .notification(let type, let outcome): ["type": type.rawValue, "outcome": outcome.rawValue]
            case .quarantined(let reason): ["reason": reason.rawValue]
            case .grant(let outcome): ["outcome": outcome.rawValue]
            case .refresh(let app, let label): ["app": app, "outcome": label.rawValue]
            case .transition(let app, let from, let to, let reason):
                ["app": app, "from": from?.rawValue ?? "none", "to": to.rawValue, "reason": reason.rawValue]
            }
        }
    }

    private func changed(_ transition: StateTransition) {
        logger.log(
            .credentialChanged,
            [
                "app": "\(transition.app)",
                "client_id": "\(transition.credential.clientID)",
                "user": .stringConvertible(LatePseudonym(userID: transition.credential.userID, make: pseudonym)),
                "state_from": "\(transition.from?.rawValue ?? "none")",
                "state_to": "\(transition.to.rawValue)",
                "reason": "\(transition.reason.rawValue)",
                "source": "\(transition.source.rawValue)",
            ],
            at: transition.to == .authorized ? .debug : nil
        )
    }
}

/// A user's name in the log, made only for a line that is written: in a flood most are held back.
private struct LatePseudonym: CustomStringConvertible, Sendable {
    let userID: String
    let make: @Sendable (String) -> String

    var description: String { make(userID) }
}

extension Event.Kind {
    /// The name by which metrics count it; both spellings of the deletion are one.
    fileprivate enum Label: String {
        case consentRevoked = "consent-revoked"
        case accountDeleted = "account-deleted"
        case emailEnabled = "email-enabled"
        case emailDisabled = "email-disabled"
        case other
    }

    fileprivate var label: Label {
        switch self {
        case .consentRevoked: .consentRevoked
        case .accountDeleted: .accountDeleted
        case .emailEnabled: .emailEnabled
        case .emailDisabled: .emailDisabled
        case .unknown: .other
        }
    }
}
