// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension EndpointResponse {
    /// What the answer says of the client. Nil if it says nothing, or if Apple was not asked because no client secret could be signed.
    ///
    /// - Parameter requestedAt: by Apple's clock.
    func clientAnswer(requestedAt: Timestamp) -> ClientAnswer? {
        switch answer {
        case .news(let news): news.provesClient ? .accepted(at: requestedAt) : nil
        case .misconfigured(let word): ClientRefusal.isWord(word) ? .refused(word: word, at: requestedAt) : nil
        case .throttled, .unavailable: nil
        }
    }

    /// As `LaneAnswer.kind`. Nil if Apple was not asked: siwatch could not open the token, or could not sign.
    fileprivate var kind: String? {
        switch answer {
        case .news(let news): news.provesClient ? "200" : "answered"
        case .misconfigured(let word): word
        case .throttled: "429"
        case .unavailable(let kind, _, _): identity.keyID.isEmpty ? nil : kind
        }
    }
}

/// Adjusts how much Apple is asked: more, less or nothing.
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
        self.app = app
        self.lane = lane
        self.context = context
        budgets = lane == .codes ? [app.codeBudget, app.budget] : [app.budget]
        otherLanes = lane == .codes ? [] : [app.codeBudget]
        longestPause = lane == .codes ? AuthorizationCode.longestWait : .minutes(15)
    }

    /// Goes by an answer.
    ///
    /// - Returns: what the answer says of the client.
    func follow<News>(_ response: EndpointResponse<News>, of clientID: String, sentAt: Timestamp, answeredAt: Timestamp) -> ClientAnswer? {
        breakers.forgetProofs(after: answeredAt)
        guard let kind = response.kind else { return nil }
        telemetry.answered(kind, at: answeredAt, of: app.name, lane)
        switch response.answer {
        case .news, .misconfigured, .throttled: telemetry.appleAnswered(app.name, lane, at: answeredAt)
        case .unavailable: telemetry.appleFailed(app.name, lane, kind, at: answeredAt)
        }
        switch response.answer {
        case .news(let news): if news.provesClient { resume(clientID) }
        case .misconfigured(let error): pause(clientID, because: error, sentAt: sentAt, answeredAt: answeredAt)
        case .throttled(let retryAfter):
            budgets[0].slowDown(askedAt: sentAt, at: answeredAt)
            budgets[0].pause(for: min(retryAfter ?? .seconds(30), longestPause), at: answeredAt)
        case .unavailable(_, _, let retryAfter):
            budgets[0].slowDown(askedAt: sentAt, at: answeredAt)
            if let retryAfter { budgets[0].pause(for: min(retryAfter, longestPause), at: answeredAt) }
        }
        let elapsed = policy.elapsed(from: sentAt, to: answeredAt)
        return response.clientAnswer(requestedAt: response.requestedAt(sentAt, elapsed: elapsed))
    }

    private func resume(_ clientID: String) {
        let all = budgets + otherLanes
        guard all.map({ $0.resume(clientID) }).contains(true) else { return }
        telemetry.clientResumed(app.name, client: clientID, isAnyBlamed: all.contains(where: \.isAnyBlamed))
    }

    private func pause(_ clientID: String, because error: String, sentAt: Timestamp, answeredAt: Timestamp) {
        // While no client of the app has had a 200, Apple may be refusing the key or the team, which all clients share.
        let isNoneProven = breakers.unproven(app.clientIDs, at: answeredAt) == app.clientIDs
        let others = isNoneProven ? app.clientIDs : []
        let pauses = budgets.enumerated().map { index, budget in
            budget.pause(clientID, and: others, isForeign: index > 0, askedAt: sentAt, at: answeredAt)
        }
        if let pause = pauses.first ?? nil { telemetry.appPaused(app.name, client: clientID, error: error, pause: pause) }
    }
}
