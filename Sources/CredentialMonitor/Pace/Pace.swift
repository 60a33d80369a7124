// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What an answer of Apple's says about how fast to go on.
enum RoadSign: Sendable, Equatable {
    /// A 200.
    case clear
    /// Our configuration is to blame.
    case blamed(String)
    case throttled(retryAfter: Duration?)
    case unavailable(retryAfter: Duration?)
    case none
}

extension RoadSign {
    init(_ response: RefreshResponse) {
        self =
            switch response.outcome {
            case .valid, .unnamed: .clear
            // A dead token answers `invalid_grant` whoever asks: it says nothing of our configuration.
            case .rejected, .ambiguous, .anotherUser: .none
            case .misconfigured(let error): .blamed(error)
            case .throttled(let retryAfter): .throttled(retryAfter: retryAfter)
            // A token that cannot be opened never came to Apple.
            case .unavailable where response.identity.keyID.isEmpty: .none
            case .unavailable(_, let retryAfter): .unavailable(retryAfter: retryAfter)
            }
    }

    init(_ response: ExchangeResponse) {
        self =
            switch response.outcome {
            case .issued: .clear
            case .refused: .none
            case .misconfigured(let error): .blamed(error)
            case .throttled(let retryAfter): .throttled(retryAfter: retryAfter)
            case .unavailable(_, _, let retryAfter): .unavailable(retryAfter: retryAfter)
            }
    }

    init(_ response: RevokeResponse) {
        self =
            switch response.outcome {
            // Whatever is sent there is answered with 200.
            case .accepted: .none
            case .misconfigured(let error): .blamed(error)
            case .throttled(let retryAfter): .throttled(retryAfter: retryAfter)
            case .unavailable(_, _, let retryAfter): .unavailable(retryAfter: retryAfter)
            }
    }
}

extension RoadSign {
    /// What it says of the client, for the store. Nil where it says nothing, and where Apple was never asked: that no client secret can be
    /// signed is no word of Apple's.
    ///
    /// - Parameter requestedAt: by Apple's clock.
    func clientAnswer(requestedAt: Timestamp) -> ClientAnswer? {
        switch self {
        case .clear: .accepted(at: requestedAt)
        case .blamed(let word): ClientRefusal.isWord(word) ? .refused(word: word, at: requestedAt) : nil
        case .throttled, .unavailable, .none: nil
        }
    }
}

/// Asks more, less or not at all from now on.
struct Pace: Sendable {
    private let app: String
    private let clients: Set<String>
    /// The lane's own first.
    private let budgets: [RequestBudget]
    private let longestPause: Duration
    private let breakers: Breakers
    private let telemetry: Telemetry

    /// - Parameters:
    ///   - clients: all of the app.
    ///   - budgets: the lane's own first. All of them hear of blame, because it is about the configuration.
    ///   - longestPause: where Apple asks for patience. One answer is not to hold an app for hours: after it Apple may ask again.
    init(
        of app: String,
        clients: Set<String>,
        budgets: [RequestBudget],
        longestPause: Duration = .minutes(15),
        breakers: Breakers,
        telemetry: Telemetry
    ) {
        self.longestPause = longestPause
        self.app = app
        self.clients = clients
        self.budgets = budgets
        self.breakers = breakers
        self.telemetry = telemetry
    }

    func follow(_ sign: RoadSign, of clientID: String, sentAt: Timestamp, answeredAt: Timestamp) {
        switch sign {
        case .clear:
            guard budgets.map({ $0.resume(clientID) }).contains(true) else { break }
            telemetry.clientResumed(app, client: clientID, isAnyBlamed: budgets.contains(where: \.isAnyBlamed))
        case .blamed(let error):
            // Where none of the app has had a 200, the key or the team may be to blame, which all share.
            let isNoneProven = breakers.unproven(clients, at: answeredAt) == clients
            let others = isNoneProven ? clients : []
            let pauses = budgets.enumerated().map { index, budget in
                budget.pause(clientID, and: others, isForeign: index > 0, askedAt: sentAt, at: answeredAt)
            }
            if let pause = pauses.first ?? nil { telemetry.appPaused(app, client: clientID, error: error, pause: pause) }
        case .throttled(let retryAfter):
            budgets[0].slowDown(askedAt: sentAt, at: answeredAt)
            budgets[0].pause(for: min(retryAfter ?? .seconds(30), longestPause), at: answeredAt)
        case .unavailable(let retryAfter):
            budgets[0].slowDown(askedAt: sentAt, at: answeredAt)
            if let retryAfter { budgets[0].pause(for: min(retryAfter, longestPause), at: answeredAt) }
        case .none:
            break
        }
    }
}
