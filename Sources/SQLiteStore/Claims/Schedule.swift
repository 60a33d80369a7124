// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB

/// The checks of an app's clients, in the order of their due times. Clients that the configuration no longer names are left out: Apple
/// would blame siwatch for them, and they may come back.
struct Schedule: CheckSchedule {
    let app: Int64
    let clients: [Int64]
    let policy: RefreshPolicy
    let now: Timestamp

    func accepted(upTo limit: Int, quotas: [Int64: Int], from db: Database) throws -> [ClaimableCredential] {
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

    func firstChecks(upTo limit: Int, quotas: [Int64: Int], from db: Database) throws -> [ClaimableCredential] {
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

    func others(upTo limit: Int, quotas: [Int64: Int], from db: Database) throws -> [ClaimableCredential] {
        try due(of: clients, upTo: limit, quotas: quotas, in: db)
    }

    /// All due checks except first checks, longest due first.
    ///
    /// - Parameter quotas: by client, the most checks to return.
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

    /// A rejection that siwatch could not believe when it was due waits until the daily check. By then siwatch has asked about all other
    /// credentials, and knows whether Apple has accepted any.
    private let waits = "pending_since IS NOT NULL AND answered_at + ?3 > ?2 AND answered_at <= ?2"

    /// Only a clock that was set back, or a shorter interval, leaves a due time beyond this.
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
        let connection = SQLiteConnection(db)
        for client in clients {
            try connection.execute(
                """
                UPDATE credential SET due_at = $2
                 WHERE (user_id, client) IN (SELECT user_id, client FROM credential WHERE client = $1 AND due_at > $2 LIMIT 1000)
                """,
                client,
                furthest
            )
        }
        try PreparedStatement(
            """
            UPDATE credential SET due_at = answered_at + ?3, claimed_by = NULL
             WHERE (user_id, client) IN (SELECT user_id, client FROM credential INDEXED BY credential_pending_due
                                          WHERE app = ?1 AND due_at <= ?2 AND \(waits) LIMIT 1000)
            """,
            in: db
        ).run(app, now, policy.repetition)
    }
}

extension ClaimableCredential {
    /// - Parameter sql: selects `user_id, client, attempts, due_at`.
    static func all<each Value: BindableValue>(_ sql: String, _ values: repeat each Value, in db: Database) throws -> [Self] {
        var found: [Self] = []
        try PreparedStatement(sql, in: db).forEachRow(repeat each values) { found.append(Self($0)) }
        return found
    }
}
