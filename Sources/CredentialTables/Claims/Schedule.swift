// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// The checks of an app's clients, in the order of their due times. Clients that the configuration no longer names are left out: Apple
/// would blame siwatch for them, and they may come back.
struct Schedule<Connection: TableConnection> {
    let app: Int64
    let clients: [Int64]
    let policy: RefreshPolicy
    let now: Timestamp

    /// The checks of tokens that Apple has accepted before, longest due first. Apple's answers about these close a breaker. Passes over
    /// other checks, so it is no search. Of each client at most its quota, here and below.
    func accepted(upTo limit: Int, quotas: [Int64: Int], on connection: Connection) throws -> [ClaimableCredential] {
        guard limit > 0 else { return [] }
        let answers = try clients.filter { quotas[$0] ?? 1 > 0 }.map { client in
            try connection.ask(
                """
                SELECT \(sql: ClaimableCredential.columns) FROM credential
                 WHERE client = \(client) AND due_at <= \(now) AND verified_at IS NOT NULL AND NOT (\(waits))
                 ORDER BY due_at LIMIT \(min(limit, quotas[client] ?? limit))
                """
            )
        }
        let found = try answers.flatMap { try connection.read($0) { ClaimableCredential($0) } }
        return Array(found.sorted { $0.dueAt < $1.dueAt }.prefix(limit))
    }

    /// The first checks of new sign-ins, longest due first. siwatch has to know whether Apple ever accepted the token while the user is still
    /// there.
    func firstChecks(upTo limit: Int, quotas: [Int64: Int], on connection: Connection) throws -> [ClaimableCredential] {
        try first(limit, of: clients, quotas, isFirst: true, on: connection) { client, limit, floor in
            try connection.ask(
                """
                SELECT \(sql: ClaimableCredential.columns) FROM credential \(connection.dialect.indexed(by: "credential_first"))
                 WHERE client = \(client) AND first_check = 0 AND due_at BETWEEN \(floor) AND \(now) ORDER BY due_at LIMIT \(limit)
                """
            )
        }
    }

    /// All due checks except first checks, longest due first.
    func due(of clients: [Int64], upTo limit: Int, quotas: [Int64: Int], on connection: Connection) throws -> [ClaimableCredential] {
        try first(limit, of: clients, quotas, isFirst: false, on: connection) { client, limit, floor in
            try connection.ask(
                """
                SELECT \(sql: ClaimableCredential.columns) FROM credential
                 WHERE client = \(client) AND due_at BETWEEN \(floor) AND \(now) AND first_check IS DISTINCT FROM 0 AND NOT (\(waits))
                 ORDER BY due_at LIMIT \(limit)
                """
            )
        }
    }

    /// The earliest due checks of all clients, in the order of their due times.
    private func first(
        _ limit: Int,
        of clients: [Int64],
        _ quotas: [Int64: Int],
        isFirst: Bool,
        on connection: Connection,
        _ ask: (_ client: Int64, _ limit: Int, _ floor: Timestamp) throws -> Connection.Answer
    ) throws -> [ClaimableCredential] {
        let clients = clients.filter { quotas[$0] ?? 1 > 0 }
        guard limit > 0, !clients.isEmpty else { return [] }
        let searches = clients.map { CheckSearch(client: $0, isFirst: isFirst) }
        let answers = try searches.map { search in
            try ask(search.client, min(limit, quotas[search.client] ?? limit), connection.begin(search, at: now))
        }
        let found = try answers.map { try connection.read($0) { ClaimableCredential($0) } }
        let due = clients.count == 1 ? found[0] : Array(found.flatMap(\.self).sorted { $0.dueAt < $1.dueAt }.prefix(limit))
        let end = due.count < limit ? now : due[limit - 1].dueAt
        for (search, found) in zip(searches, found) {
            // A client with a quota may have more due checks than this asked for.
            let last = quotas[search.client].flatMap { found.count < $0 ? nil : found.last?.dueAt }
            connection.end(search, at: now, from: found.first?.dueAt, upTo: last.map { min($0, end) } ?? end)
        }
        return due
    }

    /// A rejection that siwatch could not believe when it was due waits until the daily check. By then siwatch has asked about all other
    /// credentials, and knows whether Apple has accepted any.
    private var waits: SQL { "(pending_since IS NOT NULL AND answered_at + \(policy.repetition) > \(now) AND answered_at <= \(now))" }

    /// Only a clock that was set back, or a shorter interval, leaves a due time beyond this.
    private var furthest: Timestamp { now.advanced(by: policy.longestDelay) }

