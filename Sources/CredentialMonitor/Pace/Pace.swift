// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What an answer from Apple says about how fast to go on.
enum PaceSignal: Sendable, Equatable {
    /// A 200.
    case clear
    /// Apple blames our configuration.
    case blamed(String)
    case throttled(retryAfter: Duration?)
    /// No usable answer, of this kind.
    case unavailable(String, retryAfter: Duration?)
    /// An answer that says nothing of the pace.
    case other
    /// Apple was not asked.
    case unasked
}

extension PaceSignal {
    init<News>(_ response: EndpointResponse<News>) {
        self =
            switch response.answer {
            case .news(let news): news.provesClient ? .clear : .other
            case .misconfigured(let error): .blamed(error)
            case .throttled(let retryAfter): .throttled(retryAfter: retryAfter)
            // siwatch could not open the token, or could not sign.
            case .unavailable where response.identity.keyID.isEmpty: .unasked
            case .unavailable(let kind, _, let retryAfter): .unavailable(kind, retryAfter: retryAfter)
            }
    }
}

extension PaceSignal {
    /// What the answer says of the client. Nil if it says nothing, or if Apple was not asked because no client secret could be signed.
    ///
    /// - Parameter requestedAt: by Apple's clock.
    func clientAnswer(requestedAt: Timestamp) -> ClientAnswer? {
        switch self {
        case .clear: .accepted(at: requestedAt)
        case .blamed(let word): ClientRefusal.isWord(word) ? .refused(word: word, at: requestedAt) : nil
        case .throttled, .unavailable, .other, .unasked: nil
        }
    }
}

extension PaceSignal {
    /// As `LaneAnswer.kind`. Nil if Apple was not asked.
    fileprivate var kind: String? {
        switch self {
        case .clear: "200"
        case .blamed(let word): word
        case .throttled: "429"
        case .unavailable(let kind, _): kind
        case .other: "answered"
        case .unasked: nil
        }
    }
}

/// Adjusts how much Apple is asked: more, less or nothing.
struct Pace: Sendable {
    private let app: String
    private let lane: AskingLane
    private let clients: Set<String>
    /// The lane's own budget first.
    private let budgets: [RequestBudget]
    private let otherLanes: [RequestBudget]
    private let longestPause: Duration
    private let breakers: Breakers
    private let telemetry: Telemetry

    /// - Parameters:
    ///   - clients: all clients of the app.
    ///   - budgets: the lane's own first. All of them hear of blame, because it is about the configuration.
    ///   - otherLanes: budgets that hear only that Apple accepts a client.
    ///   - longestPause: limits `Retry-After`, so that one answer does not hold an app for hours. Apple may ask again after it.
    init(
        of app: String,
        lane: AskingLane,
        clients: Set<String>,
        budgets: [RequestBudget],
        otherLanes: [RequestBudget] = [],
        longestPause: Duration = .minutes(15),
        breakers: Breakers,
        telemetry: Telemetry
    ) {
        self.longestPause = longestPause
        self.app = app
        self.lane = lane
        self.clients = clients
        self.budgets = budgets
        self.otherLanes = otherLanes
        self.breakers = breakers
        self.telemetry = telemetry
    }

    func follow(_ signal: PaceSignal, of clientID: String, sentAt: Timestamp, answeredAt: Timestamp) {
        breakers.forgetProofs(after: answeredAt)
        if let kind = signal.kind { telemetry.answers.note(kind, at: answeredAt, of: app, lane) }
        switch signal {
        case .clear, .blamed, .throttled, .other: telemetry.appleAnswered(app, lane, at: answeredAt)
        case .unavailable(let kind, _): telemetry.appleFailed(app, lane, kind, at: answeredAt)
        case .unasked: break
        }
        switch signal {
        case .clear:
            let all = budgets + otherLanes
            guard all.map({ $0.resume(clientID) }).contains(true) else { break }
            telemetry.clientResumed(app, client: clientID, isAnyBlamed: all.contains(where: \.isAnyBlamed))
        case .blamed(let error):
            // While no client of the app has had a 200, Apple may be refusing the key or the team, which all clients share.
            let isNoneProven = breakers.unproven(clients, at: answeredAt) == clients
            let others = isNoneProven ? clients : []
            let pauses = budgets.enumerated().map { index, budget in
                budget.pause(clientID, and: others, isForeign: index > 0, askedAt: sentAt, at: answeredAt)
            }
            if let pause = pauses.first ?? nil { telemetry.appPaused(app, client: clientID, error: error, pause: pause) }
        case .throttled(let retryAfter):
            budgets[0].slowDown(askedAt: sentAt, at: answeredAt)
            budgets[0].pause(for: min(retryAfter ?? .seconds(30), longestPause), at: answeredAt)
        case .unavailable(_, let retryAfter):
            budgets[0].slowDown(askedAt: sentAt, at: answeredAt)
            if let retryAfter { budgets[0].pause(for: min(retryAfter, longestPause), at: answeredAt) }
        case .other, .unasked:
            break
        }
    }
}
