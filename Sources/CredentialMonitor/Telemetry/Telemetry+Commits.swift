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
            for counted in Tallied.all(settlement, result) { tally[counted, default: 0] += 1 }
            revocationSettled(settlement, result)
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
            let (metric, labels) = counted.counter
            count(metric, labels, by: number)
            if case .refresh(let app, let label) = counted { recent.note(label, of: app, by: number, at: now) }
        }
    }

    /// What a settlement or a change counts as. A batch is tallied before any counter is touched.
    private enum Tallied: Hashable {
        case notification(Event.Kind.Label, NotificationLogOutcome)
        case quarantined(RejectionReason)
        case grant(GrantLogOutcome)
        case code(app: String, String)
        case revocation(app: String, RevocationOutcome)
        case refresh(app: String, RefreshLabel)
        case transition(app: String, from: CredentialState?, to: CredentialState, StateReason)

        /// A code counts as a grant too.
        static func all(_ settlement: Settlement, _ result: Settled) -> [Tallied] {
            if case .code(let work, let verdict) = settlement, case .grant(let outcome, let reason) = result {
                let label = verdict.isRefusedAsExpired ? CodeVerdict.refusedAsExpired : reason?.rawValue ?? outcome.rawValue
                let code = work.app.map { Tallied.code(app: $0, label) }
                return [.grant(outcome)] + (code.map { [$0] } ?? [])
            }
            return Tallied(settlement, result).map { [$0] } ?? []
        }

        /// Nil if the work is not settled yet.
        private init?(_ settlement: Settlement, _ result: Settled) {
            switch (settlement, result) {
            case (.notification(_, .verified(let notification)), .notification(let outcome)):
                self = .notification(notification.event.kind.label, outcome)
            case (.notification, .quarantined(let reason)):
                self = .quarantined(reason)
            case (.grant, .grant(let outcome, _)):
                self = .grant(outcome)
            case (.refresh(let work, let verdict), .refreshed):
                self = .refresh(app: work.app, RefreshLabel(verdict, wasAccepted: work.wasAccepted))
            case (.refresh(let work, _), .held):
                self = .refresh(app: work.app, .held)
            case (.revocationRequest(let work, _), .revocation(let outcome)):
                // The app is empty if no app has the client.
                self = .revocation(app: work.app ?? "", outcome)
            case (.revocation(let work, _), .revocation(let outcome)):
                self = .revocation(app: work.app, outcome)
            case (.notification, _), (.grant, _), (.code, _), (.refresh, _), (.admission, _), (.revocationRequest, _), (.revocation, _):
                return nil
            }
        }

        var counter: (Metric, labels: [String: String]) {
            switch self {
            case .notification(let type, let outcome): (.notifications, ["type": type.rawValue, "outcome": outcome.rawValue])
            case .quarantined(let reason): (.notificationsRejected, ["reason": reason.rawValue])
            case .grant(let outcome): (.grants, ["outcome": outcome.rawValue])
            case .code(let app, let outcome): (.codeExchanges, ["app": app, "outcome": outcome])
            case .revocation(let app, let outcome): (.revocations, ["app": app, "outcome": outcome.rawValue])
            case .refresh(let app, let label): (.refreshes, ["app": app, "outcome": label.rawValue])
            case .transition(let app, let from, let to, let reason):
                (.stateTransitions, ["app": app, "from": from?.rawValue ?? "none", "to": to.rawValue, "reason": reason.rawValue])
            }
        }
    }

    /// Logs what an operator has to know of a request to revoke, besides its success.
    private func revocationSettled(_ settlement: Settlement, _ result: Settled) {
        switch (settlement, result) {
        case (.revocationRequest(let work, let verdict), .revocation(.rejected)):
            var metadata: Logger.Metadata = [:]
            if case .rejected(let reason) = verdict { metadata["reason"] = "\(reason.rawValue)" }
            if let credential = work.credential { metadata["user"] = "\(pseudonym(credential.userID))" }
            if let app = work.app { metadata["app"] = "\(app)" }
            log(.revocationRejected, metadata)
        case (.revocation(let work, let verdict), .revocation(.rejected)):
            let reason: RevocationRejection =
                switch verdict {
                case .poison: .poison
                case .unknownClient: .unknownClient
                case .unnamedUser: .unnamedUser
                case .disabled: .revocationsDisabled
                case .otherTeam: .otherTeam
                default: .anotherUser
                }
            log(.revocationRejected, metadata(of: work).merging(["reason": "\(reason.rawValue)"]) { _, new in new })
        case (.revocationRequest(let work, _), .heldBack(reachesLimit: true)):
            log(.revocationsHeld, ["app": "\(work.app ?? "")"])
        case (.revocation(let work, .answered(let answer, _, _)), .postponed)
        where answer.word == .accepted && work.proof.next == .isStillAccepted:
            log(.revocationUnproved, metadata(of: work).merging(["count": "\(work.proof.rounds + 1)"]) { _, new in new })
        default: break
        }
    }

    private func metadata(of work: DueRevocation) -> Logger.Metadata {
        ["app": "\(work.app)", "client_id": "\(work.id.clientID)", "user": "\(pseudonym(work.id.userID))"]
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

/// The outcomes of a refresh as metrics name them.
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
        [GrantLogOutcome.applied, .stale, .duplicate].map(\.rawValue) + GrantRejection.allCases.map(\.rawValue)
        + [CodeVerdict.refusedAsExpired]
}

extension CodeVerdict {
    /// Apple says so of rubbish too, which anybody can send. So it is counted apart from codes that waited here for too long.
    fileprivate static let refusedAsExpired = "refused_as_expired"

    /// Not `late`, which is a code that waited here for too long.
    fileprivate var isRefusedAsExpired: Bool {
        if case .rejected(.codeExpired, _) = self { true } else { false }
    }
}

/// A user's name in the log, made only for a line that is written. In a flood most lines are held back.
private struct LatePseudonym: CustomStringConvertible, Sendable {
    let userID: String
    let make: @Sendable (String) -> String

    var description: String { make(userID) }
}

extension Event.Kind {
    /// The name by which metrics count the event. Both spellings of the deletion count as one.
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
