// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension EndpointResponse {
    /// As `LaneAnswer.kind`. Nil if Apple was not asked, because siwatch could not sign.
    fileprivate var kind: String? {
        switch answer {
        case .news(let news): news.provesClient ? "200" : "answered"
        case .misconfigured(let word): word
        case .throttled: "429"
        case .unavailable(let kind, _, _): identity.keyID.isEmpty ? nil : kind
        }
    }
}

struct Asked<News: EndpointNews>: Sendable {
    var response: EndpointResponse<News>
    /// By our clock.
    var sentAt: Timestamp
    var answeredAt: Timestamp
    /// By Apple's clock.
    var requestedAt: Timestamp

    /// What the answer says of the client; nil if nothing.
    var clientAnswer: ClientAnswer? {
        switch response.answer {
        case .news(let news): news.provesClient ? .accepted(at: requestedAt) : nil
        case .misconfigured(let word): ClientRefusal.isWord(word) ? .refused(word: word, at: requestedAt) : nil
        case .throttled, .unavailable: nil
        }
    }
}

extension RefreshPolicy {
    /// How long a request took. If the clock stepped in between, the time-out, which no request exceeds.
    fileprivate func elapsed(from sentAt: Timestamp, to answeredAt: Timestamp) -> Duration {
        let elapsed = sentAt.duration(to: answeredAt)
        return (.zero...timeout).contains(elapsed) ? elapsed : timeout
    }
}

/// Asks Apple, and adjusts how much Apple is asked: more, less or nothing.
struct Pace: LanePart {
    let app: AppAtWork
    let context: LaneContext
    private let lane: AskingLane
    /// The lane's own budget first. All of them hear of blame, because it is about the configuration.
    private let budgets: [RequestBudget]
    /// Budgets that hear only that Apple accepts a client.
    private let otherLanes: [RequestBudget]
    /// Limits `Retry-After`, so that one answer does not hold an app for hours. Apple may ask again after it.
    private let longestPause: Duration

    init(of app: AppAtWork, lane: AskingLane, _ context: LaneContext) {
        (self.app, self.lane, self.context) = (app, lane, context)
        budgets = lane == .codes ? [app.codeBudget, app.budget] : [app.budget]
        otherLanes = lane == .codes ? [] : [app.codeBudget]
        longestPause = lane == .codes ? AuthorizationCode.longestWait : .minutes(15)
    }

    /// Asks Apple one question about a client's token or code, and goes by the answer.
    ///
    /// - Parameter isProof: whether Apple had accepted the token before. A 200 about any other shows only that the key works.
    /// - Returns: nil if another replica owns the app, or if the client is paused. Then Apple was not asked, or has not heard the question.
    func ask<News>(about clientID: String, isProof: Bool = false, _ question: () async -> EndpointResponse<News>) async -> Asked<News>? {
        let budget = budgets[0]
        guard budget.isOurs, budget.pauses.maySend(of: clientID, at: clock.now) else { return nil }
        let sentAt = clock.now
        // Checks have hands of their own in each app.
        let response = await lane == .checks ? question() : budget.whileUnderWay(question)
        let answeredAt = clock.now
        // A code that Apple may have taken is used up, so its answer counts as lost wherever the lane is now.
        if case .unavailable(_, let isAnswerLost, _) = response.answer, !budget.isOurs, lane != .codes || !isAnswerLost { return nil }
        // Before the pace is set, because blame of another client spares a client that this answer proves.
        if case .news(let news) = response.answer, news.provesClient {
            breakers.recordAccepted(by: response.identity, isProof: isProof, at: answeredAt)
        }
        follow(response, of: clientID, sentAt: sentAt, answeredAt: answeredAt)
        let requestedAt = response.requestedAt(sentAt, elapsed: policy.elapsed(from: sentAt, to: answeredAt))
        return Asked(response: response, sentAt: sentAt, answeredAt: answeredAt, requestedAt: requestedAt)
    }

    private func follow<News>(_ response: EndpointResponse<News>, of clientID: String, sentAt: Timestamp, answeredAt: Timestamp) {
        breakers.forgetProofs(after: answeredAt)
        guard let kind = response.kind else { return }
        telemetry.answered(kind, at: answeredAt, of: app.name, lane)
        switch response.answer {
        case .news(let news): if news.provesClient { resume(clientID) }
        case .misconfigured(let error): pause(clientID, because: error, sentAt: sentAt, answeredAt: answeredAt)
        case .throttled(let retryAfter): slowDown(retryAfter ?? .seconds(30), sentAt: sentAt, answeredAt: answeredAt)
        case .unavailable(_, _, let retryAfter):
            slowDown(retryAfter, sentAt: sentAt, answeredAt: answeredAt)
            return telemetry.appleFailed(app.name, lane, kind, at: answeredAt)
        }
        telemetry.appleAnswered(app.name, lane, at: answeredAt)
    }

    private func slowDown(_ retryAfter: Duration?, sentAt: Timestamp, answeredAt: Timestamp) {
        budgets[0].slowDown(askedAt: sentAt, at: answeredAt)
        if let retryAfter { budgets[0].pause(for: min(retryAfter, longestPause), at: answeredAt) }
    }

    private func resume(_ clientID: String) {
        let all = budgets + otherLanes
        guard all.map({ $0.pauses.accept(clientID) }).contains(true) else { return }
        telemetry.clientResumed(app.name, client: clientID, isAnyBlamed: all.contains(where: \.pauses.isAnyBlamed))
    }

    private func pause(_ clientID: String, because error: String, sentAt: Timestamp, answeredAt: Timestamp) {
        // While no client of the app has had a 200, Apple may be refusing the key or the team, which all clients share.
        let isNoneProven = breakers.unproven(app.clientIDs, at: answeredAt) == app.clientIDs
        let others = isNoneProven ? app.clientIDs : []
        let pauses = budgets.enumerated().map { index, budget in
            budget.pauses.blame(clientID, and: others, isForeign: index > 0, askedAt: sentAt, at: answeredAt)
        }
        if let pause = pauses.first ?? nil { telemetry.appPaused(app.name, client: clientID, error: error, pause: pause) }
    }
}
