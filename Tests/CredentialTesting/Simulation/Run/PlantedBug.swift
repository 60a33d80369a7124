// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A bug between the process and its store. The simulation must find it, because a check that cannot fail proves nothing.
///
/// Bugs deeper inside the program are patches in scripts/plant_bugs.py.
package enum PlantedBug: String, Sendable, CaseIterable {
    case answerDatedByItsArrival, eventDatedByItsArrival, grantDatedByItsArrival, revocationDatedByItsProof
    case unknownKeyTakenForForgery, unknownClientTakenForStranger, outageTakenForRejection, refusalTakenForOutage, lostAnswerTakenForSignIn
    case tokenDropped, codeSentLate, lostAnswerForgotten, revocationGivenUp, rejectionForgotten, repetitionIgnored, overtakenIgnored
    /// siwatch believes every `invalid_grant` at once, without proof of the asking client.
    case rejectionBelievedAtOnce
    /// siwatch believes every pending rejection after the settle time, without proof of the asking client.
    case proofIgnored
    /// siwatch believes after an operator's confirmation whatever Apple rejects later.
    case confirmationOutlived
    /// After an answer siwatch makes the next check due at once, or never checks again.
    case dueTimeNotMoved, dueTimeLost
    /// The store reports a batch as committed, and has committed nothing of it, or only the first settlement.
    case settlementLost, batchCutShort
    /// siwatch revokes a token that became no sign-in, whatever else the revocation ends.
    case strayTokenRevokedBlindly
    /// siwatch believes that a token was dead from the first, without proof of the asking client.
    case deadTokenBelievedAtOnce
    /// siwatch takes Apple's 200 to a revocation for a proof.
    case revocationBelievedUnseen
    /// siwatch takes a sign-in whose code waited for Apple for newer than the request to revoke it.
    case requestDuringOutageOverlooked
    /// siwatch takes the date of a request to revoke for true, although it lies ahead.
    case requestDatedAheadTrusted
    /// An undo does nothing, and says that it is complete.
    case undoIgnored
    /// siwatch takes a sign-in of an import for a backend's, so an undo leaves it, or a backend's for one of an import.
    case importTakenForBackend, backendTakenForImport

    func prepare(_ plan: inout Simulation.Plan) {
        switch self {
        case .repetitionIgnored:
            plan.weathers = [.massRejection(1)]
            if plan.isTouchy { plan.breaker = BreakerRules() }
        case .confirmationOutlived: (plan.confirmsRejections, plan.weathers, plan.passwords) = (true, [.massRejection(1)], 700)
        case .requestDatedAheadTrusted: (plan.datesWrongly, plan.revocations) = (true, max(plan.revocations, 100))
        case .undoIgnored, .importTakenForBackend, .backendTakenForImport: (plan.importsFiles, plan.tellsAgain) = (true, true)
        default: break
        }
    }

    /// The admissions that the process uses in place of the right ones.
    func admissions(_ admissions: [AdmissionRule], at now: Timestamp) -> [AdmissionRule] {
        switch self {
        case .rejectionBelievedAtOnce: [AdmissionRule(answered: .earliest...now)]
        case .proofIgnored, .outageTakenForRejection: [AdmissionRule(answered: .earliest...now.advanced(by: .seconds(-900)))]
        case .confirmationOutlived:
            admissions.map { $0.clientID == nil ? AdmissionRule(answered: .earliest...now, onlyAccepted: true) : $0 }
        case .repetitionIgnored: admissions.map { AdmissionRule(clientID: $0.clientID, keyID: $0.keyID, answered: $0.answered) }
        default: admissions
        }
    }

    func rules(_ rules: SettlementRules) -> SettlementRules {
        var rules = rules
        switch self {
        case .dueTimeNotMoved: rules.policy = RefreshPolicy(interval: .milliseconds(1), timeout: rules.policy.timeout)
        case .dueTimeLost: rules.policy = RefreshPolicy(interval: .seconds(400 * 86_400), timeout: rules.policy.timeout)
        default: break
        }
        return rules
    }

    func batch(_ settlements: [Settlement]) -> [Settlement] {
        switch self {
        case .settlementLost: []
        case .batchCutShort: Array(settlements.prefix(1))
        default: settlements
        }
    }

    func results(_ results: [Settled], of settlements: [Settlement]) -> [Settled] {
        results + Array(repeating: .refreshed, count: settlements.count - results.count)
    }

    func settlement(_ settlement: Settlement, at now: Timestamp) -> Settlement {
        switch (self, settlement) {
        case (.answerDatedByItsArrival, .refresh(let work, .valid(_, let answeredAt))):
            return .refresh(work, .valid(requestedAt: now, answeredAt: answeredAt))
        case (.rejectionForgotten, .refresh(let work, .rejected(let rejection, _))):
            return .refresh(work, .unclear(answeredAt: rejection.answeredAt))
        case (.outageTakenForRejection, .refresh(let work, .failed(_, let time, _))):
            let rejection = PendingRejection(requestedAt: time, answeredAt: time, keyID: "")
            return .refresh(work, .rejected(rejection, isProven: true))
        case (.eventDatedByItsArrival, .notification(let work, .verified(var notification))):
            notification.event.occurredAt = now
            return .notification(work, .verified(notification))
        case (.grantDatedByItsArrival, .grant(let work, .accepted(var grant, let credential, _))):
            grant.grantedAt = now
            return .grant(work, .accepted(grant, credential))
        case (.importTakenForBackend, .grant(var work, let verdict)):
            work.importID = nil
            return .grant(work, verdict)
        case (.backendTakenForImport, .grant(var work, let verdict)):
            work.importID = work.importID ?? 1
            return .grant(work, verdict)
        case (.tokenDropped, .grant(let work, .accepted(var grant, let credential, _))):
            grant.token = nil
            return .grant(work, .accepted(grant, credential))
        case (.unknownKeyTakenForForgery, .notification(let work, .postponed)):
            return .notification(work, .rejected(.badSignature, detail: "planted"))
        case (.unknownClientTakenForStranger, .grant(let work, .unknownClient)): return .grant(work, .rejected(.unknownClientExpired))
        case (.refusalTakenForOutage, .code(let work, .rejected(let reason, _))) where reason != .codeExpired && reason != .poison:
            return .code(work, .failed(at: now, isAnswerLost: false))
        case (.lostAnswerForgotten, .code(let work, .failed(let time, _, let detail))):
            return .code(work, .failed(at: time, isAnswerLost: false, detail: detail))
        case (.lostAnswerTakenForSignIn, .code(let work, .rejected(.answerLost, _))),
            (.lostAnswerTakenForSignIn, .code(let work, .late)) where work.mayBeUsed:
            guard let content = work.content, let userID = content.userID else { return settlement }
            let credential = CredentialID(clientID: content.clientID, userID: userID)
            return .code(work, .exchanged(Grant(grantedAt: work.grantedAt), credential, requestedAt: now, answeredAt: now))
        case (.deadTokenBelievedAtOnce, .revocation(let work, .unproven)): return .revocation(work, .admitted)
        case (.revocationBelievedUnseen, .revocation(var work, .answered(var answer, let identity, _))) where answer.word == .revoked:
            work.proof.revocation = answer
            answer.word = .rejected
            return .revocation(work, .answered(answer, by: identity))
        case (.revocationDatedByItsProof, .revocation(var work, let verdict)):
            work.requestedAt = now
            return .revocation(work, verdict)
        case (.requestDatedAheadTrusted, .revocationRequest(let work, .accepted)):
            return .revocationRequest(work, .accepted(at: work.requestedAt))
        case (.revocationGivenUp, .revocation(let work, .failed)): return .revocation(work, .rejected(.poison))
        default: return settlement
        }
    }

    /// The codes that the process gets in place of the claimed ones.
    func codes(_ codes: [ClaimedCode], at now: Timestamp) -> [ClaimedCode] {
        guard self == .codeSentLate else { return codes }
        return codes.map { code in
            var code = code
            (code.grantedAt, code.firstClaimedAt) = (now, now)
            return code
        }
    }

    /// The revocations that the process gets in place of the claimed ones.
    func revocations(_ revocations: [DueRevocation]) -> [DueRevocation] {
        guard self == .overtakenIgnored else { return revocations }
        return revocations.map { revocation in
            var revocation = revocation
            revocation.newerSignIn = .none
            return revocation
        }
    }
}
