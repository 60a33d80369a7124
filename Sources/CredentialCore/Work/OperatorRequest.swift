// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// An operator's request to the process that holds the lock on the database, as a row of its own. The cases' names stand in that row, as
/// JSON, and in the log event `operator_request_answered`.
package enum OperatorRequest: Codable, Sendable, Equatable {
    /// Stops the checks and revocations of an app until it is resumed.
    case pause(app: String)
    case resume(app: String)
    /// Closes an app's breaker and believes its rejections, because the operator says that they are real.
    case confirmRejections(app: String)
    /// Closes an app's breaker and forgets its answers.
    case resetBreaker(app: String)
    /// Carries out as many of the requests that an app's revocation limit holds, oldest first. Later ones may be of another kind.
    case confirmRevocations(app: String, count: Int)
    /// Rejects all requests that an app's revocation limit holds.
    case dropRevocations(app: String)
    case recheckUser(String)
    case recheckApp(String)
    /// Puts notifications from the quarantine back into their queue. `receivedAt` replaces their time of arrival, unless it is nil.
    case retryQuarantined([Int64], receivedAt: Timestamp?)
    case dropQuarantined([Int64])
    case forget(ErasureRequest)
    /// Takes back one portion of the import of this name.
    case undoImport(String)

    /// The most quarantined notifications that one request may name, because its transaction keeps others waiting.
    package static let mostQuarantined = 1000
    /// siwatch reads no longer text of a request, which a writer of the file may have put there. A search for a user names many rows.
    package static let mostBytes = 4 << 20
    /// The oldest age of a request. Nobody waits for the answer to an older one, and the operator may not mean it any more.
    package static let expiry = Duration.seconds(60)

    package var name: String { caseName(of: self) }

    /// Whether the request erases, so that its own row must not keep the user's name.
    package var isErasure: Bool { if case .forget = self { true } else { false } }

    private enum Sequel { case erasedTokens, changedPauses, workLeft, nothing }

    private var sequel: Sequel {
        switch self {
        case .forget, .undoImport: .erasedTokens
        case .pause, .resume, .confirmRejections, .resetBreaker: .changedPauses
        case .recheckApp, .confirmRevocations, .dropRevocations: .workLeft
        case .recheckUser, .retryQuarantined, .dropQuarantined: .nothing
        }
    }

    package var erasesTokens: Bool { sequel == .erasedTokens }
    /// Whether it changes breakers or pauses, which a running siwatch keeps in memory.
    package var changesPauses: Bool { sequel == .changedPauses }
    /// Whether work is left after the answer, which a running siwatch does in portions.
    package var goesOn: Bool { sequel == .workLeft }

    package var app: String? {
        switch self {
        case .pause(let app), .resume(let app), .recheckApp(let app), .confirmRejections(let app), .resetBreaker(let app),
            .confirmRevocations(let app, _), .dropRevocations(let app):
            app
        case .forget(let request): request.app
        case .recheckUser, .retryQuarantined, .dropQuarantined, .undoImport: nil
        }
    }

    package var userID: String? {
        if case .recheckUser(let userID) = self { return userID }
        if case .forget(let request) = self { return request.userID }
        return nil
    }
}

/// The cases' names stand in the request's row, as JSON, and in the log event `operator_request_answered`.
package enum OperatorAnswer: Codable, Sendable, Equatable {
    /// The app is paused since this time, which may be earlier than the request.
    case paused(since: Timestamp)
    case resumed(wasPaused: Bool)
    /// The rejections of so many users are believed now, and those of so many more once Apple repeats them.
    case rejectionsConfirmed(now: Int, next: Int, wasOpen: Bool, isPaused: Bool)
    /// The breaker is closed, every rejection is believed, and rejections were not out of proportion lately.
    case nothingToConfirm
    case breakerReset(wasOpen: Bool)
    /// This many requests are decided. The revocation limit is lifted once it holds none.
    case revocationsReleased(count: Int, left: Int)
    case limitNotReached
    case rechecking(Recheck)
    /// At most this many credentials are asked about, spread out from now on; `tooSoon` of them wait until Apple may be asked again.
    case recheckingApp(credentials: Int, tooSoon: Int, requestsPerSecond: Int, isPaused: Bool)
    /// How many notifications left the quarantine, and the ids that it does not hold.
    case quarantine(moved: Int, missing: [Int64])
    case forgotten(Erasure)
    case importUndone(UndoneImport)
    /// The user is signed in to these apps, so siwatch has forgotten nothing.
    case stillAuthorized(apps: [String])
    /// These rows of the user are not settled, so siwatch has forgotten nothing.
    case stillWaiting([WaitingRow])
    case unknownApp(known: [String])
    case unknownUser
    case expired
    /// A newer siwatch wrote the request, or a person by hand.
    case notUnderstood
    case refused(String)

    package struct WaitingRow: Codable, Sendable, Equatable {
        package var table: String
        package var id: Int64

        package init(table: String, id: Int64) {
            self.table = table
            self.id = id
        }
    }

    package struct Recheck: Codable, Sendable, Equatable {
        /// Apple is asked as soon as the limits of the app allow.
        package var due = 0
        /// Apple's answer is too recent. `soonest` is the first time at which Apple may be asked again.
        package var tooSoon = 0
        package var soonest: Timestamp?
        package var withoutToken = 0
        /// The user's paused apps. siwatch asks about them once they are resumed.
        package var pausedApps: [String] = []
        /// Clients of tokens that nobody asks about, because the configuration does not name them. Nil if there are none.
        package var leftClients: [String]?

        package init() {}
    }
}

package struct RecheckRules: Sendable {
    package var interval: Duration
    package var requestsPerSecond: Int
    package var refreshInterval: Duration
    /// Those of the configuration, whose tokens alone are asked about; nil for all.
    package var clients: Set<String>?

    package init(refreshInterval: Duration, requestsPerSecond: Int, clients: Set<String>? = nil) {
        self.clients = clients
        self.refreshInterval = refreshInterval
        interval = min(refreshInterval, .seconds(3600))
        self.requestsPerSecond = max(requestsPerSecond, 1)
    }

    package func asks(about clientID: String) -> Bool { clients?.contains(clientID) ?? true }

    /// When Apple may be asked out of turn about a token; nil if now. An answer in the future came from a clock that has been set back.
    package func wait(afterAnswerAt answeredAt: Timestamp?, at now: Timestamp) -> Timestamp? {
        guard let answeredAt, answeredAt <= now, now < answeredAt.advanced(by: interval) else { return nil }
        return answeredAt.advanced(by: interval)
    }
}
