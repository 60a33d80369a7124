// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableStore {
    package func credentialCounts() async throws -> [CredentialCount] {
        try await query { connection in
            try connection.fetchAll(
                """
                SELECT app.name, credential_count.state, credential_count.count
                  FROM credential_count JOIN app ON app.id = credential_count.app
                 ORDER BY app.name, credential_count.state
                """
            ).map { CredentialCount(app: $0.text(at: 0) ?? "", state: $0.text(at: 1) ?? "", count: $0.count(at: 2)) }
        }
    }

    package func unverifiedCredentials() async throws -> [String: Int] {
        try await query { connection in
            try connection.fetchAll("SELECT name, unverified FROM app").reduce(into: [:]) { $0[$1.text(at: 0) ?? ""] = $1.int(at: 1) }
        }
    }

    package func checks() async throws -> CheckStatus {
        try await query { connection in
            func counter(_ name: String) throws -> Connection.Row? {
                try connection.fetchOne("SELECT value FROM counter WHERE name = $1", name)
            }
            return CheckStatus(
                answered: try counter(CheckCounter.answered)?.int(at: 0) ?? 0,
                lastAnsweredAt: try counter(CheckCounter.answeredAt)?.time(at: 0),
                failed: try counter(CheckCounter.failed)?.int(at: 0) ?? 0,
                lastFailedAt: try counter(CheckCounter.failedAt)?.time(at: 0)
            )
        }
    }

    package func apps() async throws -> [AppStatus] {
        // A fleet asks with each renewal of a lease, so this is a short query.
        try await shortQuery { connection in
            try connection.fetchAll(
                """
                SELECT name, paused_at, pending, admitted, missed, never_accepted, foreign_tokens, revocations_braked_at, revocations_held,
                       ended, unproven
                  FROM app ORDER BY name
                """
            ).map {
                var status = AppStatus(
                    app: $0.text(at: 0) ?? "",
                    pausedAt: $0.time(at: 1),
                    rejections: AppStatus.Rejections(
                        pending: $0.count(at: 2),
                        admitted: $0.count(at: 3),
                        withoutNotification: $0.count(at: 4)
                    ),
                    neverAccepted: $0.count(at: 5),
                    foreignTokens: $0.count(at: 6),
                    revocationsBrakedAt: $0.time(at: 7),
                    revocationsHeld: $0.count(at: 8)
                )
                (status.ended, status.unproven) = ($0.count(at: 9), $0.count(at: 10))
                return status
            }
        }
    }

    package func clients() async throws -> [ClientStatus] {
        try await query { connection in
            try connection.fetchValues(
                """
                SELECT app.name AS app, client.client_id AS "clientID", client.valid_at AS "validAt"
                  FROM client JOIN app ON app.id = client.app
                 ORDER BY app.name, client.client_id
                """
            )
        }
    }

    package func breakers() async throws -> [String: RejectionBreaker] {
        // A fleet asks with each renewal of a lease, so this is a short query.
        try await shortQuery { connection in
            let rows = try connection.fetchAll(
                "SELECT app.name, state FROM breaker JOIN app ON app.id = breaker.app WHERE state IS NOT NULL"
            )
            return rows.reduce(into: [:]) { breakers, row in
                // The age of an unreadable breaker is unknown: `RejectionBreaker.unread`.
                breakers[row.text(at: 0) ?? ""] = BreakerRow.read(row.text(at: 1))?.breaker(at: Timestamp(milliseconds: 0))
            }
        }
    }

    package func neverAcceptedTokens(
        of app: String,
        after last: CredentialID?,
        upTo limit: Int
    ) async throws -> [NeverAcceptedToken] {
        let columns = """
            client.client_id AS "clientID", c.user_id AS "userID", COALESCE(c.granted_at, c.token_granted_at) AS "grantedAt",
            c.token_granted_at AS "tokenGrantedAt"
            """
        let repeated = Self.page(
            of: "\(columns), c.rejected_at AS \"rejectedAt\", TRUE AS \"isRepeated\"",
            where: "c.never_accepted"
        )
        let pending = Self.page(
            of: "\(columns), c.pending_asked_at AS \"rejectedAt\", FALSE AS \"isRepeated\"",
            where: "c.pending_since IS NOT NULL AND c.verified_at IS NULL AND NOT c.never_accepted"
        )
        return try await query { connection in
            let tokens: [NeverAcceptedToken] = try [repeated, pending].flatMap { page in
                try connection.fetchValues(page, app, last?.userID ?? "", last?.clientID ?? "", limit)
            }
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
        let page = Self.page(
            of: """
                client.client_id AS "clientID", c.user_id AS "userID", c.token_granted_at AS "tokenGrantedAt",
                COALESCE(c.answered_at, c.token_granted_at) AS "answeredAt"
                """,
            where: condition
        )
        return try await query { connection in
            try connection.fetchValues(page, app, last?.userID ?? "", last?.clientID ?? "", limit)
        }
    }

    /// By user and client, each by its bytes, as the engines order text.
    private static func comesBefore(_ one: CredentialID, _ other: CredentialID) -> Bool {
        let (user, otherUser) = (one.userID.utf8, other.userID.utf8)
        return user.elementsEqual(otherUser)
            ? one.clientID.utf8.lexicographicallyPrecedes(other.clientID.utf8) : user.lexicographicallyPrecedes(otherUser)
    }

    /// SQL: up to `$4` credentials of the app `$1` that come after the user `$2` and the client `$3`.
    private static func page(of columns: String, where condition: String) -> String {
        """
        SELECT \(columns)
          FROM credential c JOIN client ON client.id = c.client
         WHERE c.app = (SELECT id FROM app WHERE name = $1) AND \(condition)
           AND c.user_id >= $2 AND (c.user_id > $2 OR client.client_id > $3)
         ORDER BY c.user_id, client.client_id LIMIT $4
        """
    }

    package func unknownCanaries(_ userIDs: [String], of app: String) async throws -> [String] {
        try await query { connection in
            try userIDs.filter { userID in
                try !connection.exists(
                    """
                    SELECT 1 FROM credential c JOIN app ON app.id = c.app
                     WHERE c.user_id = $1 AND app.name = $2 AND c.state = 'authorized' AND c.sealed_token IS NOT NULL
                    """,
                    userID,
                    app
                )
            }
        }
    }
}
