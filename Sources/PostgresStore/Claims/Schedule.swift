// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// The checks of an app's clients, in the order of their due times. Clients that the configuration no longer names are left out: Apple
/// would blame siwatch for them, and they may come back.
struct Schedule: CheckSchedule {
    let app: Int64
    let clients: [Int64]
    let policy: RefreshPolicy
    let now: Timestamp

    /// Passes over other checks, so it moves no floor.
    func accepted(upTo limit: Int, quotas: [Int64: Int], from connection: Connection) throws -> [ClaimableCredential] {
        guard limit > 0 else { return [] }
        let answers = try clients.filter { quotas[$0] ?? 1 > 0 }.map { client in
            try connection.send(
                """
                SELECT user_id, client, attempts, due_at FROM credential
                 WHERE client = $1 AND due_at <= $2 AND verified_at IS NOT NULL AND NOT (\(waits)) ORDER BY due_at LIMIT $4
                """,
                client,
                now,
                policy.repetition,
                min(limit, quotas[client] ?? limit)
            )
        }
        let found = try answers.flatMap { try connection.rows(of: $0).map { ClaimableCredential($0) } }
        return Array(found.sorted { $0.dueAt < $1.dueAt }.prefix(limit))
    }

    func firstChecks(upTo limit: Int, quotas: [Int64: Int], from connection: Connection) throws -> [ClaimableCredential] {
        try first(limit, of: clients, quotas, \.firstChecks, on: connection) { client, limit, floor in
            try connection.send(
                """
                SELECT user_id, client, attempts, due_at FROM credential
                 WHERE client = $1 AND first_check = 0 AND due_at BETWEEN $4 AND $2 ORDER BY due_at LIMIT $3
                """,
                client,
                now,
                limit,
                floor
            )
        }
    }

    func others(upTo limit: Int, quotas: [Int64: Int], from connection: Connection) throws -> [ClaimableCredential] {
        try due(of: clients, upTo: limit, quotas: quotas, on: connection)
    }

    /// All due checks except first checks, longest due first.
    ///
    /// - Parameter quotas: by client, the most checks to return.
    func due(of clients: [Int64], upTo limit: Int, quotas: [Int64: Int], on connection: Connection) throws -> [ClaimableCredential] {
        try first(limit, of: clients, quotas, \.schedules, on: connection) { client, limit, floor in
            try connection.send(
                """
                SELECT user_id, client, attempts, due_at FROM credential
                 WHERE client = $1 AND due_at BETWEEN $5 AND $2 AND first_check IS DISTINCT FROM 0 AND NOT (\(waits))
                 ORDER BY due_at LIMIT $4
                """,
                client,
                now,
                policy.repetition,
                limit,
                floor
            )
        }
    }

    /// The earliest due checks of all clients, in the order of their due times.
    ///
    /// - Parameters:
    ///   - kind: the kind of checks, by its floors.
    ///   - send: asks for the due checks of a client, up to a limit and from a time on.
    private func first(
        _ limit: Int,
        of clients: [Int64],
        _ quotas: [Int64: Int],
        _ kind: WritableKeyPath<ClaimFloors, [Int64: ClaimFloor<Timestamp>]>,
        on connection: Connection,
        _ send: (_ client: Int64, _ limit: Int, _ floor: Timestamp) throws -> Connection.Answer
    ) throws -> [ClaimableCredential] {
        let clients = clients.filter { quotas[$0] ?? 1 > 0 }
        guard limit > 0, !clients.isEmpty else { return [] }
        let answers = try clients.map { client in
            let floor = connection.floors[keyPath: kind][client, default: ClaimFloor()].begin(at: now) ?? Timestamp(milliseconds: 0)
            return try send(client, min(limit, quotas[client] ?? limit), floor)
        }
        let found = try answers.map { try connection.rows(of: $0).map { ClaimableCredential($0) } }
        let due = clients.count == 1 ? found[0] : Array(found.flatMap(\.self).sorted { $0.dueAt < $1.dueAt }.prefix(limit))
        let end = due.count < limit ? now : due[limit - 1].dueAt
        for (client, found) in zip(clients, found) {
            // A client with a quota may have more due checks than this asked for.
            let last = quotas[client].flatMap { found.count < $0 ? nil : found.last?.dueAt }
            connection.floors[keyPath: kind][client]?.end(at: now, from: found.first?.dueAt, upTo: last.map { min($0, end) } ?? end)
        }
        return due
    }

    /// A rejection that siwatch could not believe when it was due waits until the daily check. By then siwatch has asked about all other
    /// credentials, and knows whether Apple has accepted any.
    private let waits = "(pending_since IS NOT NULL AND answered_at + $3 > $2 AND answered_at <= $2)"

    /// Only a clock that was set back, or a shorter interval, leaves a due time beyond this.
    private var furthest: Timestamp { now.advanced(by: policy.longestDelay) }

    /// Brings back checks with a due time too far ahead, and moves the rejections that wait for the daily check to it. Writes nothing if
    /// there are none.
    func sendRepairs(on connection: Connection) throws {
        for client in clients {
            try connection.send(
                """
                UPDATE credential c SET due_at = $2
                  FROM (SELECT user_id, client FROM credential WHERE client = $1 AND due_at > $2
                         ORDER BY due_at, user_id LIMIT 1000 FOR UPDATE SKIP LOCKED) late
                 WHERE c.user_id = late.user_id AND c.client = late.client
                """,
                client,
                furthest
            )
        }
        try connection.send(
            """
            UPDATE credential c SET due_at = c.answered_at + $3, claimed_by = NULL
              FROM (SELECT user_id, client FROM credential WHERE app = $1 AND due_at <= $2 AND \(waits)
                     ORDER BY due_at, user_id LIMIT 1000 FOR UPDATE SKIP LOCKED) waiting
             WHERE c.user_id = waiting.user_id AND c.client = waiting.client
            """,
            app,
            now,
            policy.repetition
        )
    }
}
