// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Requests to revoke a user's tokens, and the proof of each token.
extension SettlementFold {
    // MARK: A request

    mutating func settle(_ work: ClaimedRevocationRequest, _ verdict: RevocationRequestVerdict) -> Settled {
        guard basis.heldRevocationRequests[work.id] == work.claim else { return .superseded }
        switch verdict {
        case .rejected(let reason): return close(work, .rejected, reason)
        case .accepted(let time, let knowsTime): return open(work, lookedAt: time, knowsTime: knowsTime)
        }
    }

    private mutating func open(_ work: ClaimedRevocationRequest, lookedAt: Timestamp, knowsTime: Bool) -> Settled {
        guard let credential = work.credential else { return close(work, .rejected, .malformed) }
        // The request's client is configured, so the store is about to learn of it.
        guard let app = apps[credential.clientID] else { return postpone(work, for: SettlementRules.unknownClientRetry) }
        let id = AppUserID(app: app, userID: credential.userID)
        let waiting = waitingGrants(of: id, includingAhead: true)
        let holdings = basis.users[id]?.holdings ?? []
        let signIns = holdings.compactMap(\.record.credential.grantedAt)
        let wantedAt = effectiveTime(of: work, lookedAt: lookedAt, knowing: signIns + waiting.map(\.grantedAt))
        var work = work
        if knowsTime { work.effectiveAt = wantedAt }
        let hasSignedIn = signIns.contains { $0 > wantedAt }
        if hasSignedIn { return close(work, .superseded) }
        // A newer row may turn out to be no sign-in: Apple may refuse its code, its token may have been told before, or siwatch may reject
        // it. The request has no deadline, so it waits until the row is settled. An older row may bring one more token to revoke.
        let mayHaveSignedIn = waiting.contains { $0.grantedAt > wantedAt }
        if mayHaveSignedIn || isWorthWaiting(for: waiting, since: wantedAt) {
            return postpone(work, for: rules.requestRetry(requestedAt: wantedAt, at: now))
        }
        let tokens = holdings.flatMap { holding in
            let credential = holding.record.credential
            let current: DueRevocation.Standing = credential.verifiedAt == nil ? .neverAccepted : .acceptedBefore
            let former: DueRevocation.Standing = credential.formerVerifiedAt == nil ? .neverAccepted : .acceptedBefore
            return [
                TokenToRevoke(credential.token, at: holding.clientID, standing: current, verifiedTeam: credential.verifiedTeam),
                TokenToRevoke(credential.formerToken, at: holding.clientID, standing: former, verifiedTeam: credential.formerVerifiedTeam),
            ].compactMap(\.self).filter { $0.key.grantedAt <= wantedAt }
        }
        guard !tokens.isEmpty else {
            // It may name tokens that are told later, so it must not count from a time to come. Of a token, Apple's first answer gives the time.
            return knowsTime ? close(work, .noToken) : postpone(work, for: SettlementRules.repeatedRevocationRetry)
        }
        work.effectiveAt = wantedAt
        // If two requests name a token, one proof is enough. A request that a sign-in has overtaken proves nothing any more.
        let atWork = basis.tokensBeingRevoked[id, default: [:]].filter { !isGreater(signIns.max(), than: $0.value) }
        let newTokens = tokens.filter { atWork[$0.key] == nil }
        guard !newTokens.isEmpty else { return postpone(work, for: SettlementRules.repeatedRevocationRetry) }
        if work.confirmedAt == nil, let settled = hold(work, of: app) { return settled }
        for token in newTokens {
            basis.tokensBeingRevoked[id, default: [:]][token.key] = wantedAt
            let revocation = RevocationID(request: work.id, clientID: token.clientID, fingerprint: token.key.fingerprint)
            basis.requests[id, default: KnownRequests()].note(revocation, from: wantedAt, isOpen: true)
        }
        basis.heldRevocationRequests[work.id] = nil
        changes.queueRows.append(.revocation(.open(work, credential, newTokens)))
        return .postponed
    }

