// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Grants that Apple itself has told, in exchange for a code.
extension SettlementFold {
    mutating func settle(_ work: ClaimedCode, _ verdict: CodeVerdict) -> Settled {
        guard basis.heldGrants[work.id] == work.claim else { return .superseded }
        if let content = work.content { hear(work.clientAnswer, of: content.clientID) }
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
        case .late: return giveUp(work)
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

    /// How long before a code a refusal of its client still explains why nobody sent it.
    private static let longestRefusal = Duration.hours(1)

    /// Its time is over, and Apple has not taken it, as far as anybody knows.
    private mutating func giveUp(_ work: ClaimedCode) -> Settled {
        if work.mayBeUsed { return log(work, .rejected, .answerLost, detail: work.detail) }
        if work.isBlamed { return log(work, .rejected, .invalidClient, detail: work.detail) }
        // siwatch sends no code of a client that Apple refuses, however soon it comes. A refusal from long before may have been mended since.
        // The comparison is loose because the refusal has Apple's time, and a host whose clock is ahead is refused for that alone.
        let cameAt = min(work.grantedAt, work.firstClaimedAt).advanced(by: .zero - Self.longestRefusal)
        if work.detail == nil, let refusal = refusal(ofClientOf: work), refusal.at >= cameAt {
            return log(work, .rejected, .invalidClient, detail: refusal.word)
        }
        return log(work, .rejected, .codeExpired, detail: work.detail)
    }

    private func refusal(ofClientOf work: ClaimedCode) -> ClientRefusal? {
        work.content.flatMap { basis.clients[$0.clientID]?.refusal }
    }

    /// When it is given up. By a clock that is wrong its deadline may be over already: then it waits here for as long as a code lives.
    private func end(of work: ClaimedCode) -> Timestamp {
        work.deadline > now ? work.deadline : work.firstClaimedAt.advanced(by: AuthorizationCode.life)
    }

    /// A client had a 200: Apple does not blame it any more. It proves nothing of refreshes.
    mutating func accepted(_ credential: CredentialID, of app: String, at time: Timestamp) {
        hear(.accepted(at: time), of: credential.clientID)
        let subject = RejectionBreaker.Subject(credential, isCheck: false)
        withBreaker(of: app) { [rules, now] in _ = $0.judge(.valid, of: subject, under: rules.breaker, at: now) }
    }

    private mutating func tryAgain(_ work: ClaimedCode, at due: Timestamp, failures: Int, isAnswerLost: Bool, detail: String?) -> Settled {
        basis.heldGrants[work.id] = nil
        // Who claimed it before and did not settle may have sent it.
        let isLost = isAnswerLost || work.mayBeUsed
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
