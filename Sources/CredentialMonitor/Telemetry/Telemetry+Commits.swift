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
            for counted in tallied(settlement, result) { tally[counted, default: 0] += 1 }
            revocationSettled(settlement, result)
            // The commit decides what a late code ends as.
            if case .code(let work, .late) = settlement, case .grant(_, let reason?) = result {
                codeRejected(work, reason, detail: work.detail)
            }
        }
        if let lastReceived { gauge(.notificationLastReceived, lastReceived.inSeconds) }
        for announcement in batch.announcements {
            guard case .state(let from, let to, let reason, _) = announcement.change else { continue }
            let states = [from?.rawValue ?? "none", to.rawValue, reason.rawValue]
            tally[Tallied(.stateTransitions, [announcement.app] + states), default: 0] += 1
            changed(announcement, from: from, to: to, reason)
        }
        for (counted, number) in tally {
            count(counted.metric, Dictionary(uniqueKeysWithValues: zip(counted.metric.labels, counted.values)), by: number)
            if counted.metric == .refreshes, let label = RefreshLabel(rawValue: counted.values[1]) {
                recent.note(label, of: counted.values[0], by: number, at: now)
            }
        }
    }

    /// A counter, with the values of its labels in their order. A batch is tallied before any counter is touched.
    private struct Tallied: Hashable {
        let metric: Metric
        let values: [String]

        init(_ metric: Metric, _ values: [String]) {
            (self.metric, self.values) = (metric, values)
        }

        /// Without the metric, whose hash is that of its long text.
        func hash(into hasher: inout Hasher) { hasher.combine(values) }
    }

    /// What a settlement counts as. A code counts as a sign-in too, and work that is not settled yet as nothing.
    private func tallied(_ settlement: Settlement, _ result: Settled) -> [Tallied] {
        switch (settlement, result) {
        case (.notification(_, .verified(let notification)), .notification(let outcome)):
            return [Tallied(.notifications, [notification.event.kind.label, outcome.rawValue])]
        case (.notification, .quarantined(let reason)): return [Tallied(.notificationsRejected, [reason.rawValue])]
        case (.grant, .grant(let outcome, _)): return [Tallied(.grants, [outcome.rawValue])]
        case (.code(let work, let verdict), .grant(let outcome, let reason)):
            let label = verdict.isRefusedAsExpired ? CodeVerdict.refusedAsExpired : reason?.rawValue ?? outcome.rawValue
            return [Tallied(.grants, [outcome.rawValue])] + [work.app].compactMap(\.self).map { Tallied(.codeExchanges, [$0, label]) }
        case (.refresh(let work, let verdict), .refreshed):
            return [Tallied(.refreshes, [work.app, RefreshLabel(verdict, wasAccepted: work.wasAccepted).rawValue])]
        case (.refresh(let work, _), .held): return [Tallied(.refreshes, [work.app, RefreshLabel.held.rawValue])]
        // The app is empty if no app has the client.
        case (.revocationRequest(let work, _), .revocation(let outcome, _)):
            return [Tallied(.revocations, [work.app ?? "", outcome.rawValue])]
        case (.revocation(let work, _), .revocation(let outcome, _)): return [Tallied(.revocations, [work.app, outcome.rawValue])]
        case (.notification, _), (.grant, _), (.code, _), (.refresh, _), (.admission, _), (.revocationRequest, _), (.revocation, _):
            return []
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
