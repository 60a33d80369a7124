// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Decides about the requests that an app's revocation limit holds, one portion at a time, and then lifts it.
struct RevocationLimitRelease<Connection: TableConnection> {
    let connection: Connection
    let directory: ClientDirectory
    let decisions: DecisionBook

    private var row: RevocationLimitRow<Connection> { RevocationLimitRow(connection: connection, decisions: decisions) }

    /// - Parameter count: how many requests the operator knows of, oldest first. Nil for all that wait now.
    func begin(_ app: Int64, isConfirmed: Bool, count: Int?, at now: Timestamp) throws -> (OperatorAnswer, ReleasePosition?) {
        let limit = try row.loadRight(app, at: now)
        guard let reachedAt = limit.reachedAt else { return (.limitNotReached, nil) }
        let held: SQL = "SELECT id FROM revocation_queue WHERE \(try isHeld(app)) ORDER BY id LIMIT \(count ?? .max)"
        let rows = try connection.fetchOne("SELECT COUNT(*), MAX(id) FROM (\(held)) AS found")
        let released = rows?.int(at: 0) ?? 0
        let position = ReleasePosition(
            app: app,
            upTo: rows?.integer(at: 1) ?? 0,
            left: released,
            isConfirmed: isConfirmed,
            reachedAt: reachedAt,
            process: decisions.process
        )
        return (.revocationsReleased(count: released, left: max(limit.held - released, 0)), position)
    }

    /// Takes its locks in the order of the settlements: requests, breaker, and last the tail. Nil when the release is done.
    func goOn(from position: ReleasePosition, at now: Timestamp) throws -> ReleasePosition? {
        guard decisions.goesOn(with: position.process) else { return nil }
        let dialect = connection.dialect
        let portion = min(ReleasePosition.portion, position.left)
        let ids = try connection.fetchAll(
            """
            SELECT id FROM revocation_queue WHERE \(try isHeld(position.app)) AND id <= \(position.upTo)
             ORDER BY id LIMIT \(portion) \(dialect.skipLocked)
            """
        ).map { $0.integer(at: 0) }
        // A settlement reads the revocation limit under this lock.
        _ = try connection.fetchOne("SELECT app FROM breaker WHERE app = \(position.app) \(dialect.forUpdate)")
        try connection.lockSettlements()
        // The limit may have been lifted since, and reached anew.
        var limit = try row.loadRight(position.app, at: now)
        guard limit.reachedAt == position.reachedAt else { return nil }
        try decide(ids, as: position, at: now)
        var next = position
        next.left -= ids.count
        let isDone = ids.count < portion || next.left == 0
        limit.held = max(limit.held - ids.count, 0)
        if isDone, try !connection.exists("SELECT 1 FROM revocation_queue WHERE \(isHeld(position.app))") { limit = RevocationLimit() }
        try row.save(limit, of: position.app)
        return isDone ? nil : next
    }

    private func decide(_ ids: [Int64], as position: ReleasePosition, at now: Timestamp) throws {
        let isOne = try connection.dialect.isOne("id", of: ids)
        if position.isConfirmed { return try confirm(isOne, at: now) }
        try connection.execute(
            """
            INSERT INTO revocation_log (request, app, client_id, user_id, requested_at, settled_at, outcome, reason)
            SELECT id, (SELECT name FROM app WHERE id = \(position.app)), client_id, user_id, requested_at, \(now),
                   \(RevocationOutcome.rejected.rawValue), \(RevocationRejection.dropped.rawValue)
              FROM revocation_queue WHERE \(isOne) ORDER BY id
            """
        )
        try connection.execute("DELETE FROM revocation_queue WHERE \(isOne)")
        try connection.add(ids.count, to: Queue.revocation.removedCounter)
    }

    private func confirm(_ isOne: SQL, at now: Timestamp) throws {
        let rows = try connection.fetchAll("SELECT id, client_id, user_id, requested_at FROM revocation_queue WHERE \(isOne) ORDER BY id")
        let confirmed = rows.map { row in
            let (id, client, user) = (row.integer(at: 0), row.bytes(at: 1), row.bytes(at: 2))
            let decision = Decision.confirmation(request: id, clientID: client, userID: user, requestedAt: row[3], at: now)
            return bound(id, now, now, decisions.proof(of: decision))
        }
        try connection.execute(.confirmRequests, confirmed)
    }

    private func isHeld(_ app: Int64) throws -> SQL {
        "held_at IS NOT NULL AND \(try connection.dialect.isOne("client_id", of: directory.clients(of: app).map(\.clientID)))"
    }
}

/// How far a release has come. The requests that were decided are gone from those that wait.
struct ReleasePosition: Codable {
    var app: Int64
    /// The last request that the operator decides about. Later ones wait for another word.
    var upTo: Int64
    /// How many of them are still to be decided about. Somebody may have put other ones into their place.
    var left: Int
    var isConfirmed: Bool
    /// Since when the limit holds requests. A release does not go on beyond that.
    var reachedAt: Timestamp
    /// The process that has begun.
    var process: Int64

    /// Rows per transaction. Settlements wait only briefly for so few.
    static let portion = 500
}

extension RowStatement {
    fileprivate static let confirmRequests = update(
        "revocation_queue",
        key: ["id"],
        ["confirmed_at", "due_at", "confirmed_proof"],
        others: ", held_at = NULL"
    )
}
