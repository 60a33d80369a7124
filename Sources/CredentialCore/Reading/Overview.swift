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
    /// How Apple answers the checks of tokens, over the life of the database.
    package var checks = CheckStatus()
    /// The breakers that have judged something, by app.
    package var breakers: [String: RejectionBreaker] = [:]
    /// Every client, by app and name.
    package var clients: [ClientStatus] = []
    /// By app and name, with their waiting work, counted up to `mostWaiting` of each kind.
    package var refusedClients: [RefusedClient] = []
    package var unknownCanaries: [UnknownCanary] = []
    package var otherTeams: [OtherTeam] = []
    /// Of the last hour.
    package var rejectedSignIns: [RejectedSignIns] = []
    /// Apple's, and when siwatch last fetched them.
    package var signingKeys = 0
    package var signingKeysFetchedAt: Timestamp?
    /// When the newest hundred verified notifications arrived, latest first.
    package var notifications: [Timestamp] = []
    package var backlog = Backlog()

    /// Figures that count row by row, so they are for rare questions.
    package struct Backlog: Sendable {
        package var waitingGrants = WaitingGrants()
        package var waitingRevocations = WaitingRevocations()
        /// Notifications in quarantine, by reason.
        package var quarantined: [String: Int] = [:]

        package init() {}
    }

    /// What a configuration asks.
    package struct Question: Sendable {
        package var at: Timestamp
        /// The team of each app, and its canaries.
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
