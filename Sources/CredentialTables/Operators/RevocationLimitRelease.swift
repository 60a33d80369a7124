// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Decides about the requests that an app's revocation limit holds, one portion at a time, and then lifts it.
struct RevocationLimitRelease<Connection: TableConnection> {
    let connection: Connection

    /// - Parameter count: how many requests the operator knows of, oldest first. Nil for all that wait now.
    func begin(_ app: Int64, isConfirmed: Bool, count: Int?) throws -> (OperatorAnswer, ReleasePosition?) {
        guard let limit = try RevocationLimitRow.load(app, on: connection), limit.reachedAt != nil else { return (.limitNotReached, nil) }
        let held: SQL = "SELECT id FROM revocation_queue WHERE \(isHeld(app)) ORDER BY id LIMIT \(count ?? .max)"
        let rows = try connection.fetchOne("SELECT COUNT(*), MAX(id) FROM (\(held)) AS found")
        let released = rows?.int(at: 0) ?? 0
        let position = ReleasePosition(app: app, upTo: rows?.integer(at: 1) ?? 0, isConfirmed: isConfirmed)
        return (.revocationsReleased(count: released, left: max(limit.held - released, 0)), position)
    }

    /// Takes its locks in the order of the settlements: requests, breaker, and last the tail. Nil when the release is done.
    func goOn(from position: ReleasePosition, at now: Timestamp) throws -> ReleasePosition? {
        let dialect = connection.dialect
        let ids = try connection.fetchAll(
            """
            SELECT id FROM revocation_queue WHERE \(isHeld(position.app)) AND id <= \(position.upTo)
             LIMIT \(sql: ReleasePosition.portion) \(dialect.skipLocked)
            """
        ).map { $0.integer(at: 0) }
        // A settlement reads the revocation limit under this lock.
        _ = try connection.fetchOne("SELECT app FROM breaker WHERE app = \(position.app) \(dialect.forUpdate)")
        try connection.lockSettlements()
        try decide(ids, as: position, at: now)
        guard var limit = try RevocationLimitRow.load(position.app, on: connection) else { return nil }
        let isDone = ids.count < ReleasePosition.portion
        limit.held = max(limit.held - ids.count, 0)
        if isDone, try !connection.exists("SELECT 1 FROM revocation_queue WHERE \(isHeld(position.app))") { limit = RevocationLimit() }
        try RevocationLimitRow.save(limit, of: position.app, on: connection)
        return isDone ? nil : position
    }

    private func decide(_ ids: [Int64], as position: ReleasePosition, at now: Timestamp) throws {
        let isOne = try connection.dialect.isOne("id", of: ids)
        if position.isConfirmed {
            try connection.execute("UPDATE revocation_queue SET confirmed_at = \(now), held_at = NULL, due_at = \(now) WHERE \(isOne)")
            return
        }
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

    private func isHeld(_ app: Int64) -> SQL { "held_at IS NOT NULL AND client_id IN (SELECT client_id FROM client WHERE app = \(app))" }
}

/// How far a release has come. The requests that were decided are gone from those that wait.
struct ReleasePosition: Codable {
    var app: Int64
    /// The last request that the operator decides about. Later ones wait for another word.
    var upTo: Int64
    var isConfirmed: Bool

    /// Rows per transaction. Settlements wait only briefly for so few.
    static let portion = 500
}
