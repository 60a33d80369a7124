// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CoreMetrics
import CredentialCore
import Logging

/// What a commit did, counted a batch at a time.
extension Telemetry {
    func settled(_ settlements: [Settlement], _ batch: SettlementChanges, in duration: Duration, at now: Timestamp) {
        commitFoundRoom()
        record(.storeTransactionDuration, duration.inSeconds)
        record(.settlementBatchSize, Double(settlements.count))
        count(.settlements, by: settlements.count)
        if batch.evicted > 0 { count(.notificationsEvicted, by: batch.evicted) }
        var tally: [Tallied: Int] = [:]
        var lastReceived: Timestamp?
        for (settlement, result) in zip(settlements, batch.results) {
            if case .notification(let work, .verified(let notification)) = settlement, case .notification = result {
                notificationLag.record(max(notification.event.occurredAt.duration(to: now).inSeconds, 0))
                // A backend gives this time, and may send a message again.
                lastReceived = max(lastReceived ?? .earliest, min(work.receivedAt, now))
            }
            if let counted = Tallied(settlement, result) { tally[counted, default: 0] += 1 }
            // A code counts as a sign-in too.
            if case .code = settlement, case .grant(let outcome, _) = result { tally[.grant(outcome), default: 0] += 1 }
            revocationSettled(settlement, result)
            // The commit decides whether the sign-in counts now.
            if case .grant(_, .accepted(_, _, let lost?)) = settlement, case .grant(.rejected, _) = result {
                log(.tokenUndelivered, ["reason": "\(lost)"])
            }
            // The commit decides what a late code ends as.
            if case .code(let work, .late) = settlement, case .grant(_, let reason?) = result {
                codeRejected(work, reason, detail: work.detail)
            }
        }
        if let lastReceived { gauge(.notificationLastReceived, lastReceived.inSeconds) }
        for announcement in batch.announcements {
            guard case .state(let from, let to, let reason, _) = announcement.change else { continue }
            tally[.transition(app: announcement.app, from: from, to: to, reason), default: 0] += 1
            changed(announcement, from: from, to: to, reason)
        }
        for (counted, number) in tally {
            let (metric, values) = counted.counter
            count(metric, Dictionary(uniqueKeysWithValues: zip(metric.labels, values)), by: number)
            if case .refresh(let app, let label) = counted { recent.note(label, of: app, by: number, at: now) }
        }
    }

    /// What a settlement or a change counts as. A batch is tallied before any counter is touched.
    private enum Tallied: Hashable {
        case notification(String, NotificationLogOutcome)
        case quarantined(RejectionReason)
        case grant(GrantLogOutcome)
        case code(app: String, String)
        case revocation(app: String, RevocationOutcome)
        case refresh(app: String, RefreshLabel)
        case transition(app: String, from: CredentialState?, to: CredentialState, StateReason)

        /// Nil if the work is not settled yet.
        init?(_ settlement: Settlement, _ result: Settled) {
            switch (settlement, result) {
            case (.notification(_, .verified(let notification)), .notification(let outcome)):
                self = .notification(notification.event.kind.label, outcome)
            case (.notification, .quarantined(let reason)): self = .quarantined(reason)
            case (.grant, .grant(let outcome, _)): self = .grant(outcome)
            case (.code(let work, let verdict), .grant(let outcome, let reason)):
                guard let app = work.app else { return nil }
                let label = verdict.isRefusedAsExpired ? CodeVerdict.refusedAsExpired : reason?.rawValue ?? outcome.rawValue
                self = .code(app: app, label)
            case (.refresh(let work, let verdict), .refreshed):
                self = .refresh(app: work.app, RefreshLabel(verdict, wasAccepted: work.wasAccepted))
            case (.refresh(let work, _), .held): self = .refresh(app: work.app, .held)
            // The app is empty if no app has the client.
            case (.revocationRequest(let work, _), .revocation(let outcome, _)): self = .revocation(app: work.app ?? "", outcome)
            case (.revocation(let work, _), .revocation(let outcome, _)): self = .revocation(app: work.app, outcome)
            case (.notification, _), (.grant, _), (.code, _), (.refresh, _), (.admission, _), (.revocationRequest, _), (.revocation, _):
                return nil
            }
        }

