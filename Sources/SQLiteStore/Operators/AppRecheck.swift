// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// Brings the checks of all users of an app forward, a portion at a time: in their order, spread over as long as the app's limit asks.
struct AppRecheck {
    let db: Database
    let rules: RecheckRules

    /// How far it has come, for the next transaction or the next process.
    struct Position: Codable {
        var app: Int64
        /// When it was asked for.
        var start: Timestamp
        /// When the first is due: before whatever of the app is overdue by then.
        var first: Timestamp
        /// Those given a time so far.
        var number = 0
        /// Whose checks come next, by client. The rejected tokens that are still kept come before them all.
        var clients: [Int64]
        var isPastRejected = false
        var last: Last?

        struct Last: Codable {
            var at: Int64
            var userID: String
            var client: Int64
        }

        init(app: Int64, clients: [Int64], start: Timestamp, first: Timestamp) {
            self.app = app
            self.clients = clients
            self.start = start
            self.first = first
        }
    }

    /// Rows per transaction: short enough that no settlement waits for it.
    private static let portion = 500

    func begin(_ app: Int64, credentials: Int, at now: Timestamp) throws -> Position {
        let clients = try db.clients(ofApp: app)
        var first = now
        if let head = try db.headOfSchedule(ofApp: app), head < now {
            first = head.advanced(by: .zero - .seconds(1) * credentials / rules.requestsPerSecond)
        }
        return Position(app: app, clients: clients, start: now, first: first)
    }

    /// - Returns: nil once it is done.
    func goOn(from position: Position) throws -> Position? {
        var position = position
        let rows = try position.isPastRejected ? scheduled(position) : rejected(position)
        for row in rows {
            try bringForward(row, &position)
            position.last = Position.Last(at: row[0], userID: row[1], client: row[2])
        }
        if rows.count == Self.portion { return position }
        if position.isPastRejected { position.clients.removeFirst() }
        position.isPastRejected = true
        position.last = nil
        return position.clients.isEmpty ? nil : position
    }

    private func rejected(_ position: Position) throws -> [Row] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT rejected_at, user_id, client, answered_at, claimed_by IS NOT NULL, due_at FROM credential
                     WHERE app = ?1 AND sealed_token IS NOT NULL AND rejected_at IS NOT NULL
                       AND (rejected_at, user_id, client) > (?2, ?3, ?4)
                     ORDER BY rejected_at, user_id, client LIMIT \(Self.portion)
                    """
            ),
            arguments: [position.app, position.last?.at ?? 0, position.last?.userID ?? "", position.last?.client ?? 0]
        )
    }

    private func scheduled(_ position: Position) throws -> [Row] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT due_at, user_id, client, answered_at, claimed_by IS NOT NULL, due_at FROM credential
                     WHERE client = ?1 AND due_at IS NOT NULL AND due_at >= ?2 AND (due_at, user_id) > (?2, ?3)
                     ORDER BY due_at, user_id LIMIT \(Self.portion)
                    """
            ),
            arguments: [position.clients.first, position.last?.at ?? position.start.milliseconds, position.last?.userID ?? ""]
        )
    }

    /// `CredentialRecord.recheck`, where that is sooner; but those who have just signed in go before.
    private func bringForward(_ row: Row, _ position: inout Position) throws {
        let (userID, client, isBeingAsked): (String, Int64, Bool) = (row[1], row[2], row[4])
        let earliest = position.start.advanced(by: .zero - rules.interval)
        let dueAt = row.time(at: 5)
        guard !isBeingAsked, row.time(at: 3).map({ $0 <= earliest }) ?? true, position.isPastRejected || dueAt == nil else { return }
        let slot = position.first.advanced(by: .seconds(1) * position.number / rules.requestsPerSecond)
        position.number += 1
        if let dueAt, dueAt <= slot { return }
        try db.execute(
            cached: "UPDATE credential SET due_at = ? WHERE user_id = ? AND client = ?",
            [slot.milliseconds, userID, client]
        )
        try db.clearPending(userID, client)
    }
}

extension Database {
    func clients(ofApp app: Int64) throws -> [Int64] {
        try Int64.fetchAll(cachedStatement(sql: "SELECT id FROM client WHERE app = ? ORDER BY id"), arguments: [app])
    }

    /// When the check of an app that has waited longest was due, or the next is; nil where none is.
    func headOfSchedule(ofApp app: Int64) throws -> Timestamp? {
        try clients(ofApp: app).compactMap { client in
            try Int64.fetchOne(
                cachedStatement(sql: "SELECT due_at FROM credential WHERE client = ? AND due_at IS NOT NULL ORDER BY due_at LIMIT 1"),
                arguments: [client]
            )
        }.min().map(Timestamp.init(milliseconds:))
    }

    /// Takes back that a rejection waits to be believed: Apple is asked again.
    func clearPending(_ userID: String, _ client: Int64) throws {
        let isPending = try changed(
            cached: """
                UPDATE credential SET pending_since = NULL, pending_asked_at = NULL, pending_key = NULL
                 WHERE user_id = ? AND client = ? AND pending_since IS NOT NULL
                """,
            [userID, client]
        )
        guard isPending else { return }
        try execute(
            cached: "UPDATE app SET pending = pending - 1 WHERE id = (SELECT app FROM credential WHERE user_id = ? AND client = ?)",
            [userID, client]
        )
    }
}
