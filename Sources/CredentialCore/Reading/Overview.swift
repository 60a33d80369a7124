// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What the tables say, as of one snapshot. `status`, the page, the metrics and `doctor` read nothing else of them.
package struct Overview: Sendable {
    package var at: Timestamp
    /// The last sign of life of any siwatch. Nil if there is none.
    package var aliveAt: Timestamp?
    /// When `siwatch backup` last wrote a copy, or noted another program's. Nil if it never has.
    package var backedUpAt: Timestamp?
    package var queues: [QueueStatus] = []
    /// By queue, the notifications and sign-ins that could be taken now, counted up to `mostDue` for each lane.
    package var due: [String: Int] = [:]
    package var apps: [AppStatus] = []
    package var credentials: [CredentialCount] = []
    /// By app, the checks that are late by a minute or more, counted up to `mostOverdue`. A shorter wait is a wait for a permit.
    package var overdue: [String: Int] = [:]
    package var checks = CheckStatus()
    package var breakers: [String: RejectionBreaker] = [:]
    package var clients: [ClientStatus] = []
    /// By app and name, with their waiting work, counted up to `mostWaiting` of each kind.
    package var refusedClients: [RefusedClient] = []
    /// Canaries without a token that Apple could be asked about.
    package var unknownCanaries: [AppUserID] = []
    package var otherTeams: [OtherTeam] = []
    /// Of the last hour.
    package var rejectedSignIns: [RejectedSignIns] = []
    /// Apple's, and when siwatch last fetched them.
    package var signingKeys = 0
    package var signingKeysFetchedAt: Timestamp?
    package var sealed = SealedCounts()
    /// When the newest hundred verified notifications arrived, latest first.
    package var notifications: [Timestamp] = []
    package var backlog = Backlog()

    /// Figures that count row by row, so they are for rare questions.
    package struct Backlog: Sendable {
        package var waitingGrants = WaitingGrants()
        package var waitingRevocations = WaitingRevocations()
        package var quarantined: [String: Int] = [:]

        package init() {}
    }

    package struct Question: Sendable {
        package var at: Timestamp
        package var teams: [String: String]
        package var canaries: [String: [String]]
        /// The backlog as of a moment ago, which is not counted again.
        package var backlog: Backlog?

        package init(at: Timestamp, teams: [String: String] = [:], canaries: [String: [String]] = [:], backlog: Backlog? = nil) {
            (self.at, self.teams, self.canaries, self.backlog) = (at, teams, canaries, backlog)
        }
    }

    package static let mostDue = 1000
    package static let mostTokens = 1000
    package static let mostWaiting = 10_000
    package static let mostOverdue = 100_000

    package init(at: Timestamp) {
        self.at = at
    }
}

package struct QueueStatus: Sendable, Equatable, Codable {
    package var queue: String
    package var depth: Int
    /// The time of the oldest row, in milliseconds since 1970: of its arrival, its sign-in or its request.
    package var oldest: Int64?
    package var settled: Int

    package init(queue: String, depth: Int, oldest: Int64?, settled: Int = 0) {
        self.queue = queue
        self.depth = depth
        self.oldest = oldest
        self.settled = settled
    }
}

package struct CheckStatus: Sendable, Equatable, Codable {
    /// Checks that Apple answered about the token; `lastAnsweredAt` is the last of them.
    package var answered = 0
    package var lastAnsweredAt: Timestamp?
    /// Checks without an answer about the token: no connection, throttling, or a configuration that Apple refuses.
    package var failed = 0
    package var lastFailedAt: Timestamp?
}

package struct AppStatus: Sendable, Equatable, Codable {
    package var app: String
    package var pausedAt: Timestamp?
    /// Apple's rejections of tokens that wait to be believed.
    package var pending = 0
    /// Rejections that were believed at least an hour ago, over the life of the database; `missed` of them without a notification.
    package var admitted = 0, missed = 0
    /// Tokens that Apple rejects and has never accepted.
    package var neverAccepted = 0
    /// Tokens that Apple accepts as another user's.
    package var foreignTokens = 0
    /// Credentials with a token that Apple had not confirmed for three intervals when siwatch last asked.
    package var unverified = 0
    /// Since when the revocation limit holds the app's requests to revoke, and how many.
    package var revocationsHeldSince: Timestamp?
    package var revocationsHeld = 0
    /// Sign-ins of users whose end Apple has signed, and those that undid it and that nothing at Apple proves.
    package var ended = 0, unproven = 0

    package init(app: String, pausedAt: Timestamp? = nil) {
        self.app = app
        self.pausedAt = pausedAt
    }
}

