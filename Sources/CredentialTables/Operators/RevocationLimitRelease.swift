// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Decides about the requests that an app's revocation limit holds, one portion at a time, and then lifts it.
struct RevocationLimitRelease<Connection: TableConnection> {
    let connection: Connection

    /// - Parameter count: how many requests the operator knows of, oldest first. Nil for all that wait now.
    func begin(_ app: Int64, isConfirmed: Bool, count: Int?) throws -> (OperatorAnswer, ReleasePosition?) {
        guard let revocationLimit = try RevocationLimitRow.load(app, on: connection), revocationLimit.reachedAt != nil else {
            return (.limitNotReached, nil)
        }
        let rows = try connection.fetchOne(
            "SELECT COUNT(*), MAX(id) FROM (SELECT id FROM revocation_queue WHERE \(Self.held) ORDER BY id LIMIT $2) AS found",
            app,
            count ?? .max
        )
        let released = rows?.int(at: 0) ?? 0
        let position = ReleasePosition(app: app, upTo: rows?.integer(at: 1) ?? 0, isConfirmed: isConfirmed)
        return (.revocationsReleased(count: released, left: max(revocationLimit.held - released, 0)), position)
    }

    /// Takes its locks in the order of the settlements: requests, breaker, and last the tail.
    ///
    /// - Returns: nil when the release is done.
    func goOn(from position: ReleasePosition, at now: Timestamp) throws -> ReleasePosition? {
        let dialect = connection.dialect
        let ids = try connection.fetchAll(
            "SELECT id FROM revocation_queue WHERE \(Self.held) AND id <= $2 LIMIT \(ReleasePosition.portion) \(dialect.skipLocked)",
            position.app,
            position.upTo
        ).map { $0.integer(at: 0) }
        // A settlement reads the revocation limit under this lock.
        _ = try connection.fetchOne("SELECT app FROM breaker WHERE app = $1 \(dialect.forUpdate)", position.app)
        try connection.lockSettlements()
        try decide(ids, as: position, at: now)
        guard var revocationLimit = try RevocationLimitRow.load(position.app, on: connection) else { return nil }
        let isDone = ids.count < ReleasePosition.portion
        revocationLimit.held = max(revocationLimit.held - ids.count, 0)
        if isDone, try !connection.exists("SELECT 1 FROM revocation_queue WHERE \(Self.held)", position.app) {
            revocationLimit = RevocationLimit()
        }
        try RevocationLimitRow.save(revocationLimit, of: position.app, on: connection)
        return isDone ? nil : position
    }

    private func decide(_ ids: [Int64], as position: ReleasePosition, at now: Timestamp) throws {
        let rows = connection.dialect.isOne("id", ofIntegers: "$1")
        let list = try JSONText.encode(ids)
        if position.isConfirmed {
            try connection.execute("UPDATE revocation_queue SET confirmed_at = $2, held_at = NULL, due_at = $2 WHERE \(rows)", list, now)
            return
        }
        try connection.execute(
            """
            INSERT INTO revocation_log (request, app, client_id, user_id, requested_at, settled_at, outcome, reason)
            SELECT id, (SELECT name FROM app WHERE id = $2), client_id, user_id, requested_at, $3, $4, $5
              FROM revocation_queue WHERE \(rows) ORDER BY id
            """,
            list,
            position.app,
            now,
            RevocationOutcome.rejected.rawValue,
            RevocationRejection.dropped.rawValue
        )
        try connection.execute("DELETE FROM revocation_queue WHERE \(rows)", list)
        try connection.add(ids.count, to: Queue.revocation.removedCounter)
    }

    /// SQL: the requests of the app `$1` that the revocation limit holds.
    private static var held: String { "held_at IS NOT NULL AND client_id IN (SELECT client_id FROM client WHERE app = $1)" }
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
