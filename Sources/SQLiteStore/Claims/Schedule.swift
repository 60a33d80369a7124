// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB

/// The checks of an app's clients in the order in which they are due. Those of clients that were taken out of the configuration are left
/// alone: Apple would blame us for them, and they may come back.
struct Schedule {
    let app: Int64
    let clients: [Int64]
    let policy: RefreshPolicy
    let now: Timestamp

    /// First checks before all others, up to a share, and what the others leave besides: there may be many, of tokens that are none.
    ///
    /// - Parameter quotas: by client, the most that are wanted.
    func next(upTo limit: Int, firstChecks share: Int, quotas: [Int64: Int], in db: Database) throws -> [ClaimableCredential] {
        func left(by taken: [ClaimableCredential]) -> [Int64: Int] {
            taken.reduce(into: quotas) { $0[$1.client]? -= 1 }
        }
        if share == 0 {
            let accepted = try accepted(upTo: limit, quotas: quotas, in: db)
            if !accepted.isEmpty { return accepted }
        }
        var first = try firstChecks(upTo: min(share, limit), quotas: quotas, in: db)
        let others = try due(of: clients, upTo: limit - first.count, quotas: left(by: first), in: db)
        if first.count == min(share, limit), first.count + others.count < limit {
            let known = Set(first.map(\.id))
            let more = try firstChecks(upTo: limit - others.count, quotas: left(by: others), in: db)
            first += more.filter { !known.contains($0.id) }
        }
        return Array(first.prefix(limit - others.count)) + others
    }

    /// Of tokens that Apple has accepted before, longest due first: what it says of those closes a breaker.
    private func accepted(upTo limit: Int, quotas: [Int64: Int], in db: Database) throws -> [ClaimableCredential] {
        try first(limit, of: clients, quotas) { client, limit in
            try ClaimableCredential.all(
                """
                SELECT user_id, client, attempts, due_at FROM credential
                 WHERE client = ?1 AND due_at <= ?2 AND verified_at IS NOT NULL AND NOT (\(waits)) ORDER BY due_at LIMIT ?4
                """,
                client,
                now,
                policy.repetition.milliseconds,
                limit,
                in: db
            )
        }
    }

    /// Of sign-ins that have just happened: whether Apple ever accepted the token has to be known while the user is still there.
    ///
    /// - Parameter quotas: by client, the most that are wanted.
    func firstChecks(upTo limit: Int, quotas: [Int64: Int], in db: Database) throws -> [ClaimableCredential] {
        try first(limit, of: clients, quotas) { client, limit in
            try ClaimableCredential.all(
                """
                SELECT user_id, client, attempts, due_at FROM credential INDEXED BY credential_first
                 WHERE client = ?1 AND first_check = 0 AND due_at <= ?2 ORDER BY due_at LIMIT ?3
                """,
                client,
                now,
                limit,
                in: db
            )
        }
    }

    /// All others, longest due first.
    ///
    /// - Parameter quotas: by client, the most that are wanted.
    func due(of clients: [Int64], upTo limit: Int, quotas: [Int64: Int], in db: Database) throws -> [ClaimableCredential] {
        try first(limit, of: clients, quotas) { client, limit in
            try ClaimableCredential.all(
                """
                SELECT user_id, client, attempts, due_at FROM credential
                 WHERE client = ?1 AND due_at <= ?2 AND first_check IS NOT 0 AND NOT (\(waits)) ORDER BY due_at LIMIT ?4
                """,
                client,
                now,
                policy.repetition.milliseconds,
                limit,
                in: db
            )
        }
    }

    private func first(
        _ limit: Int,
        of clients: [Int64],
        _ quotas: [Int64: Int],
        _ due: (_ client: Int64, _ limit: Int) throws -> [ClaimableCredential]
    ) throws -> [ClaimableCredential] {
        guard limit > 0 else { return [] }
        let all = try clients.filter { quotas[$0] ?? 1 > 0 }.flatMap { try due($0, min(limit, quotas[$0] ?? limit)) }
        return clients.count == 1 ? all : Array(all.sorted { $0.dueAt < $1.dueAt }.prefix(limit))
    }

    /// A rejection that could not be believed when its time had come waits on, until the daily check. By then all others have been asked
    /// about, so that Apple has accepted one of them in between.
    private let waits = "pending_since IS NOT NULL AND answered_at + ?3 > ?2 AND answered_at <= ?2"

    /// Only a clock that has been set back, or a shorter interval, leaves a due time out there.
    private var furthest: Timestamp { now.advanced(by: policy.longestDelay) }

    func mustBeRepaired(in db: Database) throws -> Bool {
        let late = try PreparedStatement("SELECT 1 FROM credential WHERE client = ? AND due_at > ? LIMIT 1", in: db)
        let waiting = try PreparedStatement(
            "SELECT 1 FROM credential INDEXED BY credential_pending_due WHERE app = ?1 AND due_at <= ?2 AND \(waits) LIMIT 1",
            in: db
        )
        return try clients.contains { try late.first($0, furthest) { _ in true } ?? false }
            || waiting.first(app, now, policy.repetition.milliseconds) { _ in true } ?? false
    }

    func repair(in db: Database) throws {
        for client in clients {
            try db.execute(
                cached: """
                    UPDATE credential SET due_at = ?2
                     WHERE (user_id, client) IN (SELECT user_id, client FROM credential WHERE client = ?1 AND due_at > ?2 LIMIT 1000)
                    """,
                [client, furthest.milliseconds]
            )
        }
        try db.execute(
            cached: """
                UPDATE credential SET due_at = answered_at + ?3, claimed_by = NULL
                 WHERE (user_id, client) IN (SELECT user_id, client FROM credential INDEXED BY credential_pending_due
                                              WHERE app = ?1 AND due_at <= ?2 AND \(waits) LIMIT 1000)
                """,
            [app, now.milliseconds, policy.repetition.milliseconds]
        )
    }
}

/// A row of `credential` that may be claimed.
struct ClaimableCredential {
    var userID: String
    var client: Int64
    var attempts: Int
    var dueAt: Timestamp

    var id: ID { ID(userID: userID, client: client) }

    struct ID: Hashable {
        var userID: String
        var client: Int64
    }

    /// - Parameter sql: selects `user_id, client, attempts, due_at`.
    static func all<each Value: BindableValue>(_ sql: String, _ values: repeat each Value, in db: Database) throws -> [Self] {
        var found: [Self] = []
        try PreparedStatement(sql, in: db).forEachRow(repeat each values) { row in
            found.append(
                Self(
                    userID: row.text(at: 0) ?? "",
                    client: row.integer(at: 1),
                    attempts: Int(row.integer(at: 2)),
                    dueAt: Timestamp(milliseconds: row.integer(at: 3))
                )
            )
        }
        return found
    }
}
