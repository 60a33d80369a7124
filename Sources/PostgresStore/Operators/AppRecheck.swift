// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Brings the checks of all users of an app forward, a portion at a time.
struct AppRecheck {
    let connection: Connection
    let rules: RecheckRules

    func begin(_ app: Int64, credentials: Int, at now: Timestamp) throws -> RecheckPosition {
        RecheckPosition(
            app: app,
            clients: try connection.rows("SELECT id FROM client WHERE app = $1 ORDER BY id", app).map { $0.integer(at: 0) },
            credentials: credentials,
            head: try connection.headOfSchedule(ofApp: app),
            under: rules,
            at: now
        )
    }

    /// Of how many credentials Apple has answered so recently that they have to wait, and would be asked about later without the recheck.
    func countTooSoon(_ app: Int64, at now: Timestamp) throws -> Int {
        let earliest = now.advanced(by: .zero - rules.interval)
        // A check follows an answer after an interval at the soonest: no others have to be looked at.
        return try connection.rows(
            """
            SELECT (SELECT COUNT(*) FROM credential
                     WHERE app = $1 AND sealed_token IS NOT NULL AND rejected_at IS NOT NULL AND due_at IS NULL
                       AND answered_at > $2 AND answered_at <= $3)
                 + (SELECT COUNT(*) FROM credential
                     WHERE app = $1 AND pending_since IS NOT NULL AND claimed_by IS NULL AND answered_at > $2 AND answered_at <= $3)
                 + (SELECT COUNT(*) FROM client JOIN credential c ON c.client = client.id
                     WHERE client.app = $1 AND c.due_at IS NOT NULL AND c.due_at > $4 AND c.claimed_by IS NULL AND c.pending_since IS NULL
                       AND c.answered_at > $2 AND c.answered_at <= $3 AND c.due_at > c.answered_at + $5)
            """,
            app,
            earliest,
            now,
            earliest.advanced(by: rules.refreshInterval),
            rules.interval
        ).integer
    }

    /// - Returns: nil once it is done.
    func goOn(from position: RecheckPosition) throws -> RecheckPosition? {
        var position = position
        let rows = try position.isPastRejected ? scheduled(position) : rejected(position)
        var slots = RowArrays()
        rows.forEach { row in
            let slot = position.slot(
                dueAt: row.time(at: 5),
                answeredAt: row.time(at: 3),
                isPending: row.bool(at: 6),
                isBeingAsked: row.bool(at: 4),
                under: rules
            )
            if let slot { slots.append(row.text(at: 1) ?? "", row.integer(at: 2), slot, row.time(at: 5)) }
        }
        try bringForward(slots, of: position.app)
        let last = rows.last.map { RecheckPosition.Last(at: $0.integer(at: 0), userID: $0.text(at: 1) ?? "", client: $0.integer(at: 2)) }
        return position.passed(rows.count, last: last) ? position : nil
    }

    private func rejected(_ position: RecheckPosition) throws -> [Row] {
        try connection.rows(
            """
            SELECT rejected_at, user_id, client, answered_at, claimed_by IS NOT NULL, due_at, pending_since IS NOT NULL
              FROM credential
             WHERE app = $1 AND sealed_token IS NOT NULL AND rejected_at IS NOT NULL
               AND (rejected_at, user_id, client) > ($2, $3, $4)
             ORDER BY rejected_at, user_id, client LIMIT \(RecheckPosition.portion)
            """,
            position.app,
            position.last?.at ?? 0,
            position.last?.userID ?? "",
            position.last?.client ?? 0
        ).map { $0 }
    }

    private func scheduled(_ position: RecheckPosition) throws -> [Row] {
        try connection.rows(
            """
            SELECT due_at, user_id, client, answered_at, claimed_by IS NOT NULL, due_at, pending_since IS NOT NULL
              FROM credential
             WHERE client = $1 AND due_at IS NOT NULL AND due_at >= $2 AND (due_at, user_id) > ($2, $3)
             ORDER BY due_at, user_id LIMIT \(RecheckPosition.portion)
            """,
            position.clients.first,
            position.last?.at ?? position.start.milliseconds,
            position.last?.userID ?? ""
        ).map { $0 }
    }

    /// What is claimed meanwhile is being asked about, and comes back by itself; what was asked about and came back has a time of its own.
    private func bringForward(_ slots: RowArrays, of app: Int64) throws {
        guard slots.count > 0 else { return }
        let answer = try connection.send(
            """
            WITH free AS (
              SELECT c.user_id, c.client, c.pending_since IS NOT NULL AS was_pending, n.due_at
                FROM unnest($1, $2, $3, $4) AS n (user_id, client, due_at, was_due_at)
                JOIN credential c ON c.user_id = n.user_id AND c.client = n.client
               WHERE c.claimed_by IS NULL AND c.due_at IS NOT DISTINCT FROM n.was_due_at
               ORDER BY c.user_id, c.client FOR UPDATE OF c),
            moved AS (
              UPDATE credential c SET due_at = free.due_at, pending_since = NULL, pending_asked_at = NULL, pending_key = NULL
                FROM free WHERE c.user_id = free.user_id AND c.client = free.client)
            SELECT COUNT(*) FROM free WHERE was_pending
            """,
            slots.parameters
        )
        let pending = try connection.rows(of: answer).integer
        guard pending > 0 else { return }
        try connection.lockTail()
        try connection.send("UPDATE app SET pending = pending - $2 WHERE id = $1", app, pending)
    }
}

extension Connection {
    /// When the check of an app that has waited longest was due, or the next is; nil where none is.
    func headOfSchedule(ofApp app: Int64) throws -> Timestamp? {
        try rows(
            """
            SELECT MIN(h.due_at) FROM client CROSS JOIN LATERAL
                   (SELECT due_at FROM credential WHERE credential.client = client.id AND due_at IS NOT NULL ORDER BY due_at LIMIT 1) h
             WHERE client.app = $1
            """,
            app
        ).first?.time(at: 0)
    }
}
