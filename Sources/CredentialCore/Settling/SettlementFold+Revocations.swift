// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Requests to revoke what is held of a user, and what becomes of each token.
extension SettlementFold {
    // MARK: A request

    mutating func settle(_ work: ClaimedRevocationRequest, _ verdict: RevocationRequestVerdict) -> Settled {
        guard basis.heldRevocationRequests[work.id] == work.claim else { return .superseded }
        switch verdict {
        case .rejected(let reason): return close(work, .rejected, reason)
        case .accepted: return open(work)
        }
    }

    private mutating func open(_ work: ClaimedRevocationRequest) -> Settled {
        guard let credential = work.credential else { return close(work, .rejected, .malformed) }
        // Its client is configured, so the store is about to hear of it.
        guard let app = apps[credential.clientID] else { return postpone(work, for: SettlementRules.unknownClientRetry) }
        let id = AppUserID(app: app, userID: credential.userID)
        let waiting = waitingGrants(of: id)
        let holdings = basis.users[id]?.holdings ?? []
        let newer = waiting.filter { $0.grantedAt > work.requestedAt }
        let hasSignedIn = holdings.contains { isGreater($0.record.credential.grantedAt, than: work.requestedAt) }
        if hasSignedIn || newer.contains(where: { !$0.bringsCode }) { return close(work, .superseded) }
        // Apple may refuse a newer code. A sign-in that is older than the request may bring one more token to revoke. No code waits for long.
        if waiting.contains(where: \.bringsCode) || !waiting.isEmpty && mayWait(work) {
            return postpone(work, for: min(rules.pollInterval, .seconds(60)))
        }
        let tokens = holdings.compactMap { holding -> TokenToRevoke? in
            guard let token = holding.record.credential.token, let sealed = token.sealed else { return nil }
            return TokenToRevoke(clientID: holding.clientID, key: token.key, sealed: sealed)
        }
        guard !tokens.isEmpty else { return close(work, .noToken) }
        // Asked for twice: one proof of each is enough.
        let newTokens = tokens.filter { !basis.tokensBeingRevoked[id, default: []].contains($0.key) }
        guard !newTokens.isEmpty else { return postpone(work, for: SettlementRules.repeatedRevocationRetry) }
        basis.tokensBeingRevoked[id, default: []].formUnion(newTokens.map(\.key))
        basis.heldRevocationRequests[work.id] = nil
        changes.queueRows.append(.revocation(.open(work, credential, newTokens)))
        return .postponed
    }

    private func mayWait(_ work: ClaimedRevocationRequest) -> Bool {
        guard let start = [work.requestedAt, rules.startedAt].filter({ $0 <= now }).max() else { return false }
        return now < start.advanced(by: SettlementRules.longestWaitForGrant)
    }

    private mutating func postpone(_ work: ClaimedRevocationRequest, for duration: Duration) -> Settled {
        basis.heldRevocationRequests[work.id] = nil
        changes.queueRows.append(.revocation(.postpone(work, until: now.advanced(by: duration))))
        return .postponed
    }

    private mutating func close(
        _ work: ClaimedRevocationRequest,
        _ outcome: RevocationOutcome,
        _ reason: RevocationRejection? = nil
    ) -> Settled {
        basis.heldRevocationRequests[work.id] = nil
        changes.queueRows.append(.revocation(.close(work, outcome, reason)))
        return .revocation(outcome)
    }

    // MARK: A token

    mutating func settle(_ work: DueRevocation, _ verdict: RevocationVerdict) -> Settled {
        guard basis.heldRevocations.contains(RevocationID(work)) else { return .superseded }
        var proof = work.proof
        switch verdict {
        case .answered(let answer, let identity):
            let due = proof.take(answer, keyID: identity.keyID, of: work.id, under: rules.policy, at: now)
            return proof.isProved ? revoke(work, proof, .proved) : proceed(with: work, proof, due: due)
        case .admitted where proof.next == .isBelieved && !isBreakerOpen(of: work.app):
            return revoke(work, proof, .alreadyInvalid)
        case .admitted, .unproven, .mayBeOvertaken:
            let due = proof.wait(under: rules.policy, at: now)
            return proceed(with: work, proof, due: due)
        case .failed(let time, let retryAfter):
            let due = proof.fail(at: time, retryAfter: retryAfter, of: work.id, under: rules.policy)
            return proceed(with: work, proof, due: due)
        case .anotherUser: return close(work, proof, .rejected, .anotherUser)
        case .overtaken: return close(work, proof, .superseded)
        case .unknownClient: return close(work, proof, .rejected, .unknownClient)
        case .poison: return close(work, proof, .rejected, .poison)
        }
    }

    private mutating func isBreakerOpen(of app: String) -> Bool { withBreaker(of: app) { $0.isOpen } }

    private mutating func proceed(with work: DueRevocation, _ proof: RevocationProof, due: Timestamp) -> Settled {
        basis.heldRevocations.remove(RevocationID(work))
        changes.queueRows.append(.revocation(.proceed(work, proof, due: due)))
        return .postponed
    }

    /// The token is dead, as the app wanted it.
    private mutating func revoke(_ work: DueRevocation, _ proof: RevocationProof, _ outcome: RevocationOutcome) -> Settled {
        let id = AppUserID(app: work.app, userID: work.id.userID)
        var proven = work
        proven.proof = proof
        let wantedAt = proven.wantedAt
        withUser(id, .revocation, at: wantedAt) { user in
            guard var record = user[work.id.clientID] else { return }
            record.credential.apply(Revocation(requestedAt: wantedAt))
            user[work.id.clientID] = record
        }
        return close(work, proof, outcome)
    }

    private mutating func close(
        _ work: DueRevocation,
        _ proof: RevocationProof,
        _ outcome: RevocationOutcome,
        _ reason: RevocationRejection? = nil
    ) -> Settled {
        basis.heldRevocations.remove(RevocationID(work))
        changes.queueRows.append(.revocation(.finish(work, proof, outcome, reason)))
        return .revocation(outcome)
    }
}