    /// From when a request counts. A backend may have dated it ahead, and a sign-in after siwatch's first look is a new one. It counts from
    /// after the sign-ins that are known then and not later than its own date, which may be from the same clock as theirs. What an operator
    /// has confirmed names no later sign-in.
    private func effectiveTime(of work: ClaimedRevocationRequest, lookedAt: Timestamp, knowing signIns: [Timestamp]) -> Timestamp {
        // Somebody else may have written the time of the first look, so the rules hold for it as well.
        let askedAt = work.effectiveAt ?? work.requestedAt
        let named = signIns.filter { $0 <= askedAt }.map { $0.advanced(by: .milliseconds(1)) }
        let time = min(askedAt, named.reduce(lookedAt.advanced(by: SettlementRules.longestLead), max))
        return work.confirmedAt.map { min(time, $0.advanced(by: SettlementRules.longestLead)) } ?? time
    }

    /// - Returns: nil if the revocation limit lets the request through.
    private mutating func hold(_ work: ClaimedRevocationRequest, of app: String) -> Settled? {
        var revocationLimit = changes.revocationLimits[app] ?? basis.revocationLimits[app] ?? RevocationLimit()
        let wasSet = revocationLimit.reachedAt != nil
        let isLetThrough = revocationLimit.letsThrough(under: rules.revocationLimit, at: now)
        changes.revocationLimits[app] = revocationLimit
        guard !isLetThrough else { return nil }
        basis.heldRevocationRequests[work.id] = nil
        changes.queueRows.append(.revocation(.hold(work)))
        return .heldBack(reachesLimit: !wasSet)
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
        if let time = work.effectiveAt, let credential = work.credential, let app = apps[credential.clientID] {
            basis.requests[AppUserID(app: app, userID: credential.userID), default: KnownRequests()].note(nil, from: time)
        }
        changes.queueRows.append(.revocation(.close(work, outcome, reason)))
        return .revocation(outcome, reason)
    }

    // MARK: A token that is told late

    /// Revokes a token that siwatch is told of after a request that names its sign-in. A request names every sign-in up to its time, and a
    /// proof erases tokens, so this does not wait for the lane. But if all these requests had no token, the lane and its limit decide.
    mutating func revoke(_ token: RefreshToken, of credential: CredentialID, in app: String, issuedTo teamID: String?) {
        let id = AppUserID(app: app, userID: credential.userID)
        guard let known = basis.requests[id], let wantedAt = known.newest, token.key.grantedAt <= wantedAt,
            basis.users[id]?.holdings.contains(where: { isGreater($0.record.credential.grantedAt, than: wantedAt) }) == false
        else { return }
        let standing: DueRevocation.Standing = teamID == nil ? .neverAccepted : .acceptedBefore
        let isOpen = known.newestWithToken.map { token.key.grantedAt <= $0 } ?? false
        let opened = isOpen ? TokenToRevoke(token, at: credential.clientID, standing: standing, verifiedTeam: teamID) : nil
        if let opened { basis.tokensBeingRevoked[id, default: [:]][opened.key] = wantedAt }
        let isImport = teamID == nil && token.key.grantedAt.duration(to: now) > SettlementRules.longestWaitForGrant
        let due = isImport ? now.advanced(by: SettlementRules.longestRestOfImport) : now
        changes.queueRows.append(.revocation(.again(credential, at: wantedAt, opened, due: due)))
    }

    // MARK: A token

