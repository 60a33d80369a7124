// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Grants that Apple itself has told, in exchange for a code.
extension SettlementFold {
    mutating func settle(_ work: ClaimedCode, _ verdict: CodeVerdict) -> Settled {
        guard basis.heldGrants[work.id] == work.claim else { return .superseded }
        switch verdict {
        case .exchanged(let grant, let credential, let requestedAt, let answeredAt):
            // The lane exchanges codes of configured clients only, and a store takes these in before it settles.
            guard let app = apps[credential.clientID] else {
                preconditionFailure("the store does not know the client of an exchanged code")
            }
            accepted(credential, of: app, at: requestedAt)
            let answer = RefreshVerdict.valid(requestedAt: requestedAt, answeredAt: answeredAt)
            let outcome = apply(grant, credential, of: app, issued: answer, to: work.teamID)
            return log(work, outcome, userID: credential.userID)
        case .rejected(let reason, let detail):
            return log(work, .rejected, reason, detail: detail)
        case .failed(let time, let isAnswerLost, let detail):
            let due = min(time.advanced(by: AuthorizationCode.wait(afterFailures: work.failures + 1)), end(of: work))
            return tryAgain(work, at: due, failures: work.failures + 1, isAnswerLost: isAnswerLost, detail: detail ?? work.detail)
        case .unpermitted(let time):
            let due = time.advanced(by: AuthorizationCode.longestWait)
            return tryAgain(work, at: min(due, end(of: work)), failures: work.failures, isAnswerLost: false, detail: work.detail)
        case .unknownClient:
            return tryAgain(work, at: end(of: work), failures: work.failures, isAnswerLost: false, detail: work.detail)
        }
    }

    /// When it is given up. By a clock that is wrong its deadline may be over already: then it waits here for as long as a code lives.
    private func end(of work: ClaimedCode) -> Timestamp {
        work.deadline > now ? work.deadline : work.firstClaimedAt.advanced(by: AuthorizationCode.life)
    }

    /// A client had a 200: Apple does not blame it any more. It proves nothing of refreshes.
    mutating func accepted(_ credential: CredentialID, of app: String, at time: Timestamp) {
        changes.validAt[credential.clientID] = latest(changes.validAt[credential.clientID], time)
        let subject = RejectionBreaker.Subject(credential, isCheck: false)
        withBreaker(of: app) { [rules, now] in _ = $0.judge(.valid, of: subject, under: rules.breaker, at: now) }
    }

    private mutating func tryAgain(_ work: ClaimedCode, at due: Timestamp, failures: Int, isAnswerLost: Bool, detail: String?) -> Settled {
        basis.heldGrants[work.id] = nil
        // Who claimed it before and did not settle may have sent it.
        let isLost = isAnswerLost || work.isAnswerLost || work.claim.attempts > 1
        changes.queueRows.append(.postponeCode(work.id, until: due, failures: failures, isAnswerLost: isLost, detail: detail))
        return .postponed
    }

    private mutating func log(
        _ work: ClaimedCode,
        _ outcome: GrantLogOutcome,
        _ reason: GrantRejection? = nil,
        detail: String? = nil,
        userID: String? = nil
    ) -> Settled {
        close(GrantLogEntry(id: work.id, outcome, reason, detail: detail, userID: userID, hasSecret: true))
    }
}
