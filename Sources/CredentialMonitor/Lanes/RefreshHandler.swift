// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// Asks Apple about the tokens of due credentials. Each app has a handler of its own, so that no app waits for another.
package struct RefreshHandler: WorkHandler, LanePart {
    let context: LaneContext
    private let app: AppAtWork
    private let pace: Pace
    private let trials = NIOLockedValueBox<[String: Timestamp]>([:])
    /// Whether the next odd permit goes to a first check.
    private let firstCheckGoesFirst = NIOLockedValueBox(true)

    package let lane: Lane

    /// How often to try a client that Apple has not accepted yet, with a token that Apple was never asked about.
    private static let trialInterval = Duration.seconds(60)

    package init(of app: AppAtWork, _ context: LaneContext) {
        self.app = app
        self.context = context
        pace = Pace(of: app, lane: .checks, context)
        lane = .refreshes(app: app.name)
    }

    package var width: Int { app.budget.limits.maxConcurrentRequests }
    /// Enough for a commit to be worth its fsync, and no more than the limits allow in a twelfth of a second: work in reserve has its
    /// permit, and goes out at once after Apple was slow. While the app is held back, claimed work is a probe, and finds a hand.
    package var reserve: (most: Int, longestWait: Duration)? {
        let permitted = min(max(Int(app.budget.limits.maxRequestsPerSecond / 12), 1), 512)
        return (isHeldBack ? 0 : permitted, policy.longestReserve)
    }

    /// Holds work that was claimed before the app or the client was held back. An admission asks Apple nothing, so it is never held.
    package func isHeld(_ work: DueCredential) -> Bool {
        if case .admission = work.purpose { false } else { isHeldBack || app.budget.pauses.holds(work.id.clientID, at: clock.now) }
    }

    /// Whether Apple has asked for patience, the breaker is open for more than a blamed client, or an operator has paused the app.
    private var isHeldBack: Bool { app.budget.isPaused(at: clock.now) || breakers.isHeldBack(app.name) }

    /// Claims pending rejections that are believed now, without permits. Otherwise takes permits and claims exactly that many checks, so
    /// that no claim waits for a permit: canaries, then clients that Apple has blamed, then the credentials that have waited longest.
    package func claim(upTo slots: Int) async throws -> [DueCredential] {
        // Apple's answers to other replicas are not known here, so nothing can be admitted by them.
        guard app.budget.isOurs else { return [] }
        let now = clock.now
        let rules = breakers.admissions(of: app.name, at: now)
        let settled = try await store.claimPendingRejections(of: app.name, admittedBy: rules, upTo: slots, at: now, policy: policy)
        guard settled.isEmpty else { return settled }
        let breaker = breakers.breaker(of: app.name)
        // As of now, because the store took its time and other lanes have taken permits since.
        let permits = app.budget.take(upTo: slots, at: clock.now, isProbing: breaker.isProbed)
        guard permits > 0 else { return [] }
        var due: [DueCredential] = []
        defer { app.budget.giveBack(permits - due.count, isProbing: breaker.isProbed) }
        do {
            app.budget.pauses.suspect(breaker.blamedClients)
            let quotas = app.budget.pauses.quotas(at: clock.now)
            due = try await store.takeCanaries(app.canaries, of: app.name, excluding: Set(quotas.keys), upTo: permits, at: now)
            if due.count < permits {
                due += try await store.claimDueCredentials(
                    of: app.name,
                    upTo: permits - due.count,
                    firstChecks: firstChecks(among: permits - due.count, whileProbed: breaker.isProbed),
                    at: now,
                    policy: policy,
                    preferring: breaker.blamedClients,
                    quotas: quotas
                )
            }
            if due.count < permits {
                let full = quotas.filter { client, quota in quota <= due.count { $0.id.clientID == client } }
                due += try await tryUnprovenClients(but: Set(full.keys), upTo: permits - due.count, at: now)
            }
        } catch let error as StoreError where !due.isEmpty {
            // The store keeps that the canary was taken. If Apple is not asked about it now, it waits for an hour.
            telemetry.claimFailed(lane, error)
        }
        return due
    }

    /// Half of the permits, and every second odd one. No more, because nobody knows whether new tokens are any good, and there may be many.
    /// While the app is only probed, first checks wait: answers about accepted tokens close the breaker.
    private func firstChecks(among permits: Int, whileProbed isProbed: Bool) -> Int {
        if isProbed { return 0 }
        guard permits % 2 == 1 else { return permits / 2 }
        return firstCheckGoesFirst.withLockedValue { goesFirst in
            goesFirst.toggle()
            return permits / 2 + (goesFirst ? 0 : 1)
        }
    }

    /// Claims a first check at once for clients without a 200, so that a developer who has just set one up learns whether the key works.
    private func tryUnprovenClients(but excluded: Set<String>, upTo limit: Int, at now: Timestamp) async throws -> [DueCredential] {
        let untried = breakers.unproven(app.clientIDs.subtracting(excluded), at: now).filter { client in
            // A trial in the future means that the clock was set back.
            trials.withLockedValue { $0[client] }.map { now < $0 || $0.advanced(by: Self.trialInterval) <= now } ?? true
        }
        guard !untried.isEmpty else { return [] }
        let claimed = try await store.claimFirstChecks(of: untried, upTo: limit, at: now, policy: policy)
        trials.withLockedValue { trials in
            for work in claimed { trials[work.id.clientID] = now }
        }
        return claimed
    }

    package func retryDelay() -> Duration? { app.budget.isExhausted(at: clock.now) ? RequestBudget.refill : nil }

    package func resolve(_ work: DueCredential) async -> [Settlement] {
        if case .admission(let rejection) = work.purpose { return [.admission(work, rejection)] }
        guard let token = open(work.sealed, of: work.id, in: app.name, grantedAt: work.token.grantedAt) else {
            return [.refresh(work, .failed(.unavailable, at: clock.now))]
        }
        let answer = await pace.ask(about: work.id.clientID, isProof: work.wasAccepted) {
            await telemetry.timed { await app.endpoint.refresh(token, of: work.id) }
        }
        // Left to its lease: another replica owns the app, or the client was paused after the claim.
        guard let answer else { return [] }
        telemetry.refreshAnswered(app.name, work.id, answer.response.answer, isFirst: !work.wasAccepted)
        var asked = work
        (asked.teamID, asked.clientAnswer) = (answer.response.identity.teamID, answer.clientAnswer)
        return [.refresh(asked, verdict(on: answer, to: work))]
    }

    /// Judges the answer for the user, and notes whether Apple answers normally.
    private func verdict(on answer: Asked<RefreshNews>, to work: DueCredential) -> RefreshVerdict {
        let (identity, requestedAt, answeredAt) = (answer.response.identity, answer.requestedAt, answer.answeredAt)
        if case .news(let news) = answer.response.answer, news.provesClient || news == .rejected {
            breakers.record(isValid: news.provesClient, of: work, by: identity, at: answeredAt)
        }
        return switch answer.response.answer {
        case .news(.valid): .valid(requestedAt: requestedAt, answeredAt: answeredAt)
        case .news(.unnamed): .unnamed(requestedAt: requestedAt, answeredAt: answeredAt)
        case .news(.rejected):
            .rejected(
                PendingRejection(requestedAt: requestedAt, answeredAt: answeredAt, keyID: identity.keyID),
                isProven: breakers.isProven(clientID: identity.clientID, keyID: identity.keyID, at: answeredAt)
            )
        case .news(.ambiguous): .unclear(answeredAt: answeredAt)
        case .news(.anotherUser): .anotherUser(answeredAt: answeredAt)
        case .misconfigured: .failed(.misconfigured, at: answeredAt)
        case .throttled(let retryAfter): .failed(.throttled, at: answeredAt, retryAfter: retryAfter)
        case .unavailable(_, _, let retryAfter): .failed(.unavailable, at: answeredAt, retryAfter: retryAfter)
        }
    }
}
