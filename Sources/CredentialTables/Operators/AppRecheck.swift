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
        func count(_ condition: SQL) throws -> Int {
            try connection.count("SELECT 1 FROM credential WHERE \(condition) AND answered_at > \(earliest) AND answered_at <= \(now)")
        }
        let isRejected: SQL = "sealed_token IS NOT NULL AND rejected_at IS NOT NULL AND due_at IS NULL"
        let rejected = try count("app = \(app) AND \(isAsked) AND \(isRejected)")
        let pending = try count("app = \(app) AND \(isAsked) AND pending_since IS NOT NULL AND claimed_by IS NULL")
        // siwatch schedules a check at least one interval after an answer, so other credentials need no look.
        return try clients.reduce(rejected + pending) { total, client in
            let scheduled: SQL = """
                client = \(client) AND due_at IS NOT NULL AND due_at > \(earliest.advanced(by: rules.refreshInterval))
                AND claimed_by IS NULL AND pending_since IS NULL AND due_at >= answered_at + \(rules.interval)
                """
            return try total + count(scheduled)
        }
    }

    /// - Returns: nil when the recheck is done.
    func goOn(from position: RecheckPosition) throws -> RecheckPosition? {
        var position = position
        let rows = try position.isPastRejected ? scheduled(position) : rejected(position)
        let slots = rows.compactMap { row -> RecheckSlot? in
            position.slot(dueAt: row[5], answeredAt: row[3], isPending: row[6], isBeingAsked: row[4], under: rules).map {
                RecheckSlot(userID: row[1], client: row[2], dueAt: $0, formerDueAt: row[5])
            }
        }
        try connection.bringForward(slots, of: position.app)
        let last = rows.last.map { (at: $0.integer(at: 0), userID: $0.text(at: 1) ?? "", client: $0.integer(at: 2)) }
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

    func headOfSchedule(of app: Int64, under rules: RecheckRules) throws -> Timestamp? {
        try clients(of: app, under: rules).compactMap { client in
            try fetchOne("SELECT due_at FROM credential WHERE client = \(client) AND due_at IS NOT NULL ORDER BY due_at LIMIT 1")?
                .time(at: 0)
        }.min()
    }
}

struct RecheckSlot {
    var userID: String
    var client: Int64
    var dueAt: Timestamp
    var formerDueAt: Timestamp?
}

extension TableConnection {
    /// Gives credentials an earlier check and drops their pending rejections. Skips what was claimed or moved since it was read.
    func bringForward(_ slots: [RecheckSlot], of app: Int64) throws {
        let answer = try ask(.findSlots, slots.map { bound($0.userID, $0.client, $0.formerDueAt) })
        var moved: [[ColumnValue]] = []
        var pending = 0
        try forEachRow(of: answer) { place, row in
            moved.append(bound(slots[place].userID, slots[place].client, slots[place].dueAt))
            if row.bool(at: 0) { pending += 1 }
        }
        try execute(.moveSlots, moved)
        guard pending > 0 else { return }
        try lockSettlements()
        try execute("UPDATE app SET pending = pending - \(pending) WHERE id = \(app)")
    }
}

extension RowStatement {
    fileprivate static let findSlots = read(
        "t.pending_since IS NOT NULL",
        of: "credential",
        key: ["user_id", "client"],
        others: ["former_due_at"],
        where: "t.claimed_by IS NULL AND t.due_at IS NOT DISTINCT FROM @former_due_at",
        lockedBy: "t.user_id, t.client"
    )
    fileprivate static let moveSlots = update(
        "credential",
        key: ["user_id", "client"],
        ["due_at"],
        others: ", \(PendingRejection.drop)"
    )
}
