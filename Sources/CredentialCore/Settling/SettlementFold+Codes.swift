// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Codes: sign-ins that Apple itself confirms when siwatch exchanges a code.
extension SettlementFold {
    mutating func settle(_ work: ClaimedCode, _ verdict: CodeVerdict) -> Settled {
        guard basis.heldGrants[work.id] == work.claim else { return .superseded }
        if let content = work.content { hear(work.clientAnswer, of: content.clientID) }
        switch verdict {
        case .exchanged(let grant, let credential, let requestedAt, let answeredAt, let realUserStatus):
            // The lane exchanges codes of configured clients only, and a store takes these clients in before it settles.
            guard let app = apps[credential.clientID] else {
                preconditionFailure("the store does not know the client of an exchanged code")
            }
            accepted(credential, of: app, at: requestedAt)
            // Apple's time is that of the exchange. A code that a backend told before the erasure is old.
            if let forgotten = forgotten(AppUserID(app: app, userID: credential.userID), at: min(grant.grantedAt, work.grantedAt)) {
                return close(GrantLogEntry(id: work.id, outcome: .stale, userID: forgotten.pseudonym, hasSecret: true))
            }
            let answer = RefreshVerdict.valid(requestedAt: requestedAt, answeredAt: answeredAt)
            let outcome = apply(grant, credential, of: app, issued: answer, to: work.teamID)
            var entry = GrantLogEntry(id: work.id, outcome: outcome, userID: credential.userID, hasSecret: true)
            (entry.signedInAt, entry.realUserStatus) = (grant.grantedAt, realUserStatus)
            return close(entry)
        case .rejected(let reason, let detail):
            return reject(work, reason, detail)
        case .late: return giveUp(work)
        case .failed(let time, let isAnswerLost, let detail):
            var work = work
            work.failures += 1
            if let detail { work.detail = detail }
            let due = time.advanced(by: AuthorizationCode.wait(afterFailures: work.failures))
            return tryAgain(work, at: due, isAnswerLost: isAnswerLost)
        // No claim takes the code as long as the reason lasts.
        case .unpermitted(let time): return tryAgain(work, at: time.advanced(by: AuthorizationCode.wait(afterFailures: 1)))
        case .unknownClient: return tryAgain(work, at: end(of: work))
        }
    }

    /// How long before a code a refusal of its client still explains why nobody sent the code.
    private static let longestRefusal = Duration.hours(1)

    /// Ends a code whose time is over. The row and its client decide the reason in the log.
    private mutating func giveUp(_ work: ClaimedCode) -> Settled {
        if work.mayBeUsed { return reject(work, .answerLost, work.detail) }
        if work.isBlamed { return reject(work, .invalidClient, work.detail) }
        // siwatch does not send codes of a client that Apple refuses, however soon they come. A refusal from long before this code came may be
        // outdated. The comparison is loose because a refusal has Apple's time, and the code has ours.
        let cameAt = min(work.grantedAt, work.firstClaimedAt).advanced(by: .zero - Self.longestRefusal)
        if work.detail == nil, let refusal = basis.clients[work.content?.clientID ?? ""]?.refusal, refusal.at >= cameAt {
            return reject(work, .invalidClient, refusal.word)
        }
        return reject(work, .codeExpired, work.detail)
    }

    /// When siwatch gives the code up. If the clock is wrong, the deadline may be over already. The code then waits for a whole life of a
    /// code.
    private func end(of work: ClaimedCode) -> Timestamp {
        work.deadline > now ? work.deadline : work.firstClaimedAt.advanced(by: AuthorizationCode.life)
    }

    /// Notes a 200 for a client: Apple no longer blames it. The 200 proves nothing about refreshes.
    mutating func accepted(_ credential: CredentialID, of app: String, at time: Timestamp) {
        hear(.accepted(at: time), of: credential.clientID)
        let subject = RejectionBreaker.Subject(credential, isCheck: false)
        withBreaker(of: app) { [rules, now] in _ = $0.judge(.valid, of: subject, under: rules.breaker, at: now) }
    }

    private mutating func tryAgain(_ work: ClaimedCode, at due: Timestamp, isAnswerLost: Bool = false) -> Settled {
        basis.heldGrants[work.id] = nil
        var work = work
        // An earlier claim without a settlement may have sent the code.
        work.isAnswerLost = isAnswerLost || work.mayBeUsed
        changes.queueRows.append(.postponeCode(work, until: min(due, end(of: work))))
        return .postponed
    }

    private mutating func reject(_ work: ClaimedCode, _ reason: GrantRejection, _ detail: String?) -> Settled {
        close(GrantLogEntry(id: work.id, outcome: .rejected, reason: reason, detail: detail, hasSecret: true))
    }
}