    /// Whether `repair` would write. A server need not ask before, because there it locks nobody out.
    func mustBeRepaired(on connection: Connection) throws -> Bool {
        guard connection.dialect == .sqlite else { return true }
        return try clients.contains { try connection.exists(late($0)) } || connection.exists(waiting(connection.dialect))
    }

    /// Brings back checks with a due time too far ahead, and moves the rejections that wait for the daily check to it.
    func repair(on connection: Connection) throws {
        let lock: SQL = "ORDER BY due_at, user_id LIMIT 1000 \(connection.dialect.skipLocked)"
        for client in clients {
            try connection.execute(
                """
                UPDATE credential AS c SET due_at = \(furthest) FROM (\(late(client)) \(lock)) AS found
                 WHERE c.user_id = found.user_id AND c.client = found.client
                """
            )
        }
        try connection.execute(
            """
            UPDATE credential AS c SET due_at = c.answered_at + \(policy.repetition), claimed_by = NULL
              FROM (\(waiting(connection.dialect)) \(lock)) AS found
             WHERE c.user_id = found.user_id AND c.client = found.client
            """
        )
    }

    private func late(_ client: Int64) -> SQL { "SELECT user_id, client FROM credential WHERE client = \(client) AND due_at > \(furthest)" }

    private func waiting(_ dialect: Dialect) -> SQL {
        """
        SELECT user_id, client FROM credential \(dialect.indexed(by: "credential_pending_due"))
         WHERE app = \(app) AND due_at <= \(now) AND \(waits)
        """
    }
}

/// A search for due checks of a client, which a server begins where the last one ended.
package struct CheckSearch: Sendable, Hashable {
    package let client: Int64
    package let isFirst: Bool
}

extension Schedule {
    /// The checks to claim next. First checks go before others, up to a share, because many new tokens may be invalid. They also take the
    /// places that other checks leave free. With a share of 0, tokens that Apple has accepted before go before all others.
    func next(upTo limit: Int, firstChecks share: Int, quotas: [Int64: Int], on connection: Connection) throws -> [ClaimableCredential] {
        func left(by taken: [ClaimableCredential]) -> [Int64: Int] { taken.reduce(into: quotas) { $0[$1.client]? -= 1 } }
        if share == 0 {
            let accepted = try accepted(upTo: limit, quotas: quotas, on: connection)
            if !accepted.isEmpty { return accepted }
        }
        var first = try firstChecks(upTo: min(share, limit), quotas: quotas, on: connection)
        let others = try due(of: clients, upTo: limit - first.count, quotas: left(by: first), on: connection)
        if first.count == min(share, limit), first.count + others.count < limit {
            let known = Set(first.map(\.id))
            let more = try firstChecks(upTo: limit - others.count, quotas: left(by: others), on: connection)
            first += more.filter { !known.contains($0.id) }
        }
        return Array(first.prefix(limit - others.count)) + others
    }
}

/// A row of `credential` that may be claimed. The client has its number in the tables.
struct ClaimableCredential: Sendable {
    var userID: String
    var client: Int64
    var attempts: Int
    var dueAt: Timestamp

    var id: ID { ID(userID: userID, client: client) }

    struct ID: Hashable {
        var userID: String
        var client: Int64
    }
}

extension TableStore {
    /// Claimed credentials and credentials that wait after a failure keep their due times. Claims repair an answer that a clock, set back
    /// since, has dated ahead.
    package func shortenSchedule(to policy: RefreshPolicy, at now: Timestamp) async throws {
        let clients = directory.withLockedValue { $0.clientsByID.keys.sorted() }
        for client in clients {
            try await repeatWhileFull { [portion] connection in
                let dialect = connection.dialect
                return try connection.change(
                    """
                    UPDATE credential AS c
                       SET due_at = \(dialect.greatest)(\(now) + (c.due_at - \(now)) % \(policy.interval),
                                                       COALESCE(c.answered_at, 0) + \(policy.interval))
                      FROM (SELECT user_id, client FROM credential
                             WHERE client = \(client) AND due_at IS NOT NULL AND due_at > \(now.advanced(by: policy.repetition))
                               AND claimed_by IS NULL
                               AND failures = 0 AND COALESCE(answered_at, 0) <= \(now)
                             \(dialect.lockOrder("user_id, client")) LIMIT \(sql: portion) \(dialect.skipLocked)) AS late
                     WHERE c.user_id = late.user_id AND c.client = late.client
                    """
                )
            }
        }
    }
}
