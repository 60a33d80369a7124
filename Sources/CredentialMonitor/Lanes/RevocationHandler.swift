// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Revokes tokens at Apple for backends, with permits of the app, ahead of the checks. It asks one question at a time to prove each
/// revocation, and commits what it knows after each.
package struct RevocationHandler: WorkHandler, LanePart {
    package enum Work: Sendable {
        case request(ClaimedRevocationRequest)
        case token(DueRevocation)
    }

    let context: LaneContext
    private let paces: [String: Pace]
    private let clientIDs: Set<String>

    package let lane = Lane.revocations

    private static let lease = Duration.seconds(60)

    package init(apps: [AppAtWork], _ context: LaneContext) {
        self.context = context
        paces = Dictionary(uniqueKeysWithValues: apps.map { ($0.name, Pace(of: $0, lane: .revocations, context)) })
        clientIDs = apps.reduce(into: []) { $0.formUnion($1.clientIDs) }
    }

    package var width: Int { max(paces.values.map(\.app.budget.limits.maxConcurrentRequests).reduce(0, +), 1) }

    package func handful(of room: Int) -> Int { 1 }

    /// Tokens go first. They take only as many slots as there are permits, so requests get the others. The other way round, thousands of
    /// requests that wait for sign-ins would hold up every token. Tokens of which no question is left go last.
    package func claim(upTo slots: Int) async throws -> [Work] {
        let now = clock.now
        let trusted = trusted
        let quotas: [String: Int] = paces.values.reduce(into: [:]) { $0.merge($1.app.budget.pauses.quotas(at: now), uniquingKeysWith: min) }
        let due = try await store.dueRevocations(upTo: slots, at: now, trusted: trusted, quotas: quotas)
        func tokens(_ permits: [String: Int]) async throws -> [DueRevocation] {
            try await store.claimRevocations(permits: permits, at: now, trusted: trusted, policy: policy, quotas: quotas)
        }
        var work = try await claimPermitted(due, upTo: slots, by: tokens).map(Work.token)
        do {
            if work.count < slots {
                let requests = try await store.claimRevocationRequests(upTo: slots - work.count, at: clock.now, lease: Self.lease)
                work += requests.map(Work.request)
            }
            var left = slots - work.count
            // The tokens of an app that has left the configuration are given up. Apple is not asked, so they need no permit.
            let abandoned = due.filter { paces[$0.key] == nil }.sorted { $0.key < $1.key }.reduce(into: [String: Int]()) { permits, app in
                permits[app.key] = min(app.value, left)
                left -= min(app.value, left)
            }
            if abandoned.values.contains(where: { $0 > 0 }) { work += try await tokens(abandoned).map(Work.token) }
        } catch {
            guard !work.isEmpty else { throw error }
        }
        return work
    }

    private func claimPermitted(
        _ due: [String: Int],
        upTo slots: Int,
        by claim: ([String: Int]) async throws -> [DueRevocation]
    ) async throws -> [DueRevocation] {
        var left = slots
        var permits: [String: Int] = [:]
        for (name, pace) in paces {
            let budget = pace.app.budget
            let taken = budget.take(upTo: min(due[name] ?? 0, left, budget.room), at: clock.now, goesFirst: true)
            left -= taken
            if taken > 0 { permits[name] = taken }
        }
        guard !permits.isEmpty else { return [] }
        var unused = permits
        defer { for (name, count) in unused { paces[name]?.app.budget.giveBack(count) } }
        let claimed = try await claim(permits)
        for work in claimed where question(of: work) != nil { unused[work.app]? -= 1 }
        return claimed
    }

    package func retryDelay() -> Duration? {
        let now = clock.now
        return paces.values.contains { $0.app.budget.isExhausted(at: now) && $0.app.budget.isWanted } ? RequestBudget.refill : nil
    }

    package func resolve(_ work: Work) async -> [Settlement] {
        switch work {
        case .request(let request):
            return [.revocationRequest(request, verdict(on: request))]
        case .token(let revocation):
            var asked = revocation
            guard let verdict = await verdict(on: revocation, noting: &asked) else { return [] }
            return [.revocation(asked, verdict)]
        }
    }

    private func verdict(on request: ClaimedRevocationRequest) -> RevocationRequestVerdict {
        if request.claim.isPoison { return .rejected(.poison) }
        guard let credential = request.credential else { return .rejected(.malformed) }
        guard let app = paces.values.first(where: { $0.app.clientIDs.contains(credential.clientID) })?.app else {
            return .rejected(.unknownClient)
        }
        guard app.mayRevoke else { return .rejected(.revocationsDisabled) }
        return .accepted(at: appleTime, knowsTime: context.clockGuard?.knowsAppleTime ?? true)
    }

    // MARK: A token

    /// Whether the configuration forbids the next question. The last one is allowed: the revocation was sent, and its result is worth
    /// knowing.
    private func isForbidden(_ work: DueRevocation) -> Bool {
        paces[work.app]?.app.mayRevoke == false && work.proof.next != .isStillAccepted
    }

    /// What to ask Apple next. Nil if Apple must not be asked.
    private func question(of work: DueRevocation) -> RevocationProof.Question? {
        if work.isPlanted || work.claim.isPoison || !clientIDs.contains(work.id.clientID) || isForbidden(work) { return nil }
        switch work.proof.next {
        case .isBelieved: return work.newerSignIn == .none && breakers.mayAskAgain(work, at: clock.now) ? .isBelieved : nil
        case .isAccepted, .revoke: return work.newerSignIn == .none ? work.proof.next : nil
        // The result of a sent revocation is worth knowing, even if the user has signed in since.
        case .isStillAccepted: return .isStillAccepted
        }
    }

    /// - Returns: nil if the row is left to its lease.
    private func verdict(on work: DueRevocation, noting asked: inout DueRevocation) async -> RevocationVerdict? {
        if work.isPlanted { return .rejected(.planted) }
        if work.claim.isPoison { return .rejected(.poison) }
        if isForbidden(work) { return .rejected(.revocationsDisabled) }
        guard let question = question(of: work), let pace = paces[work.app] else {
            switch work.newerSignIn {
            case .known: return .overtaken
            case .possible: return .mayBeOvertaken
            case .none: return clientIDs.contains(work.id.clientID) ? .unproven : .rejected(.unknownClient)
            }
        }
        let app = pace.app
        let token = open(work.sealed, of: work.id, in: work.app, grantedAt: work.token.grantedAt)
        guard let token else { return .failed(at: clock.now) }
        // The client is paused. Or another replica owns the app by now, and the row is left to its lease.
        var unasked: RevocationVerdict? { app.budget.isOurs ? .unpermitted(at: clock.now) : nil }
        if question == .revoke {
            let answer = await pace.ask(about: work.id.clientID) { await app.endpoint.revoke(token, of: work.id.clientID) }
            guard let answer else { return unasked }
            asked.clientAnswer = answer.clientAnswer
            telemetry.answered(work.app, answer.response.answer, telemetry.metadata(work.app, work.id))
            return verdict(on: answer)
        }
        // A revoked token had been accepted before, so a 200 about it is a proof.
        let isProof = work.standing != .neverAccepted || question == .isStillAccepted
        let answer = await pace.ask(about: work.id.clientID, isProof: isProof) { await app.endpoint.refresh(token, of: work.id) }
        guard let answer else { return unasked }
        (asked.teamID, asked.clientAnswer) = (answer.response.identity.teamID, answer.clientAnswer)
        telemetry.refreshAnswered(work.app, work.id, answer.response.answer)
        return verdict(on: answer, to: question, work)
    }

    private func verdict(on answer: Asked<RevokeNews>) -> RevocationVerdict {
        switch answer.response.answer {
        case .news(.accepted): answer.says(.revoked)
        case .misconfigured: .failed(at: clock.now)
        case .unavailable(_, isAnswerLost: true, let retryAfter): answer.says(.unheard, retryAfter: retryAfter)
        case .throttled(let retryAfter), .unavailable(_, isAnswerLost: false, let retryAfter):
            .failed(at: clock.now, retryAfter: retryAfter)
        }
    }

    private func verdict(on answer: Asked<RefreshNews>, to question: RevocationProof.Question, _ work: DueRevocation) -> RevocationVerdict {
        let identity = answer.response.identity
        return switch answer.response.answer {
        case .news(.unnamed) where question != .isStillAccepted && work.standing == .neverAccepted: .rejected(.unnamedUser)
        case .news(.valid), .news(.unnamed): answer.says(.accepted)
        case .news(.rejected) where question == .isBelieved && identity.keyID == work.proof.keyID:
            work.wasAccepted(byAnotherTeamThan: identity.teamID) ? .otherTeam : .admitted
        case .news(.rejected): answer.says(.rejected)
        case .news(.anotherUser) where question != .isStillAccepted: .rejected(.anotherUser)
        case .news(.anotherUser), .news(.ambiguous), .misconfigured: .failed(at: clock.now)
        case .throttled(let retryAfter), .unavailable(_, _, let retryAfter): .failed(at: clock.now, retryAfter: retryAfter)
        }
    }
}

extension Asked {
    fileprivate func says(_ word: RevocationProof.Answer.Word, retryAfter: Duration? = nil) -> RevocationVerdict {
        let answer = RevocationProof.Answer(word, askedAt: sentAt, date: word == .unheard ? nil : response.date)
        return .answered(answer, by: response.identity, retryAfter: retryAfter)
    }
}
