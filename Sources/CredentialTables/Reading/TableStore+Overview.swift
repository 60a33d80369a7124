// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension TableStore {
    package func overview(_ question: Overview.Question) async throws -> Overview {
        let directory = self.directory.withLockedValue { $0 }
        return try await query { connection in
            let now = question.at
            var overview = Overview(at: now)
            overview.aliveAt = try connection.fetchOne("SELECT alive_at FROM heartbeat")?.time(at: 0)
            let backup = try connection.fetchOne("SELECT value FROM counter WHERE name = \(BackupCounter.writtenAt)")
            overview.backedUpAt = backup?.time(at: 0)
            overview.queues = try self.queues(in: connection)
            overview.due = try self.dueRows(at: now, upTo: Overview.mostDue, in: connection)
            overview.apps = try connection.apps()
            overview.breakers = try connection.breakers()
            overview.credentials = try connection.credentialCounts()
            let minuteAgo = now.advanced(by: .minutes(-1))
            overview.overdue = try connection.overdueCredentials(before: minuteAgo, upTo: Overview.mostOverdue, in: directory)
            overview.checks = try connection.checks() ?? overview.checks
            overview.clients = try connection.clients()
            overview.refusedClients = try connection.refusedClients(at: now, upTo: Overview.mostWaiting)
            overview.rejectedSignIns = try connection.rejectedSignIns(since: now.advanced(by: .hours(-1)))
            overview.notifications = try connection.newestNotifications(upTo: 100)
            let keys = try connection.fetchOne("SELECT COUNT(*), MAX(last_seen_at) FROM signing_key")
            (overview.signingKeys, overview.signingKeysFetchedAt) = (keys?.int(at: 0) ?? 0, keys?.time(at: 1))
            overview.sealed = try connection.sealedCounts()
            for (app, teamID) in question.teams.sorted(by: { $0.key < $1.key }) {
                let tokens = try connection.tokens(of: app, fromTeamsBesides: teamID, upTo: Overview.mostTokens)
                overview.otherTeams += tokens.sorted { $0.key < $1.key }.map { team, count in
                    OtherTeam(app: app, teamID: teamID, oldTeamID: team, tokens: min(count, Overview.mostTokens))
                }
                let unknown = try connection.unknownCanaries(question.canaries[app] ?? [], of: app)
                overview.unknownCanaries += unknown.map { AppUserID(app: app, userID: $0) }
            }
            if let backlog = question.backlog {
                overview.backlog = backlog
            } else {
                try connection.count(&overview.backlog.waitingGrants, at: now, upTo: Overview.mostWaiting)
                overview.backlog.waitingRevocations = try connection.waitingRevocations() ?? overview.backlog.waitingRevocations
                overview.backlog.quarantined = try connection.quarantineCounts()
            }
            return overview
        }
    }

    package func apps() async throws -> [AppStatus] {
        // A fleet asks for apps and breakers with each renewal of a lease.
        try await query(.short) { try $0.apps() }
    }

    package func breakers() async throws -> [String: RejectionBreaker] { try await query(.short) { try $0.breakers() } }

    package func clients() async throws -> [ClientStatus] { try await query { try $0.clients() } }

    package func overdueCredentials(before time: Timestamp, upTo limit: Int) async throws -> [String: Int] {
        let directory = self.directory.withLockedValue { $0 }
        return try await query { try $0.overdueCredentials(before: time, upTo: limit, in: directory) }
    }

    package func scheduledCredentials(of app: String) async throws -> Int {
        try await query { connection in
            try connection.count(
                """
                SELECT 1 FROM credential
                 WHERE due_at IS NOT NULL
                   AND client IN (SELECT client.id FROM client JOIN app ON app.id = client.app WHERE app.name = \(app))
                """
            )
        }
    }

    package func neverAcceptedTokens(of app: String, after last: CredentialID?, upTo limit: Int) async throws -> [AnsweredToken] {
        let columns = """
            client.client_id AS "clientID", c.user_id AS "userID", COALESCE(c.granted_at, c.token_granted_at) AS "grantedAt",
            c.token_granted_at AS "tokenGrantedAt"
            """
        let repeated = "\(columns), c.rejected_at AS \"answeredAt\", TRUE AS \"isRepeated\""
        let pending = "\(columns), c.pending_asked_at AS \"answeredAt\", FALSE AS \"isRepeated\""
        let isPending = "c.pending_since IS NOT NULL AND c.verified_at IS NULL AND NOT c.never_accepted"
        return try await query { connection in
            let tokens: [AnsweredToken] =
                try connection.fetchValues(Self.page(of: repeated, where: "c.never_accepted", app, after: last, upTo: limit))
                + connection.fetchValues(Self.page(of: pending, where: isPending, app, after: last, upTo: limit))
            return Array(tokens.sorted { Self.comesBefore($0.credential, $1.credential) }.prefix(limit))
        }
    }

    package func foreignTokens(of app: String, after last: CredentialID?, upTo limit: Int) async throws -> [AnsweredToken] {
        try await tokens(of: app, where: "c.answer = 'another_user'", after: last, upTo: limit)
    }

    package func doubtedTokens(of app: String, after last: CredentialID?, upTo limit: Int) async throws -> [AnsweredToken] {
        try await tokens(of: app, where: PendingRejection.isDoubted, after: last, upTo: limit)
    }

    private func tokens(of app: String, where condition: String, after last: CredentialID?, upTo limit: Int) async throws
        -> [AnsweredToken]
    {
        let columns = """
            client.client_id AS "clientID", c.user_id AS "userID", c.token_granted_at AS "tokenGrantedAt",
            COALESCE(c.answered_at, c.token_granted_at) AS "answeredAt"
            """
        return try await query { try $0.fetchValues(Self.page(of: columns, where: condition, app, after: last, upTo: limit)) }
    }

    /// By user and client, each by its bytes, as the engines order text.
    private static func comesBefore(_ one: CredentialID, _ other: CredentialID) -> Bool {
        let (user, otherUser) = (one.userID.utf8, other.userID.utf8)
        return user.elementsEqual(otherUser)
            ? one.clientID.utf8.lexicographicallyPrecedes(other.clientID.utf8) : user.lexicographicallyPrecedes(otherUser)
    }

    /// Credentials of an app, by user and client.
    private static func page(of columns: String, where condition: String, _ app: String, after last: CredentialID?, upTo limit: Int) -> SQL
    {
        """
        SELECT \(sql: columns)
          FROM credential c JOIN client ON client.id = c.client
         WHERE c.app = (SELECT id FROM app WHERE name = \(app)) AND \(sql: condition)
           AND c.user_id >= \(last?.userID ?? "") AND (c.user_id > \(last?.userID ?? "") OR client.client_id > \(last?.clientID ?? ""))
         ORDER BY c.user_id, client.client_id LIMIT \(limit)
        """
    }
}
