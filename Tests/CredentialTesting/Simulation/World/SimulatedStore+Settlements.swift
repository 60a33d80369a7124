// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Settlements at their commit, and the allowed results.
extension SimulatedWorld.State {
    mutating func settled(_ settlements: [Settlement], _ results: [Settled], under rules: SettlementRules, at now: Timestamp) {
        // Settle one after another: a batch may sign a user in twice, and the log reports the first sign-in.
        var touched = model.touched
        for (settlement, result) in zip(settlements, results) {
            model.touched = []
            let expected: [Settled]
            switch settlement {
            case .notification(let work, let verdict): expected = [model.settle(work, verdict, at: now)]
            case .grant(let work, let verdict):
                let credential = work.content?.credential
                let before = credential.flatMap { model.tokenText(of: $0) }
                let due: Timestamp? = if case .inFuture(let due, _) = verdict { due } else { nil }
                expected = [model.settle(work, due: due, at: now)]
                if let credential, before != model.tokenText(of: credential) { ledger.replaced(credential, at: truth) }
                if due != nil { count(.grantFromFuture) }
                if case .unknownClient = verdict { count(.grantOfDroppedClient) }
            case .refresh(let work, let verdict):
                let call = ledger.settled(work, verdict, result, at: truth)
                if result == .held { count(.held) }
                if result == .superseded, !model.isCurrent(work) { count(.tokenReplacedInFlight) }
                expected = model.settle(work, verdict, call, at: now)
                report(judge(verdict, call, of: work, result))
            case .admission(let work, let rejection):
                if model.goesAfterGrant(work, at: now) { count(.rejectionAwaitsGrant) }
                expected = model.settle(work, rejection, result, at: now)
                if result == .refreshed { report(judge(rejection, of: work)) }
            case .code(let work, _): expected = settled(work, result, at: now)
            case .revocationRequest(let work, let verdict):
                // The process knows Apple's clock to a second or two, or goes by its own.
                let latest = max(truth, now).advanced(by: .seconds(2))
                let (lookedAt, knowsTime) =
                    if case .accepted(let time, let knowsTime) = verdict { (min(time, latest), knowsTime) } else { (now, true) }
                expected = [model.settle(work, lookedAt: lookedAt, knowsTime: knowsTime, at: now)]
                if case .accepted = verdict, let credential = work.credential, let app = model.appOfClient[credential.clientID] {
                    sawLimit(of: app)
                }
            case .revocation(let work, _): expected = settled(work, result, at: now)
            }
            note("\(settlement.summary): \(result)")
            observe(settlement, result)
            if !expected.contains(result) {
                report(Violation(.stateFollowsFromFacts, "settled as \(result), by the rules \(expected): \(settlement.summary)"))
            }
            model.noteAuthorized()
            touched.formUnion(model.touched)
        }
        model.touched = touched
    }

    /// siwatch has read an app's revocation limit, and has put it right.
    mutating func sawLimit(of app: String) {
        model.limitsKnown.insert(app)
        replayed.remove(app)
    }

    /// A violation, if a settled 200 is not Apple's answer.
    private func judge(_ verdict: RefreshVerdict, _ call: AnsweredCall?, of work: DueCredential, _ result: Settled) -> Violation? {
        guard result == .refreshed, case .valid = verdict else { return nil }
        let user = work.id.userID
        guard let call else { return Violation(.stateFollowsFromFacts, "a fact about \(user) that nobody was asked for") }
        return call.outcome == .valid ? nil : Violation(.stateFollowsFromFacts, "\(user): \(call.outcome) became a 200")
    }

    /// A violation, if a believed rejection is not Apple's answer, or not true.
    private mutating func judge(_ rejection: PendingRejection, of work: DueCredential) -> Violation? {
        count(.admitted)
        if ledger.wasRepeated(rejection, of: work) { count(.admittedOnRepetition) }
        if let row = model.row(of: work.id) {
            count(row.neverAccepted ? .neverAccepted : row.reason == "token_rejected" ? .ended : .admitted)
        }
        if let team = model.team(of: Oracle.Token(work.token), at: work.id), !ledger.teams(of: rejection, work).contains(team) {
            return Violation(.noFalseRevocation, "a rejection of \(work.id.userID) is believed that Apple gave to another team")
        }
        return switch ledger.wasTrue(rejection, of: work) {
        case true?: nil
        case false?: Violation(.noFalseRevocation, "the rejection of a good token of \(work.id.userID) is believed")
        case nil: Violation(.stateFollowsFromFacts, "a rejection of \(work.id.userID) is believed that Apple never spoke")
        }
    }

    private mutating func observe(_ settlement: Settlement, _ result: Settled) {
        switch result {
        case .grant(_, let reason?): countRefusal(reason)
        case .revocation(let outcome, _): countReceipt(outcome)
        case .superseded: count(.superseded)
        case .notification(.duplicate): count(.duplicateNotification)
        case .notification(.stale): count(.staleNotification)
        case .grant(.duplicate, _): count(.duplicateGrant)
        case .grant(.retold, _): count(.retold)
        case .grant(.stale, _): count(.staleGrant)
        case .postponed:
            if case .notification(_, .verified) = settlement { count(.eventAwaitsGrant) }
            if case .notification(_, .postponed) = settlement { count(.unknownSigningKey) }
        case .heldBack: count(.requestHeld)
        case .notification, .quarantined, .grant, .refreshed, .held: break
        }
    }

