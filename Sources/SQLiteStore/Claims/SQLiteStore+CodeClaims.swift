// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import GRDB
import NIOConcurrencyHelpers

/// Grants with an authorization code. Few wait at any time, because codes expire soon.
extension SQLiteStore {
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
        // siwatch chooses before it takes the write lock, so that no backend waits for the choice.
        let rows = try await read { db in
            let waiting = try Self.clientsOfCodes(besides: apps.keys, in: db).flatMap { name in
                let client = String(validating: name, as: UTF8.self)
                let app = client.flatMap { apps[$0] }
                let mayBeSent = min(app.flatMap { permits[$0] } ?? limit, client.flatMap { quotas[$0] } ?? limit) > 0
                return try WaitingCode.due(of: name, client, app, onlyLate: !mayBeSent, upTo: limit, at: now, in: db)
            }
            let chosen = WaitingCode.choose(waiting, upTo: limit, permits: permits, quotas: quotas, at: now)
            return Claim.claimable(chosen, suspects: suspects)
        }
        guard !rows.isEmpty else { return [] }
        return try await write { [owner] db in
            let take = try PreparedStatement(
                """
                UPDATE grant_queue
                   SET due_at = ?1, attempts = MIN(MAX(attempts, 0), 1000) + 1, claimed_by = ?2, waits_since = MIN(COALESCE(waits_since, ?3), ?3)
                 WHERE id = ?4
                RETURNING attempts, granted_at, waits_since, MIN(MAX(failures, 0), 1000), answer_lost, CAST(detail AS BLOB),
                          CAST(client_id AS BLOB), CAST(user_id AS BLOB), CAST(authorization_code AS BLOB),
                          CAST(redirect_uri AS BLOB), CAST(nonce AS BLOB)
                """,
                in: db
            )
            return try rows.compactMap { id in
                try take.first(now.advanced(by: lease), owner, now, id) { ClaimedCode($0, from: 0, id: id, owner: owner, apps: apps) }
            }
        }
    }

    /// The clients with waiting codes, as backends wrote them. One search finds each client, however many codes it has.
    private static func clientsOfCodes(besides known: some Sequence<String>, in db: Database) throws -> [[UInt8]] {
        var clients: [[UInt8]] = []
        try PreparedStatement(
            """
            WITH RECURSIVE named (client_id) AS (
              SELECT MIN(client_id) FROM grant_queue WHERE authorization_code IS NOT NULL
               UNION ALL
              SELECT (SELECT MIN(client_id) FROM grant_queue WHERE authorization_code IS NOT NULL AND client_id > named.client_id)
                FROM named WHERE named.client_id IS NOT NULL)
            SELECT CAST(client_id AS BLOB) FROM named WHERE client_id IS NOT NULL LIMIT ?
            """,
            in: db
        ).forEachRow(WaitingCode.mostClients) { row in clients.append(row.bytes(at: 0)) }
        // A list full of unknown clients must not hide a known one.
        return clients.count < WaitingCode.mostClients ? clients : Array(Set(clients).union(known.map { [UInt8]($0.utf8) }))
    }
}

extension WaitingCode {
    /// The due codes of a client, nearest deadline first, in each order of the queue: new codes, repeated codes, and codes dated by a clock
    /// that has since been set back.
    ///
    /// - Parameter onlyLate: whether to return only codes whose time is over.
    fileprivate static func due(
        of name: [UInt8],
        _ client: String?,
        _ app: String?,
        onlyLate: Bool,
        upTo limit: Int,
        at now: Timestamp,
        in db: Database
    ) throws -> [WaitingCode] {
        var codes: [WaitingCode] = []
        let of = "authorization_code IS NOT NULL AND client_id = CAST(?1 AS TEXT)"
        let columns = "id, attempts, granted_at, waits_since"
        let isWanted = "MIN(granted_at, COALESCE(waits_since, granted_at)) <= ?4"
        try PreparedStatement(
            """
            SELECT id, attempts, granted_at, MIN(granted_at, COALESCE(waits_since, granted_at)) FROM (
              SELECT * FROM (SELECT \(columns) FROM grant_queue
                              WHERE \(of) AND due_at = 0 AND granted_at <= ?4 ORDER BY granted_at, id LIMIT ?5)
               UNION ALL
              SELECT * FROM (SELECT \(columns) FROM grant_queue
                              WHERE \(of) AND due_at < 0 AND \(isWanted) ORDER BY due_at LIMIT ?5)
               UNION ALL
              SELECT * FROM (SELECT \(columns) FROM grant_queue
                              WHERE \(of) AND due_at > 0 AND due_at <= ?2 AND \(isWanted) ORDER BY due_at LIMIT ?5)
               UNION ALL
              SELECT * FROM (SELECT \(columns) FROM grant_queue
                              WHERE \(of) AND due_at > ?3 AND \(isWanted) ORDER BY due_at LIMIT ?5))
            """,
            in: db
        ).forEachRow(name, now, furthest(at: now), onlyLate ? latest(at: now) : Int64.max, limit) {
            codes.append(WaitingCode($0, client: client, app: app))
        }
        return codes
    }
}
