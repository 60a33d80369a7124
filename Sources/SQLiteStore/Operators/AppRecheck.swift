// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// Brings the checks of all users of an app forward, a portion at a time: in their order, spread over as long as the app's limit asks.
struct AppRecheck {
    let db: Database
    let rules: RecheckRules

    func begin(_ app: Int64, credentials: Int, at now: Timestamp) throws -> RecheckPosition {
        RecheckPosition(
            app: app,
            clients: try db.clients(ofApp: app),
            credentials: credentials,
            head: try db.headOfSchedule(ofApp: app),
            under: rules,
            at: now
        )
    }

    /// Of how many credentials Apple has answered so recently that they have to wait, and would be asked about later without the recheck.
    func countTooSoon(_ app: Int64, at now: Timestamp) throws -> Int {
        let earliest = now.advanced(by: .zero - rules.interval)
        // Those whose token was rejected, and those whose rejection waits.
        let rejected = try Int.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT (SELECT COUNT(*) FROM credential
                             WHERE app = ?1 AND sealed_token IS NOT NULL AND rejected_at IS NOT NULL AND due_at IS NULL
                               AND answered_at > ?2 AND answered_at <= ?3)
                         + (SELECT COUNT(*) FROM credential
                             WHERE app = ?1 AND pending_since IS NOT NULL AND claimed_by IS NULL
                               AND answered_at > ?2 AND answered_at <= ?3)
                    """
            ),
            arguments: [app, earliest.milliseconds, now.milliseconds]
        )
        // A check follows an answer after an interval at the soonest: no others have to be looked at.
        return try db.clients(ofApp: app).reduce(rejected ?? 0) { count, client in
            let waiting = try Int.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT COUNT(*) FROM credential
                         WHERE client = ?1 AND due_at IS NOT NULL AND due_at > ?2 AND claimed_by IS NULL AND pending_since IS NULL
                           AND answered_at > ?3 AND answered_at <= ?4 AND due_at > answered_at + ?5
                        """
                ),
                arguments: [
                    client, earliest.advanced(by: rules.refreshInterval).milliseconds, earliest.milliseconds, now.milliseconds,
                    rules.interval.milliseconds,
                ]
            )
            return count + (waiting ?? 0)
        }
    }

    /// - Returns: nil once it is done.
    func goOn(from position: RecheckPosition) throws -> RecheckPosition? {
        var position = position
        let rows = try position.isPastRejected ? scheduled(position) : rejected(position)
        for row in rows { try bringForward(row, &position) }
        let last = rows.last.map { RecheckPosition.Last(at: $0[0], userID: $0[1], client: $0[2]) }
        return position.passed(rows.count, last: last) ? position : nil
    }

    private func rejected(_ position: RecheckPosition) throws -> [Row] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT rejected_at, user_id, client, answered_at, claimed_by IS NOT NULL, due_at, pending_since IS NOT NULL
                      FROM credential
                     WHERE app = ?1 AND sealed_token IS NOT NULL AND rejected_at IS NOT NULL
                       AND (rejected_at, user_id, client) > (?2, ?3, ?4)
                     ORDER BY rejected_at, user_id, client LIMIT \(RecheckPosition.portion)
                    """
            ),
            arguments: [position.app, position.last?.at ?? 0, position.last?.userID ?? "", position.last?.client ?? 0]
        )
    }

    private func scheduled(_ position: RecheckPosition) throws -> [Row] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT due_at, user_id, client, answered_at, claimed_by IS NOT NULL, due_at, pending_since IS NOT NULL
                      FROM credential
                     WHERE client = ?1 AND due_at IS NOT NULL AND due_at >= ?2 AND (due_at, user_id) > (?2, ?3)
                     ORDER BY due_at, user_id LIMIT \(RecheckPosition.portion)
                    """
            ),
            arguments: [position.clients.first, position.last?.at ?? position.start.milliseconds, position.last?.userID ?? ""]
        )
    }

    private func bringForward(_ row: Row, _ position: inout RecheckPosition) throws {
        let (userID, client): (String, Int64) = (row[1], row[2])
        let slot = position.slot(
            dueAt: row.time(at: 5),
            answeredAt: row.time(at: 3),
            isPending: row[6],
            isBeingAsked: row[4],
            under: rules
        )
        guard let slot else { return }
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
