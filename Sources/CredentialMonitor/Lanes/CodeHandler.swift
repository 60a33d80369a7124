// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Logging
import NIOConcurrencyHelpers

/// Exchanges authorization codes while users wait. One lane for all apps, with permits of its own, so that no backlog of checks delays it.
package struct CodeHandler: WorkHandler, LanePart {
    let context: LaneContext
    private let apps: [AppAtWork]
    private let paces: [String: Pace]
    private let verifier: any IdentityTokenVerifier
    private let judge: IssueJudge
    /// Until when a code may be due for another try.
    private let retriesUntil = NIOLockedValueBox<Timestamp?>(nil)

    package let lane = Lane.codes
    package let isUrgent = true

    /// How often to look for codes that are due for another try.
    private static let retryPoll = Duration.milliseconds(250)

    /// - Parameter records: earlier judgements of codes, by client. A new process has none.
    package init(apps: [AppAtWork], verifier: any IdentityTokenVerifier, _ context: LaneContext, records: [String: CodeRecord] = [:]) {
        (self.apps, self.verifier, self.context) = (apps, verifier, context)
        paces = apps.reduce(into: [:]) { paces, app in
            let pace = Pace(of: app, lane: .codes, context)
            for clientID in app.clientIDs { paces[clientID] = pace }
        }
        judge = IssueJudge(verifier, context, records: records)
    }

    /// The permits of this lane for an app. Within half a minute, a sign-in tries whether Apple still blames the client.
    package static func budget(_ limits: RequestLimits, lease: LaneLease = .endless) -> RequestBudget {
        RequestBudget(limits, longestPause: .seconds(30), lease: lease)
    }

    /// Hands for the requests of all apps. Neither a slow answer of Apple's nor one that waits for a signing key delays other users.
    package var width: Int { max(apps.map(\.codeBudget.limits.maxConcurrentRequests).reduce(0, +), 1) + judge.keyWaits.hands }

    private var lease: Duration { policy.lease(attempts: 0) + IssueJudge.longestWaitForKey }

    package func handful(of room: Int) -> Int { 1 }

    /// Takes permits first, like the checks. Sends nothing while no signing key of Apple's is known, because no answer could be verified.
    package func claim(upTo slots: Int) async throws -> [ClaimedCode] {
        let now = clock.now
        let isIdle = slots == width
        judge.keyWaits.takeBack()
        let canVerify = verifier.hasKeys
        var permits: [String: Int] = [:]
        for app in apps { permits[app.name] = canVerify ? app.codeBudget.take(upTo: min(slots, app.codeBudget.room), at: now) : 0 }
        var unused = permits
        defer { for app in apps { app.codeBudget.giveBack(unused[app.name] ?? 0) } }
        let quotas: [String: Int] = apps.reduce(into: [:]) { $0.merge($1.codeBudget.pauses.quotas(at: now), uniquingKeysWith: min) }
        let claimed = try await store.claimCodes(upTo: slots, permits: permits, at: now, lease: lease, suspects: isIdle, quotas: quotas)
        if !claimed.isEmpty { context.signInRush.begin() }
        for code in claimed where isToBeSent(code, at: now) {
            if let app = code.app, let left = unused[app] { unused[app] = max(left - 1, 0) }
        }
        return claimed
    }

    private func isToBeSent(_ work: ClaimedCode, at now: Timestamp) -> Bool {
        guard let content = work.content, !work.claim.isPoison else { return false }
        return work.deadline > now && paces[content.clientID] != nil
    }

    package func retryDelay() -> Duration? {
        let now = clock.now
        if apps.contains(where: { $0.codeBudget.isExhausted(at: now) }) { return RequestBudget.refill }
        return retriesUntil.withLockedValue { $0 }.flatMap { now < $0 ? Self.retryPoll : nil }
    }

    package func resolve(_ work: ClaimedCode) async -> [Settlement] {
        var asked = work
        guard let verdict = await verdict(on: work, noting: &asked) else { return [] }
        if case .failed = verdict {
            retriesUntil.withLockedValue { $0 = clock.now.advanced(by: AuthorizationCode.longestWait * 2) }
        }
        if case .rejected(let reason, let detail) = verdict { telemetry.codeRejected(work, reason, detail: detail) }
        return [.code(asked, verdict)]
    }

    /// Nil if a fault of our own or a stop prevents a verdict: the row stays claimed. Notes who asked, and what Apple said of the client.
    private func verdict(on work: ClaimedCode, noting asked: inout ClaimedCode) async -> CodeVerdict? {
        if work.claim.isPoison { return .rejected(.poison) }
        guard let content = work.content else { return .rejected(.malformed) }
        let isLate = isLate(work)
        guard let pace = paces[content.clientID] else {
            if isLate { return .rejected(.unknownClientExpired) }
            telemetry.unknownClients([content.clientID], grants: 1)
            return .unknownClient
        }
        if isLate { return .late }
        let app = pace.app
        guard isPermitted(work, by: app),
            let answer = await pace.ask(about: content.clientID, { await exchange(content, by: app.endpoint) })
        else { return .unpermitted(at: clock.now) }
        (asked.teamID, asked.clientAnswer) = (answer.response.identity.teamID, answer.clientAnswer)
        let answeredAt = answer.answeredAt
        telemetry.answered(app.name, answer.response.answer, ["app": "\(app.name)", "client_id": "\(content.clientID)"])
        switch answer.response.answer {
        case .news(.issued(let tokens)): return await judge.verdict(on: tokens, in: answer, of: work, content, by: app)
        case .news(.refused(.codeUsed, let detail)) where work.mayBeUsed || work.failures > 0: return .rejected(.answerLost, detail: detail)
        case .news(.refused(.codeExpired, let detail)) where work.mayBeUsed: return .rejected(.answerLost, detail: detail)
        case .news(.refused(let reason, let detail)): return .rejected(reason, detail: detail)
        case .misconfigured(let error):
            return .failed(at: answeredAt, isAnswerLost: false, detail: error)
        // An earlier refusal of the client says more, so it stays with the row.
        case .throttled:
            return .failed(at: answeredAt, isAnswerLost: false, detail: work.isBlamed ? nil : "status 429")
        case .unavailable(let detail, let isAnswerLost, _):
            return .failed(at: answeredAt, isAnswerLost: isAnswerLost, detail: work.isBlamed ? nil : detail)
        }
    }

    /// Whether the code's life is over. While our clock is known to be wrong, the life counts from the first claim and not from
    /// `granted_at`, and Apple judges the rest.
    private func isLate(_ work: ClaimedCode) -> Bool {
        let since = context.clockGuard?.isWrong == true ? work.firstClaimedAt : min(work.grantedAt, work.firstClaimedAt)
        return since.advanced(by: AuthorizationCode.life) <= clock.now
    }

    /// Whether the code may be sent. One that was late only by our wrong clock was claimed without a permit, and takes it here.
    private func isPermitted(_ work: ClaimedCode, by app: AppAtWork) -> Bool {
        let now = clock.now
        return work.deadline > now || verifier.hasKeys && app.codeBudget.take(upTo: 1, at: now) == 1
    }

    private func exchange(_ content: ClaimedCode.Content, by endpoint: any TokenEndpoint) async -> ExchangeResponse {
        let start = ContinuousClock.now
        defer { telemetry.record(.codeExchangeDuration, (ContinuousClock.now - start).inSeconds) }
        return await endpoint.exchange(content.code, redirectURI: content.redirectURI, of: content.clientID)
    }
}
