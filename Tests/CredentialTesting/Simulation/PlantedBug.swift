// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A bug put between the process and its store, to see that the simulation finds it: a check that cannot fail proves nothing.
///
/// Bugs deeper inside the program stand as patches in scripts/plant_bugs.py.
package enum PlantedBug: String, Sendable, CaseIterable {
    /// Every `invalid_grant` is believed at once, whoever asked.
    case rejectionBelievedAtOnce
    /// Every rejection that waits is believed when its time has come, whoever asked.
    case proofIgnored
    /// A rejection is believed after the settle time although Apple has not repeated it.
    case repetitionIgnored
    /// No `invalid_grant` is ever believed.
    case rejectionForgotten
    /// Trouble at Apple is taken for a revocation.
    case outageTakenForRejection
    /// An answer counts from when it came, not from when it was asked for.
    case answerDatedByItsArrival
    /// An event counts from when it came, not from when it happened.
    case eventDatedByItsArrival
    /// A grant counts from when it came.
    case grantDatedByItsArrival
    /// After an answer the next check is due at once.
    case dueTimeNotMoved
    /// After an answer the next check never comes.
    case dueTimeLost
    /// A settlement is reported as committed and was not.
    case settlementLost
    /// Of a batch only the first is committed.
    case batchCutShort
    /// A notification whose key is not known yet is thrown out.
    case unknownKeyTakenForForgery
    /// A sign-in of a client that is not in the configuration is thrown out.
    case unknownClientTakenForStranger
    /// A new token is thrown away.
    case tokenDropped
    /// A code is sent whenever it comes.
    case codeSentLate
    /// A code that Apple has refused is sent again.
    case refusalTakenForOutage
    /// That Apple may have taken a code is forgotten.
    case lostAnswerForgotten
    /// Whoever signed in by a code whose answer was lost is taken for signed in.
    case lostAnswerTakenForSignIn
    /// What was issued for nobody is thrown away, whatever that ends.
    case strayTokenRevokedBlindly
    /// That a token was dead from the first is believed, whoever asked.
    case deadTokenBelievedAtOnce
    /// Apple's 200 to a revocation is taken for a proof.
    case revocationBelievedUnseen
    /// A token is revoked although its user has signed in again.
    case overtakenIgnored
    /// A sign-in whose code waited for Apple is taken for newer than the request to revoke it.
    case requestDuringOutageOverlooked
    /// A revocation counts from its proof, not from the request.
    case revocationDatedByItsProof
    /// A revocation that Apple does not answer is given up.
    case revocationGivenUp
}

extension PlantedBug {
    /// Whether a run can show it at all: the others need not be tried.
    func canShow(in plan: Simulation.Plan) -> Bool {
        switch self {
        case .repetitionIgnored: plan.weathers.contains(.massRejection(1)) && !plan.isTouchy
        default: true
        }
    }

    /// What is looked for in place of what may be believed.
    func admissions(_ admissions: [AdmissionRule], at now: Timestamp) -> [AdmissionRule] {
        switch self {
        case .rejectionBelievedAtOnce:
            return [AdmissionRule(answered: .earliest...now)]
        case .proofIgnored, .outageTakenForRejection:
            return [AdmissionRule(answered: .earliest...now.advanced(by: .seconds(-900)))]
        case .repetitionIgnored:
            return admissions.map { AdmissionRule(clientID: $0.clientID, keyID: $0.keyID, answered: $0.answered) }
        default:
            return admissions
        }
    }

    /// By what a batch is settled.
    func rules(_ rules: SettlementRules) -> SettlementRules {
        var rules = rules
        switch self {
        case .dueTimeNotMoved: rules.policy = RefreshPolicy(interval: .milliseconds(1), timeout: rules.policy.timeout)
        case .dueTimeLost: rules.policy = RefreshPolicy(interval: .seconds(400 * 86_400), timeout: rules.policy.timeout)
        default: break
        }
        return rules
    }

    /// What is committed in place of a batch.
    func batch(_ settlements: [Settlement]) -> [Settlement] {
        switch self {
        case .settlementLost: []
        case .batchCutShort: Array(settlements.prefix(1))
        default: settlements
        }
    }

    /// What is reported in place of the results.
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
        case (.tokenDropped, .grant(let work, .accepted(var grant, let credential, _))):
            grant.token = nil
            return .grant(work, .accepted(grant, credential))
        case (.unknownKeyTakenForForgery, .notification(let work, .postponed)):
            return .notification(work, .rejected(.badSignature, detail: "planted"))
        case (.unknownClientTakenForStranger, .grant(let work, .unknownClient)):
            return .grant(work, .rejected(.unknownClientExpired))
        default:
            return laneSettlement(settlement, at: now)
        }
    }
}
