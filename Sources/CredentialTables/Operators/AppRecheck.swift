// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Brings the checks of all users of an app forward, one portion at a time. Keeps their order, and spreads them as the app's limit asks.
struct AppRecheck<Connection: TableConnection> {
    let connection: Connection
    let rules: RecheckRules

    func begin(_ app: Int64, credentials: Int, at now: Timestamp) throws -> RecheckPosition {
        RecheckPosition(
            app: app,
            clients: try connection.clients(of: app, under: rules),
            credentials: credentials,
            head: try connection.headOfSchedule(of: app, under: rules),
            under: rules,
            at: now
        )
    }

    /// The number of credentials that must wait, because Apple answered about them less than an interval ago, and whose check would
    /// otherwise come later.
    func countTooSoon(_ app: Int64, at now: Timestamp) throws -> Int {
        let earliest = now.advanced(by: .zero - rules.interval)
        let clients = try connection.clients(of: app, under: rules)
        let isAsked = connection.dialect.isOne("client", ofIntegers: "$4")
        let asked = try JSONText.encode(clients)
        let rejected = try connection.count(
            """
            SELECT 1 FROM credential
             WHERE app = $1 AND sealed_token IS NOT NULL AND rejected_at IS NOT NULL AND due_at IS NULL
               AND answered_at > $2 AND answered_at <= $3 AND \(isAsked)
            """,
            app,
            earliest,
            now,
            asked
        )
        let pending = try connection.count(
            """
            SELECT 1 FROM credential
             WHERE app = $1 AND pending_since IS NOT NULL AND claimed_by IS NULL AND answered_at > $2 AND answered_at <= $3
               AND \(isAsked)
            """,
            app,
            earliest,
            now,
            asked
        )
        // siwatch schedules a check at least one interval after an answer, so other credentials need no look.
        return try clients.reduce(rejected + pending) { count, client in
            let scheduled = try connection.count(
                """
                SELECT 1 FROM credential
                 WHERE client = $1 AND due_at IS NOT NULL AND due_at > $2 AND claimed_by IS NULL AND pending_since IS NULL
                   AND answered_at > $3 AND answered_at <= $4 AND due_at >= answered_at + $5
                """,
                client,
                earliest.advanced(by: rules.refreshInterval),
                earliest,
                now,
                rules.interval
            )
            return count + scheduled
        }
    }

    /// - Returns: nil when the recheck is done.
    func goOn(from position: RecheckPosition) throws -> RecheckPosition? {
        var position = position
        let rows = try position.isPastRejected ? scheduled(position) : rejected(position)
        let slots = rows.compactMap { row -> RecheckSlot? in
            let slot = position.slot(
                dueAt: row.time(at: 5),
                answeredAt: row.time(at: 3),
                isPending: row.bool(at: 6),
                isBeingAsked: row.bool(at: 4),
                under: rules
            )
            guard let slot else { return nil }
            return RecheckSlot(userID: row.text(at: 1) ?? "", client: row.integer(at: 2), dueAt: slot, formerDueAt: row.time(at: 5))
        }
        try connection.bringForward(slots, of: position.app)
        let last = rows.last.map {
            RecheckPosition.Last(at: $0.integer(at: 0), userID: $0.text(at: 1) ?? "", client: $0.integer(at: 2))
        }
        return position.passed(rows.count, last: last) ? position : nil
    }

    private func rejected(_ position: RecheckPosition) throws -> [Connection.Row] {
        try connection.fetchAll(
            """
            SELECT rejected_at, user_id, client, answered_at, claimed_by IS NOT NULL, due_at, pending_since IS NOT NULL
              FROM credential
             WHERE app = $1 AND sealed_token IS NOT NULL AND rejected_at IS NOT NULL
               AND (rejected_at, user_id, client) > ($2, $3, $4) AND \(connection.dialect.isOne("client", ofIntegers: "$5"))
             ORDER BY rejected_at, user_id, client LIMIT \(RecheckPosition.portion)
            """,
            position.app,
            position.last?.at ?? 0,
            position.last?.userID ?? "",
            position.last?.client ?? 0,
            try JSONText.encode(position.clients)
        )
    }

    private func scheduled(_ position: RecheckPosition) throws -> [Connection.Row] {
        try connection.fetchAll(
            """
            SELECT due_at, user_id, client, answered_at, claimed_by IS NOT NULL, due_at, pending_since IS NOT NULL
              FROM credential
             WHERE client = $1 AND due_at IS NOT NULL AND due_at >= $2 AND (due_at, user_id) > ($2, $3)
             ORDER BY due_at, user_id LIMIT \(RecheckPosition.portion)
            """,
            position.clients.first,
            position.last?.at ?? position.start.milliseconds,
            position.last?.userID ?? ""
        )
    }
}

extension TableConnection {
    fileprivate func clients(of app: Int64, under rules: RecheckRules) throws -> [Int64] {
        try fetchAll("SELECT id, client_id FROM client WHERE app = $1 ORDER BY id", app)
            .filter { rules.asks(about: $0.text(at: 1) ?? "") }.map { $0.integer(at: 0) }
    }

    /// The earliest due time among the checks of an app; nil if it has none.
    func headOfSchedule(of app: Int64, under rules: RecheckRules) throws -> Timestamp? {
        try clients(of: app, under: rules).compactMap { client in
            try fetchOne("SELECT due_at FROM credential WHERE client = $1 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1", client)?
                .time(at: 0)
        }.min()
    }
}