        /// With the values of the metric's labels.
        var counter: (Metric, [String]) {
            switch self {
            case .notification(let type, let outcome): (.notifications, [type, outcome.rawValue])
            case .quarantined(let reason): (.notificationsRejected, [reason.rawValue])
            case .grant(let outcome): (.grants, [outcome.rawValue])
            case .code(let app, let outcome): (.codeExchanges, [app, outcome])
            case .revocation(let app, let outcome): (.revocations, [app, outcome.rawValue])
            case .refresh(let app, let label): (.refreshes, [app, label.rawValue])
            case .transition(let app, let from, let to, let reason):
                (.stateTransitions, [app, from?.rawValue ?? "none", to.rawValue, reason.rawValue])
            }
        }
    }

    /// Logs what an operator has to know of a request to revoke, besides its success.
    private func revocationSettled(_ settlement: Settlement, _ result: Settled) {
        switch (settlement, result) {
        case (.revocationRequest(let work, _), .revocation(.rejected, let reason?)):
            var metadata: Logger.Metadata = ["reason": "\(reason.rawValue)"]
            if let credential = work.credential { metadata["user"] = "\(pseudonym(credential.userID))" }
            if let app = work.app { metadata["app"] = "\(app)" }
            log(.revocationRejected, metadata)
        case (.revocation(let work, _), .revocation(.rejected, let reason?)):
            log(.revocationRejected, metadata(work.app, work.id).merging(["reason": "\(reason.rawValue)"]) { $1 })
        case (.revocationRequest(let work, _), .heldBack(reachesLimit: true)):
            log(.revocationsHeld, ["app": "\(work.app ?? "")"])
        case (.revocation(let work, .answered(let answer, _, _)), .postponed)
        where answer.word == .accepted && work.proof.next == .isStillAccepted:
            log(.revocationUnproved, metadata(work.app, work.id).merging(["count": "\(work.proof.rounds + 1)"]) { $1 })
        default: break
        }
    }

    private func changed(_ announcement: Announcement, from: CredentialState?, to: CredentialState, _ reason: StateReason) {
        log(
            .credentialChanged,
            [
                "app": "\(announcement.app)",
                "client_id": "\(announcement.credential.clientID)",
                "user": .stringConvertible(LatePseudonym(userID: announcement.credential.userID, make: pseudonym)),
                "state_from": "\(from?.rawValue ?? "none")",
                "state_to": "\(to.rawValue)",
                "reason": "\(reason.rawValue)",
                "source": "\(announcement.source.rawValue)",
            ],
            at: to == .authorized ? .debug : nil
        )
    }
}

enum RefreshLabel: String, CaseIterable {
    case valid
    /// A 200 without an id_token, whatever follows from it.
    case unnamed
    case rejected, held, ambiguous, misconfigured, throttled, unavailable
    /// Rejected, and Apple had never accepted the token.
    case neverAccepted = "never_accepted"

    fileprivate init(_ verdict: RefreshVerdict, wasAccepted: Bool) {
        switch verdict {
        case .valid: self = .valid
        case .unnamed: self = .unnamed
        case .rejected(_, isProven: false): self = .held
        case .rejected(_, isProven: true): self = wasAccepted ? .rejected : .neverAccepted
        case .anotherUser, .unclear: self = .ambiguous
        case .failed(.misconfigured, _, _): self = .misconfigured
        case .failed(.throttled, _, _): self = .throttled
        case .failed(.unavailable, _, _): self = .unavailable
        }
    }
}

extension GrantRejection {
    /// The outcomes of a code as metrics name them: outcomes and rejections of grants, and one more.
    static let codeOutcomes =
        [GrantLogOutcome.applied, .stale, .duplicate].map(\.rawValue) + GrantRejection.words + [CodeVerdict.refusedAsExpired]
}

extension CodeVerdict {
    /// Apple says so of rubbish too, which anybody can send. So it is counted apart from codes that waited here for too long.
    fileprivate static let refusedAsExpired = "refused_as_expired"

    /// Not `late`, which is a code that waited here for too long.
    fileprivate var isRefusedAsExpired: Bool { if case .rejected(.codeExpired, _) = self { true } else { false } }
}

/// A user's name in the log, made only for a line that is written. In a flood most lines are held back.
private struct LatePseudonym: CustomStringConvertible, Sendable {
    let userID: String
    let make: @Sendable (String) -> String

    var description: String { make(userID) }
}

extension Event.Kind {
    /// The names by which metrics count events. Both spellings of the deletion count as one.
    static let labels = [Self.consentRevoked, .accountDeleted, .emailEnabled(nil), .emailDisabled(nil), .unknown].map(\.label)

    fileprivate var label: String {
        switch self {
        case .consentRevoked: "consent-revoked"
        case .accountDeleted: "account-deleted"
        case .emailEnabled: "email-enabled"
        case .emailDisabled: "email-disabled"
        case .unknown: "other"
        }
    }
}
