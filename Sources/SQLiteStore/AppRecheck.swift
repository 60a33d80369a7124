// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import GRDB

/// Brings the checks of all users of an app forward, a portion at a time: in their order, spread over as long as the app's limit asks.
struct AppRecheck {
    let db: Database
    let rules: RecheckRules

    /// How far it has come, for the next transaction or the next process.
    struct Position: Codable {
        var app: Int64
        var start: Timestamp
        /// Those given a time so far.
        var number = 0
        /// The rejected tokens that are still kept come first, then those with a check ahead.
        var isPastRejected = false
        var last: Last?

        struct Last: Codable {
            var at: Int64
            var userID: String
            var client: Int64
        }

        init(app: Int64, start: Timestamp) {
            self.app = app
            self.start = start
        }
    }

    /// Rows per transaction: short enough that no settlement waits for it.
    private static let portion = 500

    /// - Returns: nil once it is done.
    func goOn(from position: Position) throws -> Position? {
        var position = position
        let (column, condition) = position.isPastRejected ? ("due_at", "due_at >= ?2") : ("rejected_at", "sealed_token IS NOT NULL")
        let last = position.last ?? Position.Last(at: position.isPastRejected ? position.start.milliseconds : 0, userID: "", client: 0)
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT \(column), user_id, client, answered_at, claimed_by IS NOT NULL, due_at FROM credential
                     WHERE app = ?1 AND \(condition) AND \(column) IS NOT NULL AND (\(column), user_id, client) > (?2, ?3, ?4)
                     ORDER BY \(column), user_id, client LIMIT \(Self.portion)
                    """
            ),
            arguments: [position.app, last.at, last.userID, last.client]
        )
        for row in rows {
            try bringForward(row, &position)
            position.last = Position.Last(at: row[0], userID: row[1], client: row[2])
        }
        if rows.count == Self.portion { return position }
        if position.isPastRejected { return nil }
        position.isPastRejected = true
        position.last = nil
        return position
    }

    private func bringForward(_ row: Row, _ position: inout Position) throws {
        let (userID, client, isBeingAsked): (String, Int64, Bool) = (row[1], row[2], row[4])
        let earliest = position.start.advanced(by: .zero - rules.interval)
        let dueAt = row.time(at: 5)
        guard !isBeingAsked, row.time(at: 3).map({ $0 <= earliest }) ?? true, position.isPastRejected || dueAt == nil else { return }
        let slot = position.start.advanced(by: .seconds(1) * position.number / rules.requestsPerSecond)
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
