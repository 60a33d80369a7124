// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What an operator asks of whoever holds the lock on the database, as a row of its own.
package enum OperatorRequest: Codable, Sendable, Equatable {
    /// Asks Apple nothing more about the users of an app, until it is resumed.
    case pause(app: String)
    case resume(app: String)
    /// The rejections of an app's tokens are real: closes its breaker and believes them.
    case confirmRejections(app: String)
    /// Closes an app's breaker and forgets what it has seen.
    case resetBreaker(app: String)
    /// Asks Apple about one user out of turn.
    case recheckUser(String)
    /// Asks Apple about all users of an app out of turn.
    case recheckApp(String)
    /// Puts notifications from the quarantine back into their queue, as if received at the given time where there is one.
    case retryQuarantined([Int64], receivedAt: Timestamp?)
    case dropQuarantined([Int64])

    /// Quarantined notifications that one request may name: its transaction keeps others waiting.
    package static let mostQuarantined = 1000
    /// How old a request may be. Nobody waits for the answer to an older one, and it may not be meant any more.
    package static let expiry = Duration.seconds(60)
}

extension OperatorRequest {
    /// The name by which logs know it.
    package var name: String {
        switch self {
        case .pause: "pause"
        case .resume: "resume"
        case .confirmRejections: "breaker confirm"
        case .resetBreaker: "breaker reset"
        case .recheckUser, .recheckApp: "recheck"
        case .retryQuarantined: "quarantine retry"
        case .dropQuarantined: "quarantine drop"
        }
    }

    package var app: String? {
        switch self {
        case .pause(let app), .resume(let app), .recheckApp(let app), .confirmRejections(let app), .resetBreaker(let app): app
        case .recheckUser, .retryQuarantined, .dropQuarantined: nil
        }
    }

    package var userID: String? {
        switch self {
        case .recheckUser(let userID): userID
        case .pause, .resume, .confirmRejections, .resetBreaker, .recheckApp, .retryQuarantined, .dropQuarantined: nil
        }
    }
}

/// What became of a request.
package enum OperatorAnswer: Codable, Sendable, Equatable {
    /// The app is paused, and since when: it may have been already.
    case paused(since: Timestamp)
    case resumed(wasPaused: Bool)
    /// This many rejections are believed now.
    case rejectionsConfirmed(pending: Int, wasOpen: Bool)
    /// The breaker is closed, no rejection waits, and there were not too many lately.
    case nothingToConfirm
    case breakerReset(wasOpen: Bool)
    case rechecking(Recheck)
    /// This many credentials at most are asked about, spread out from now on. Of those `tooSoon` Apple has answered too recently: they wait
    /// until it may be asked again.
    case recheckingApp(credentials: Int, tooSoon: Int, requestsPerSecond: Int, isPaused: Bool)
    /// What the quarantine gave up, and the ids it does not hold.
    case quarantine(moved: Int, missing: [Int64])
    case unknownApp(known: [String])
    case unknownUser
    case expired
    /// A newer siwatch wrote it, or somebody by hand.
    case notUnderstood
    case refused(String)

    /// One user's credentials, by what a recheck does to them.
    package struct Recheck: Codable, Sendable, Equatable {
        /// Apple is asked as soon as the limits of the app allow.
        package var due = 0
        /// Apple has answered too recently, and when that is over for the first of them.
        package var tooSoon = 0
        package var soonest: Timestamp?
        /// There is no token to ask about.
        package var withoutToken = 0
        /// Apps of the user that are paused: they are asked about once they are resumed.
        package var pausedApps: [String] = []

        package init() {}
    }
}

/// The limits of a recheck.
package struct RecheckRules: Sendable {
    /// At most one out-of-turn question per credential in this time.
    package var interval: Duration
    /// How many credentials of an app become due in a second where all of them are asked about.
    package var requestsPerSecond: Int
    /// The soonest that a check follows an answer.
    package var refreshInterval: Duration

    package init(refreshInterval: Duration, requestsPerSecond: Int) {
        self.refreshInterval = refreshInterval
        interval = min(refreshInterval, .seconds(3600))
        self.requestsPerSecond = max(requestsPerSecond, 1)
    }
}