    private mutating func settled(_ work: ClaimedCode, _ result: Settled, at now: Timestamp) -> [Settled] {
        let call = ledger.codes.settled(work, result)
        let identity = call?.identity
        let credential = identity.flatMap { identity in work.content.map { CredentialID(clientID: $0.clientID, userID: identity.userID) } }
        let before = credential.flatMap { model.tokenText(of: $0) }
        let app = work.content.flatMap { model.appOfClient[$0.clientID] }
        // With a wrong clock no process knows when a code's deadline is.
        let mayBeLeft = ledger.setAt != nil || app.map(apple.blamedApps.contains) ?? false
        let unknownAt = ledger.codes.settledUnknown(work)
        let expected = model.settle(work, call, result, unknownAt: unknownAt, mayBeLeft: mayBeLeft, at: now)
        if let credential, let call, before != model.tokenText(of: credential) {
            ledger.replaced(credential, at: truth)
            ledger.issued(credential, call)
        }
        if case .grant(_, nil) = result, call != nil { count(.codeExchanged) }
        return expected
    }

    private mutating func settled(_ work: DueRevocation, _ result: Settled, at now: Timestamp) -> [Settled] {
        let key = ReferenceModel.RevocationKey(work)
        let open = model.revocations[key]
        let call = ledger.proofs.settled(work)
        let expected = model.settle(work, call, result, at: now)
        if let open, expected.contains(result) {
            if let known = open.keyID, let call, call.word != .none, known != call.keyID { count(.proofBegunAnew) }
            if open.isRevoked, call?.word == .accepted { count(.revocationInVain) }
            if result == .revocation(.rejected, .otherTeam) { count(.otherTeam) }
            report(judge(open, call, of: work, result))
        }
        return expected
    }

    private mutating func judge(
        _ open: ReferenceModel.OpenRevocation,
        _ call: AnsweredQuestion?,
        of work: DueRevocation,
        _ result: Settled
    ) -> Violation? {
        if result == .revocation(.rejected, .otherTeam), !ledger.proofs.isWellFounded(work) {
            return Violation(.nothingIsLost, "a token of \(work.id.userID) is given up by a team that Apple has not accepted")
        }
        guard case .revocation(let outcome, _) = result, [.proved, .alreadyInvalid, .noValidToken].contains(outcome) else { return nil }
        let user = work.id.userID
        if outcome != .proved, !ledger.proofs.isWellFounded(work) {
            return Violation(.noFalseRevocation, "that the token of \(user) was dead is believed of a key that Apple never accepted")
        }
        if misdated.contains(user) { return nil }
        // No process can tell that Apple lies about a token that it has just revoked.
        if outcome == .proved, call?.isLie ?? false {
            ledger.proofs.belied.insert(open.text)
            return nil
        }
        if outcome == .noValidToken {
            guard apple.isAccepted(open.text, at: work.id) else { return nil }
            return Violation(.nothingIsLost, "a good token of \(user) was to be revoked, and is taken for none")
        }
        let told = apple.revokesAlone ? [open.text] : open.told
        guard told.contains(where: { apple.isAlive($0, at: work.id) }) else { return nil }
        return Violation(.noFalseRevocation, "\(user) is told revoked by the app, and Apple still accepts the token")
    }

    private mutating func countRefusal(_ reason: GrantRejection) {
        switch reason {
        case .codeExpired, .invalidClient: count(.codeLate)
        case .codeUsed: count(.codeUsed)
        case .answerLost: count(.answerLost)
        case .badIDToken: count(.badIdentityToken)
        case .userMismatch: count(.userMismatch)
        case .clientMismatch, .redirectURIMismatch, .rejectedByApple: count(.codeRefused)
        case .unknownClientExpired, .malformed, .unknownTokenKey, .unreadableToken, .poison: break
        }
    }

    private mutating func countReceipt(_ outcome: RevocationOutcome) {
        switch outcome {
        case .proved: count(.revocationProved)
        case .alreadyInvalid: count(.alreadyInvalid)
        case .superseded: count(.overtaken)
        case .noToken: count(.nothingToRevoke)
        case .noValidToken: count(.noValidToken)
        case .rejected: break
        }
    }
}

extension Settlement {
    var summary: String {
        switch self {
        case .notification(let work, let verdict): "notification \(work.id), \(verdict)"
        case .grant(let work, _): "grant \(work.id) of \(work.grantedAt.milliseconds)"
        case .refresh(let work, let verdict): "refresh of \(work.id.clientID) \(work.id.userID), \(verdict)"
        case .code(let work, _): "code \(work.id) of \(work.grantedAt.milliseconds)"
        case .revocationRequest(let work, _): "request \(work.id) to revoke"
        case .revocation(let work, _): "revocation of \(work.id.clientID) \(work.id.userID), request \(work.request)"
        case .admission(let work, let rejection): "admission of \(work.id.clientID) \(work.id.userID), \(rejection)"
        }
    }
}