    mutating func settle(_ work: DueRevocation, _ verdict: RevocationVerdict) -> Settled {
        guard basis.heldRevocations[RevocationID(work)] == work.claim else { return .superseded }
        hear(work.clientAnswer, of: work.id.clientID)
        var proof = work.proof
        switch verdict {
        case .answered(let answer, let identity, let retryAfter):
            let isAnotherTeam = work.wasAccepted(byAnotherTeamThan: identity.teamID)
            var work = work
            if answer.word == .accepted { (work.standing, work.verifiedTeam) = (.accepted, identity.teamID) }
            let due = proof.take(
                answer,
                keyID: identity.keyID,
                isAnotherTeam: isAnotherTeam,
                retryAfter: retryAfter,
                of: work.id,
                under: rules.policy,
                at: now
            )
            return proof.isProved ? revoke(work, proof, .proved) : proceed(with: work, proof, due: due)
        case .admitted where proof.next == .isBelieved && !isHeld(work):
            return end(work, proof)
        case .otherTeam where proof.next == .isBelieved && !isHeld(work):
            return close(work, proof, .rejected, .otherTeam)
        case .admitted, .unproven, .otherTeam, .mayBeOvertaken:
            let due = proof.wait(under: rules.policy, at: now)
            return proceed(with: work, proof, due: due)
        case .failed(let time, let retryAfter):
            let due = proof.fail(at: time, retryAfter: retryAfter, of: work.id, under: rules.policy)
            return proceed(with: work, proof, due: due)
        case .unpermitted(let time): return proceed(with: work, proof, due: time.advanced(by: RevocationProof.pausedWait))
        case .overtaken: return close(work, proof, .superseded)
        case .rejected(let reason): return close(work, proof, .rejected, reason)
        }
    }

    /// Ends a token that was dead before Apple was first asked. What siwatch knows now decides whether that says something of the user.
    private mutating func end(_ work: DueRevocation, _ proof: RevocationProof) -> Settled {
        // Apple has accepted the token since the request was opened, whatever a backend has told. Another key began the proof anew.
        if work.standing == .accepted { return revoke(work, proof, .alreadyInvalid) }
        let credential = basis.users[work.user]?[work.id.clientID]?.credential
        // A backend may have told another token since the request was opened, about which siwatch has not asked.
        guard let credential, credential.token?.key == work.token else { return close(work, proof, .noValidToken) }
        // Since the request was opened, a backend may have told a sign-in without a token, or a check may have accepted this token.
        guard credential.isTokenOfNewestSignIn else { return close(work, proof, .noValidToken) }
        guard credential.wasTokenAccepted(by: work.teamID) else { return close(work, proof, .rejected, .otherTeam) }
        return revoke(work, proof, .alreadyInvalid)
    }

    private mutating func isHeld(_ work: DueRevocation) -> Bool { withBreaker(of: work.app) { $0.holds(work.id.clientID) } }

    private mutating func proceed(with work: DueRevocation, _ proof: RevocationProof, due: Timestamp) -> Settled {
        basis.heldRevocations[RevocationID(work)] = nil
        basis.requests[work.user, default: KnownRequests()].note(RevocationID(work), from: work.wantedAt(by: proof), isOpen: true)
        changes.queueRows.append(.revocation(.proceed(work, proof, due: due)))
        return .postponed
    }

    private mutating func revoke(_ work: DueRevocation, _ proof: RevocationProof, _ outcome: RevocationOutcome) -> Settled {
        let wantedAt = work.wantedAt(by: proof)
        withUser(work.user, .revocation, at: wantedAt) { user in
            user.keep()
            user[work.id.clientID]?.credential.revoke(at: wantedAt)
            // The revocation that siwatch sent ended everything that the user had granted to the app. A token that was dead before says
            // nothing of the other clients.
            if outcome == .proved { user.registers.revoke(at: wantedAt) }
        }
        return close(work, proof, outcome)
    }

    private mutating func close(
        _ work: DueRevocation,
        _ proof: RevocationProof,
        _ outcome: RevocationOutcome,
        _ reason: RevocationRejection? = nil
    ) -> Settled {
        basis.heldRevocations[RevocationID(work)] = nil
        if basis.tokensBeingRevoked[work.user]?[work.token] == work.requestedAt { basis.tokensBeingRevoked[work.user]?[work.token] = nil }
        // Nobody has asked for what was planted.
        if !work.isPlanted {
            let (id, time, isGivenUp) = (RevocationID(work), work.wantedAt(by: proof), reason?.isGivenUp ?? false)
            basis.requests[work.user, default: KnownRequests()].end(id, from: time, isGivenUp: isGivenUp)
        }
        changes.queueRows.append(.revocation(.finish(work, proof, outcome, reason)))
        return .revocation(outcome, reason)
    }
}
