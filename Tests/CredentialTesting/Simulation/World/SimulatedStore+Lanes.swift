// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Settlements of codes and revocations at their commit, and the allowed results.
extension SimulatedWorld.State {
    mutating func settled(_ work: ClaimedCode, _ result: Settled, at now: Timestamp) -> [Settled] {
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

    mutating func settled(_ work: DueRevocation, _ result: Settled, at now: Timestamp) -> [Settled] {
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

    mutating func countRefusal(_ reason: GrantRejection) {
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

    mutating func countReceipt(_ outcome: RevocationOutcome) {
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