/// A token, with the time of Apple's last answer about it.
package struct AnsweredToken: Sendable, Equatable, Codable {
    package var clientID: String
    package var userID: String
    /// The time of the newest sign-in, of a token that Apple rejects and has never accepted. Such a token says nothing of its user.
    package var grantedAt: Timestamp?
    package var tokenGrantedAt: Timestamp
    package var answeredAt: Timestamp
    /// Whether Apple has repeated the rejection of such a token. Until then the rejection is pending.
    package var isRepeated: Bool?

    package var credential: CredentialID { CredentialID(clientID: clientID, userID: userID) }
}

/// Sign-ins that stay in their queue because siwatch cannot take them yet.
package struct WaitingGrants: Sendable, Equatable, Codable {
    package var putOff: [PutOff] = []
    /// Sign-ins that wait for their code to be exchanged.
    package var withCode = 0
    package var oldestCode: Timestamp?
    /// How many of the codes end within a minute, by the life that Apple documents.
    package var codesEnding = 0

    package struct PutOff: Sendable, Equatable, Codable {
        package var clientID: String
        /// Whether they wait for the time of their date.
        package var isAhead: Bool
        package var count: Int
        /// Since when the first of them waits.
        package var since: Timestamp?
    }
}

/// Sign-ins of a client that nearly all come to nothing for one reason.
package struct RejectedSignIns: Sendable, Equatable, Codable {
    package var clientID: String
    /// A `GrantRejection`.
    package var reason: String
    package var rejected: Int
    /// All sign-ins that were settled meanwhile.
    package var settled: Int
}

/// How much work waits to be revoked.
package struct WaitingRevocations: Sendable, Equatable, Codable {
    package var requests = 0
    package var oldest: Timestamp?
    /// The tokens of the requests that are at work.
    package var tokens = 0
    /// The tokens that Apple was asked to revoke and still accepted.
    package var stillAccepted = 0
    /// The tokens that Apple rejected when first asked. The rejections are not believed yet.
    package var unbelieved = 0
    /// The newest receipts, at most twenty, and those of them without a token.
    package var newest = 0, newestWithoutToken = 0
}

package struct ClientStatus: Sendable, Equatable, Codable {
    package var app: String
    package var clientID: String
    /// When Apple last accepted a token or a code of the client.
    package var validAt: Timestamp?
    /// Whether the client has a token to ask Apple about.
    package var isScheduled: Bool
}

/// A client that Apple refuses, and its work that waits until Apple accepts it.
package struct RefusedClient: Sendable, Equatable, Codable {
    package var app: String
    package var clientID: String
    package var refusal: ClientRefusal
    package var codes: Int
    package var checks: Int
    package var revocations: Int

    package init(app: String, clientID: String, refusal: ClientRefusal, codes: Int, checks: Int, revocations: Int) {
        (self.app, self.clientID, self.refusal) = (app, clientID, refusal)
        (self.codes, self.checks, self.revocations) = (codes, checks, revocations)
    }
}

package struct CredentialCount: Sendable, Equatable, Codable {
    package var app: String
    package var state: String
    package var count: Int

    package init(app: String, state: String, count: Int) {
        (self.app, self.state, self.count) = (app, state, count)
    }
}

/// Tokens that Apple has accepted from a team that the configuration does not name: the app changed hands, or `team_id` is wrong.
package struct OtherTeam: Sendable, Equatable, Codable {
    package var app: String
    package var teamID: String
    /// The team from which Apple accepted the tokens.
    package var oldTeamID: String
    /// Counted up to `Overview.mostTokens`.
    package var tokens: Int

    package init(app: String, teamID: String, oldTeamID: String, tokens: Int) {
        (self.app, self.teamID, self.oldTeamID, self.tokens) = (app, teamID, oldTeamID, tokens)
    }
}
