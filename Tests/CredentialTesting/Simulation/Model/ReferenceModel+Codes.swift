// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The required outcome of a code, by the requests to Apple and the answers that the process heard.
extension ReferenceModel {
    struct CodeRow {
        var namesUser: Bool
        var firstClaimedAt: Timestamp?
        /// Claims since the last settlement. Each claimer may have sent the code and died.
        var openClaims = 0
        /// Whether it was sent before, and no refusal came back.
        var wasSent = false
        /// Whether an answer may have been lost.
        var mayBeLost = false
        /// Whether Apple refused the client, and gave no answer about the code.
        var isBlamed = false
    }

    func deadline(of work: ClaimedCode) -> Timestamp {
        guard let row = grantRows[work.id] else { return .earliest }
        return min(row.grantedAt, row.code?.firstClaimedAt ?? row.grantedAt).advanced(by: .seconds(300))
    }

    mutating func claimed(_ work: [ClaimedCode], at now: Timestamp) {
        for work in work {
            grantRows[work.id]?.held = work.claim
            let firstClaimedAt = grantRows[work.id]?.code?.firstClaimedAt ?? now
            grantRows[work.id]?.code?.firstClaimedAt = min(firstClaimedAt, now)
            grantRows[work.id]?.code?.openClaims += 1
        }
    }

    /// - Parameters:
    /// - unknownAt: when the process found the code's client missing in the configuration.
    /// - mayBeLeft: whether the process may postpone it unasked, because its client may be paused, or the clock may be wrong.
    /// - Returns: the allowed results.
    mutating func settle(
        _ work: ClaimedCode,
        _ call: AnsweredExchange?,
        _ result: Settled,
        unknownAt: Timestamp?,
        mayBeLeft: Bool,
        at now: Timestamp
    ) -> [Settled] {
        guard let row = grantRows[work.id], let code = row.code, row.held == work.claim else { return [.superseded] }
        hear(call.flatMap { ClientWord($0.outcome, sentAt: $0.sentAt) }, of: row.credential.clientID, at: now)
        if work.claim.attempts > 5 { return [close(work.id, .rejected, .poison)] }
        // If the process lost Apple's answer, only Apple's next answer can tell.
        let mayBeUsed = code.mayBeLost || code.openClaims > 1
        guard isConfigured(row.credential.clientID) else {
            // Until the deadline the configuration may yet name its client.
            if unknownAt.map({ $0 < deadline(of: work) || mayBeLeft }) ?? false { return [putBack(work.id)] }
            return [close(work.id, .rejected, .unknownClientExpired)]
        }
        guard let call else {
            // With a wrong clock the process leaves the judgement to Apple, once it has a permit, and leaves a refused client alone.
            if mayBeLeft, result == .postponed { return [putBack(work.id)] }
            if mayBeUsed { return [close(work.id, .rejected, .answerLost)] }
            if code.isBlamed { return [close(work.id, .rejected, .invalidClient)] }
            let cameAt = min(row.grantedAt, code.firstClaimedAt ?? row.grantedAt)
            let unsent = reasonOfUnsent(at: row.credential.clientID, since: cameAt, result)
            return [close(work.id, .rejected, code.wasSent ? .codeExpired : unsent)]
        }
        switch call.outcome {
        case .news(.issued): return [issue(call, for: row, work.id)]
        case .news(.refused(.codeUsed, _)) where mayBeUsed || code.wasSent: return [close(work.id, .rejected, .answerLost)]
        case .news(.refused(.codeExpired, _)) where mayBeUsed: return [close(work.id, .rejected, .answerLost)]
        case .news(.refused(let reason, _)): return [close(work.id, .rejected, reason)]
        case .unavailable(_, let isAnswerLost, _): if isAnswerLost { grantRows[work.id]!.code!.mayBeLost = true }
        case .misconfigured: grantRows[work.id]!.code!.isBlamed = true
        case .throttled: break
        }
        grantRows[work.id]!.code!.wasSent = true
        return [putBack(work.id)]
    }

    private mutating func putBack(_ row: Int64) -> Settled {
        grantRows[row]!.held = nil
        // A claimer that settled nothing may have sent it.
        if grantRows[row]!.code!.openClaims > 1 { grantRows[row]!.code!.mayBeLost = true }
        grantRows[row]!.code!.openClaims = 0
        return .postponed
    }

    /// A 200 is a sign-in only if its id_token is Apple's and names the user that the backend meant.
    private mutating func issue(_ call: AnsweredExchange, for row: GrantRow, _ id: Int64) -> Settled {
        guard let identity = call.identity, identity.isGood else { return close(id, .rejected, .badIDToken) }
        if row.code!.namesUser, row.credential.userID != identity.userID { return close(id, .rejected, .userMismatch) }
        let credential = CredentialID(clientID: row.credential.clientID, userID: identity.userID)
        // The moment of the answer, within the second in the id_token.
        let issuedAt = min(max(call.dated, identity.issuedAt), identity.issuedAt.advanced(by: .milliseconds(999)))
        // The app's request to revoke meanwhile concerns this sign-in.
        let grantedAt = requestsSeen[SignIn(credential: credential, at: row.grantedAt)].map { min($0, issuedAt) } ?? issuedAt
        toldRows[id]?.credential = credential
        let isNew = call.token.map { !recognises($0, of: credential) } ?? false
        let outcome = signIn(credential, at: grantedAt, token: call.token, address: identity.address)
        if let text = call.token {
            let token = Token(grantedAt: grantedAt, fingerprint: PlainSealer().fingerprint(of: Secret(text)))
            // A token that Apple has just issued is surer than one that a backend reported. A newer token that Apple had accepted stays.
            let isOlder = facts[credential]!.former.map { former in
                former.token != token && Oracle(tokens: [former.token, token]).token == former.token
                    && facts[credential]!.isAccepted(former.token)
            }
            if let newest = facts[credential]!.token, newest != token, !facts[credential]!.isAccepted(newest), isOlder != true {
                facts[credential]!.former = (token, text)
            }
            accept(token, of: credential, at: call.sentAt, by: call.team)
            if isNew { meetRequest(token, text, of: credential, issuedTo: call.team) }
        }
        inserted[credential, default: []].insert(identity.signedInAt)
        return close(id, outcome)
    }
}
