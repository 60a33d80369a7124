// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import NIOConcurrencyHelpers

/// Grants with an authorization code. Few wait at any time, because codes expire soon.
extension PostgresStore {
    package func claimCodes(
        upTo limit: Int,
        permits: [String: Int],
        at now: Timestamp,
        lease: Duration,
        suspects: Bool,
        quotas: [String: Int]
    ) async throws -> [ClaimedCode] {
        guard limit > 0 else { return [] }
        let apps = directory.withLockedValue { $0 }.appNames
        return try await runClaim { [owner] connection in
            let answers = try Self.clientsOfCodes(besides: apps.keys, on: connection).map { client in
                let app = apps[client]
                let mayBeSent = min(app.flatMap { permits[$0] } ?? limit, quotas[client] ?? limit) > 0
                let answer = try Self.sendDueCodes(of: client, onlyLate: !mayBeSent, upTo: limit, at: now, on: connection)
                return (client: client, app: app, answer: answer)
            }
            let waiting = try answers.flatMap { client, app, answer in
                try connection.rows(of: answer).map { WaitingCode($0, client: client, app: app) }
            }
            let chosen = WaitingCode.choose(waiting, upTo: limit, permits: permits, quotas: quotas, at: now)
            let ids = Claim.claimable(chosen, suspects: suspects)
            guard !ids.isEmpty else { return [] }
            // Other replicas may have taken some of the codes meanwhile.
            let rows = try connection.rows(
                """
                WITH free AS (
                  SELECT id FROM grant_queue WHERE id = ANY($1) AND (due_at <= $2 OR due_at > $3) ORDER BY id FOR UPDATE SKIP LOCKED)
                UPDATE grant_queue q
                   SET due_at = $4, attempts = LEAST(GREATEST(q.attempts, 0), 1000) + 1, claimed_by = $5,
                       waits_since = LEAST(COALESCE(q.waits_since, $2), $2)
                  FROM free WHERE q.id = free.id AND q.id = ANY($1)
                RETURNING q.id, q.attempts, q.granted_at, q.waits_since, LEAST(GREATEST(q.failures, 0), 1000), q.answer_lost <> 0, q.detail,
                          q.client_id, q.user_id, q.authorization_code, q.redirect_uri, q.nonce
                """,
                ArrayOf(ids),
                now,
                WaitingCode.furthest(at: now),
                now.advanced(by: lease),
                owner
            )
            let codes = rows.map { ClaimedCode($0, from: 1, id: $0.integer(at: 0), owner: owner, apps: apps) }
            let places = Dictionary(uniqueKeysWithValues: ids.enumerated().map { ($1, $0) })
            return codes.sorted { places[$0.id]! < places[$1.id]! }
        }
    }

    /// The clients with waiting codes. One search finds each client, however many codes it has.
    private static func clientsOfCodes(besides known: some Sequence<String>, on connection: Connection) throws -> [String] {
        let clients = try connection.rows(
            """
            WITH RECURSIVE named AS (
              SELECT (SELECT MIN(client_id) FROM grant_queue WHERE authorization_code IS NOT NULL) AS client_id
               UNION ALL
              SELECT (SELECT MIN(client_id) FROM grant_queue WHERE authorization_code IS NOT NULL AND client_id > named.client_id)
                FROM named WHERE named.client_id IS NOT NULL)
            SELECT client_id FROM named WHERE client_id IS NOT NULL LIMIT $1
            """,
            WaitingCode.mostClients
        ).compactMap { $0.text(at: 0) }
        // A list full of unknown clients must not hide a known one.
        return clients.count < WaitingCode.mostClients ? clients : Array(Set(clients).union(known))
    }

    /// Asks for the due codes of a client, nearest deadline first, in each order of the queue: new codes, repeated codes, and codes dated
    /// by a clock that has since been set back.
    ///
    /// - Parameter onlyLate: whether to ask only for codes whose time is over.
    private static func sendDueCodes(
        of client: String,
        onlyLate: Bool,
        upTo limit: Int,
        at now: Timestamp,
        on connection: Connection
    ) throws -> Connection.Answer {
        let of = "authorization_code IS NOT NULL AND client_id = $1"
        let isWanted = "LEAST(granted_at, COALESCE(waits_since, granted_at)) <= $4"
        let columns = "id, attempts, granted_at, LEAST(granted_at, COALESCE(waits_since, granted_at)) AS lives_since"
        return try connection.send(
            """
            SELECT * FROM (
              (SELECT \(columns) FROM grant_queue WHERE \(of) AND due_at = 0 AND granted_at <= $4 ORDER BY due_at, granted_at, id LIMIT $5)
               UNION ALL
              (SELECT \(columns) FROM grant_queue WHERE \(of) AND due_at < 0 AND \(isWanted) ORDER BY due_at LIMIT $5)
               UNION ALL
              (SELECT \(columns) FROM grant_queue WHERE \(of) AND due_at > 0 AND due_at <= $2 AND \(isWanted) ORDER BY due_at LIMIT $5)
               UNION ALL
              (SELECT \(columns) FROM grant_queue WHERE \(of) AND due_at > $3 AND \(isWanted) ORDER BY due_at LIMIT $5)) due
            """,
            client,
            now,
            WaitingCode.furthest(at: now),
            onlyLate ? WaitingCode.latest(at: now) : Int64.max,
            limit
        )
    }
}
