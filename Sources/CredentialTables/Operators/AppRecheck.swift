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
        let isAsked = try connection.dialect.isOne("client", of: clients)
        let rejected = try connection.count(
            """
            SELECT 1 FROM credential
             WHERE app = \(app) AND sealed_token IS NOT NULL AND rejected_at IS NOT NULL AND due_at IS NULL
               AND answered_at > \(earliest) AND answered_at <= \(now) AND \(isAsked)
            """
        )
        let pending = try connection.count(
            """
            SELECT 1 FROM credential
             WHERE app = \(app) AND pending_since IS NOT NULL AND claimed_by IS NULL AND answered_at > \(earliest) AND answered_at <= \(now)
               AND \(isAsked)
            """
        )
        // siwatch schedules a check at least one interval after an answer, so other credentials need no look.
        return try clients.reduce(rejected + pending) { count, client in
            let scheduled = try connection.count(
                """
                SELECT 1 FROM credential
                 WHERE client = \(client) AND due_at IS NOT NULL AND due_at > \(earliest.advanced(by: rules.refreshInterval))
                   AND claimed_by IS NULL AND pending_since IS NULL
                   AND answered_at > \(earliest) AND answered_at <= \(now) AND due_at >= answered_at + \(rules.interval)
                """
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
        let last = position.last
        return try connection.fetchAll(
            """
            SELECT rejected_at, user_id, client, answered_at, claimed_by IS NOT NULL, due_at, pending_since IS NOT NULL
              FROM credential
             WHERE app = \(position.app) AND sealed_token IS NOT NULL AND rejected_at IS NOT NULL
               AND (rejected_at, user_id, client) > (\(last?.at ?? 0), \(last?.userID ?? ""), \(last?.client ?? 0))
               AND \(try connection.dialect.isOne("client", of: position.clients))
             ORDER BY rejected_at, user_id, client LIMIT \(sql: RecheckPosition.portion)
            """
        )
    }

    private func scheduled(_ position: RecheckPosition) throws -> [Connection.Row] {
        let start = position.last?.at ?? position.start.milliseconds
        return try connection.fetchAll(
            """
            SELECT due_at, user_id, client, answered_at, claimed_by IS NOT NULL, due_at, pending_since IS NOT NULL
              FROM credential
             WHERE client = \(position.clients.first.columnValue) AND due_at IS NOT NULL AND due_at >= \(start)
               AND (due_at, user_id) > (\(start), \(position.last?.userID ?? ""))
             ORDER BY due_at, user_id LIMIT \(sql: RecheckPosition.portion)
            """
        )
    }
}

extension TableConnection {
    fileprivate func clients(of app: Int64, under rules: RecheckRules) throws -> [Int64] {
        try fetchAll("SELECT id, client_id FROM client WHERE app = \(app) ORDER BY id")
            .filter { rules.asks(about: $0.text(at: 1) ?? "") }.map { $0.integer(at: 0) }
    }

    /// The earliest due time among the checks of an app; nil if it has none.
    func headOfSchedule(of app: Int64, under rules: RecheckRules) throws -> Timestamp? {
        try clients(of: app, under: rules).compactMap { client in
            try fetchOne("SELECT due_at FROM credential WHERE client = \(client) AND due_at IS NOT NULL ORDER BY due_at LIMIT 1")?
                .time(at: 0)
        }.min()
    }
}
