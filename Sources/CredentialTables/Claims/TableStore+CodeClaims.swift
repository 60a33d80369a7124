// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// Grants with an authorization code. Few wait at any time, because codes expire soon.
extension TableStore {
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
        return try await claim { connection -> [Int64]? in
            let answers = try connection.clientsOfCodes(besides: apps.keys).map { name in
                let client = String(validating: name, as: UTF8.self)
                let app = client.flatMap { apps[$0] }
                let mayBeSent = min(app.flatMap { permits[$0] } ?? limit, client.flatMap { quotas[$0] } ?? limit) > 0
                let answer = try connection.askDueCodes(of: name, onlyLate: !mayBeSent, upTo: limit, at: now)
                return (client: client, app: app, answer: answer)
            }
            let waiting = try answers.flatMap { client, app, answer in
                try connection.read(answer) { WaitingCode($0, client: client, app: app) }
            }
            let chosen = WaitingCode.choose(waiting, upTo: limit, permits: permits, quotas: quotas, at: now)
            let ids = Claim.claimable(chosen, suspects: suspects)
            return ids.isEmpty ? nil : ids
        } taking: { [owner = claimName()] connection, ids in
            let shared = bound(now, WaitingCode.furthest(at: now), now.advanced(by: lease), owner)
            let answer = try connection.ask(.takeCodes, ids.map { bound($0) }, shared)
            let codes = try connection.read(answer) { ClaimedCode($0, owner: owner, apps: apps) }
            let places = Dictionary(uniqueKeysWithValues: ids.enumerated().map { ($1, $0) })
            return codes.sorted { places[$0.id]! < places[$1.id]! }
        }
    }
}

extension TableConnection {
    /// The clients with waiting codes, as backends wrote them. One search finds each client, however many codes it has.
    fileprivate func clientsOfCodes(besides known: some Sequence<String>) throws -> [[UInt8]] {
        let clients = try fetchAll(
            """
            WITH RECURSIVE named AS (
              SELECT (SELECT MIN(client_id) FROM grant_queue WHERE authorization_code IS NOT NULL) AS client_id
               UNION ALL
              SELECT (SELECT MIN(client_id) FROM grant_queue WHERE authorization_code IS NOT NULL AND client_id > named.client_id)
                FROM named WHERE named.client_id IS NOT NULL)
            SELECT client_id FROM named WHERE client_id IS NOT NULL LIMIT \(WaitingCode.mostClients)
            """
        ).map { $0.bytes(at: 0) }
        // A list full of unknown clients must not hide a known one.
        return clients.count < WaitingCode.mostClients ? clients : Array(Set(clients).union(known.map { [UInt8]($0.utf8) }))
    }

    /// Asks for the due codes of a client, nearest deadline first, in each order of the queue: new codes, repeated codes, and codes dated
    /// by a clock that has since been set back. With `onlyLate` it asks for codes whose time is over.
    fileprivate func askDueCodes(of name: [UInt8], onlyLate: Bool, upTo limit: Int, at now: Timestamp) throws -> Answer {
        let client: SQL = String(validating: name, as: UTF8.self).map { "\($0)" } ?? "\(name)"
        let latest = onlyLate ? WaitingCode.latest(at: now) : Int64.max
        let livesSince: SQL = "\(dialect.least)(granted_at, COALESCE(waits_since, granted_at))"
        let isWanted: SQL = "\(livesSince) <= \(latest)"
        let codes: SQL = """
            SELECT id, attempts, granted_at, \(livesSince) AS lives_since FROM grant_queue
             WHERE authorization_code IS NOT NULL AND client_id = CAST(\(client) AS TEXT)
            """
        return try ask(
            """
            SELECT * FROM (\(codes) AND due_at = 0 AND granted_at <= \(latest) ORDER BY due_at, granted_at, id LIMIT \(limit)) AS found
             UNION ALL
            SELECT * FROM (\(codes) AND due_at < 0 AND \(isWanted) ORDER BY due_at LIMIT \(limit)) AS found
             UNION ALL
            SELECT * FROM (\(codes) AND due_at > 0 AND due_at <= \(now) AND \(isWanted) ORDER BY due_at LIMIT \(limit)) AS found
             UNION ALL
            SELECT * FROM (\(codes) AND due_at > \(WaitingCode.furthest(at: now)) AND \(isWanted) ORDER BY due_at LIMIT \(limit)) AS found
            """
        )
    }
}

extension RowStatement {
    private static let codeColumns = "detail, client_id, user_id, authorization_code, redirect_uri, nonce"

    /// Another claim may have taken a code meanwhile.
    fileprivate static let takeCodes = RowStatement(
        ["id"],
        shared: ["now", "furthest", "lease_end", "owner"],
        sqlite: """
            UPDATE grant_queue
               SET due_at = @lease_end, attempts = \(Dialect.sqlite.counted("attempts")) + 1, claimed_by = @owner,
                   waits_since = MIN(COALESCE(waits_since, @now), @now)
             WHERE id = @id AND (due_at <= @now OR due_at > @furthest)
            RETURNING id, attempts, granted_at, waits_since, \(Dialect.sqlite.counted("failures")), answer_lost <> 0, \(codeColumns)
            """,
        postgres: """
            WITH free AS (
              SELECT id FROM grant_queue WHERE id = ANY($1) AND (due_at <= @now OR due_at > @furthest) ORDER BY id FOR UPDATE SKIP LOCKED)
            UPDATE grant_queue q
               SET due_at = @lease_end, attempts = \(Dialect.postgres.counted("q.attempts")) + 1, claimed_by = @owner,
                   waits_since = LEAST(COALESCE(q.waits_since, @now), @now)
              FROM free WHERE q.id = free.id AND q.id = ANY($1)
            RETURNING q.id, attempts, granted_at, waits_since, \(Dialect.postgres.counted("failures")), answer_lost <> 0, \(codeColumns)
            """
    )
}
