// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

struct NotificationRows {
    let connection: SQLiteConnection
    let owner: String

    private static let markCounter = "notification_queue_claimed"
    /// SQL: the greatest id of a new row that was ever claimed.
    static let mark = "COALESCE((SELECT value FROM counter WHERE name = '\(markCounter)'), 0)"
    private static let sequence = "COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'notification_queue'), 0)"
    /// The due time of rows that a former process left. It is before all others.
    static let leftBehind = Timestamp(milliseconds: -1)

    /// The new rows next after the mark. Empty while a row is left that a former process claimed.
    func new(upTo limit: Int) throws -> [ClaimedNotification] {
        var notifications: [ClaimedNotification] = []
        var size = 0
        let claim = Claim(owner: owner, attempts: 1)
        try PreparedStatement(
            """
            SELECT id, CAST(payload AS BLOB), received_at FROM notification_queue
             WHERE due_at = 0 AND id > \(Self.mark) AND NOT EXISTS (SELECT 1 FROM notification_queue WHERE \(Tables.setAside) AND due_at < 0)
             ORDER BY id LIMIT ?
            """,
            in: connection.db
        ).readRows(bound(limit)) { row in
            let notification = ClaimedNotification(id: row[0], claim: claim, payload: row[1], receivedAt: row[2])
            notifications.append(notification)
            size += notification.payload.count
            return size < Queue.largestClaim
        }
        return notifications
    }

    private func number(_ sql: String) throws -> Int64 { try connection.fetchOne("SELECT \(sql: sql)")?.integer(at: 0) ?? 0 }

    /// - Returns: false if the first row is not new any more.
    func moveMark(from first: Int64, to last: Int64) throws -> Bool {
        guard try number(Self.mark) < first else { return false }
        try connection.set(Self.markCounter, to: last)
        return true
    }

    /// Sets new rows aside that are claimed and not settled, and counts an attempt. The holder may still settle them, until the next claim.
    func setAside(_ ids: ClosedRange<Int64>, dueAt time: Timestamp, heldBy holder: String?) throws {
        try connection.execute(
            """
            UPDATE notification_queue
               SET due_at = \(time), attempts = \(sql: connection.dialect.counted("attempts")) + 1, claimed_by = \(holder.columnValue)
             WHERE due_at = 0 AND id BETWEEN \(ids.lowerBound) AND \(ids.upperBound)
            """
        )
    }

    /// Whether somebody has reset `sqlite_sequence`, so that unclaimed rows stand up to the mark. Either the ids are still behind the mark.
    /// Or they have passed it again, and the greatest id up to the mark is in no run, because SQLite gives no id below an existing row.
    func haveBegunAnew(besides live: ClosedRange<Int64>?) throws -> Bool {
        try connection.fetchOne(
            """
            SELECT \(sql: Self.sequence) < \(sql: Self.mark)
                OR EXISTS (SELECT 1 FROM (SELECT id, due_at FROM notification_queue WHERE id <= \(sql: Self.mark) ORDER BY id DESC LIMIT 1)
                            WHERE due_at = 0 AND id NOT BETWEEN \(live?.lowerBound ?? 0) AND \(live?.upperBound ?? 0))
            """
        )?.bool(at: 0) ?? false
    }

    /// Makes the rows up to the mark due, and continues the ids above it.
    func takeInAnew() throws {
        let mark = try number(Self.mark)
        if mark > 0 { try setAside(1...mark, dueAt: Self.leftBehind, heldBy: owner) }
        if try number(Self.sequence) < mark {
            try connection.execute("DELETE FROM sqlite_sequence WHERE name = 'notification_queue'")
            try connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('notification_queue', \(mark))")
        }
        try connection.execute("\(sql: SQLiteStore.recountRemoved(from: .notification))")
    }

    /// Those of some claims that still hold their row. A row that no later claim took is held by the process that moved the mark past it.
    func held(_ claims: [(id: Int64, claim: Claim)]) throws -> [Int64: Claim] {
        var holders: [Int64: Claim?] = [:]
        let claimed = try PreparedStatement(
            """
            SELECT id, claimed_by, attempts FROM notification_queue
             WHERE id BETWEEN ? AND ? AND (claimed_by IS NOT NULL OR due_at = 0 AND id <= \(Self.mark))
            """,
            in: connection.db
        )
        for range in claims.map(\.id).ranges {
            try claimed.forEachRow(bound(range.lowerBound, range.upperBound)) { row in
                holders.updateValue(row.text(at: 1).map { Claim(owner: $0, attempts: row[2]) }, forKey: row[0])
            }
        }
        return claims.reduce(into: [:]) { held, claim in
            guard let holder = holders[claim.id] else { return }
            if holder.map({ $0 == claim.claim }) ?? (claim.claim.attempts == 1) { held[claim.id] = claim.claim }
        }
    }

    func due(at now: Timestamp, upTo limit: Int) throws -> [(id: Int64, attempts: Int, isLeftBehind: Bool)] {
        try connection.fetchAll(
            """
            SELECT id, attempts, due_at < 0 FROM notification_queue WHERE \(sql: Tables.setAside) AND due_at <= \(now)
             ORDER BY due_at, id LIMIT \(limit)
            """
        ).map { (id: $0[0], attempts: $0[1], isLeftBehind: $0[2]) }
    }

    func claim(_ ids: [Int64], until leaseEnd: Timestamp) throws -> [ClaimedNotification] {
        try connection.read(connection.ask(.takeNotifications, ids.map { bound($0) }, bound(leaseEnd, owner))) { row in
            ClaimedNotification(id: row[0], claim: Claim(owner: owner, attempts: row[1]), payload: row[2], receivedAt: row[3])
        }
    }

    /// Makes rows due that were postponed by a clock that has since been set back.
    func bringBack(from furthest: Timestamp, to now: Timestamp) throws {
        try connection.execute("UPDATE notification_queue SET due_at = \(now) WHERE \(sql: Tables.setAside) AND due_at > \(furthest)")
    }

    /// Makes every claimed row due at once, because its process is gone.
    func recover() throws {
        let mark = try number(Self.mark)
        if mark > 0 { try setAside(1...mark, dueAt: Self.leftBehind, heldBy: nil) }
        try connection.execute(
            """
            UPDATE notification_queue SET due_at = \(Self.leftBehind), claimed_by = NULL
             WHERE \(sql: Tables.setAside) AND due_at > 0 AND claimed_by IS NOT NULL
            """
        )
    }
}

extension RowStatement {
    fileprivate static let takeNotifications = take(.notification, returning: "CAST(payload AS BLOB), received_at")
}
