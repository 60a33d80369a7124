// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB

/// The rows of `notification_queue` in a transaction.
struct NotificationRows {
    let db: Database
    let owner: String

    private static let markCounter = "notification_queue_claimed"
    /// SQL: the greatest id of a new row that was ever claimed.
    static let mark = "COALESCE((SELECT value FROM counter WHERE name = '\(markCounter)'), 0)"
    /// The due time of rows that a former process left. It is before all others.
    static let leftBehind = Timestamp(milliseconds: -1)
    private static let oneMoreAttempt = "MIN(MAX(attempts, 0), 1000) + 1"

    // MARK: New rows

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
            in: db
        ).readRows(limit) { row in
            let notification = ClaimedNotification(
                id: row.integer(at: 0),
                claim: claim,
                payload: row.bytes(at: 1),
                receivedAt: Timestamp(milliseconds: row.integer(at: 2))
            )
            notifications.append(notification)
            size += notification.payload.count
            return size < Queue.largestClaim
        }
        return notifications
    }

    /// Claims the new rows from one id to another.
    ///
    /// - Returns: false if the first row is not new any more.
    func moveMark(from first: Int64, to last: Int64) throws -> Bool {
        let mark = try PreparedStatement("SELECT \(Self.mark)", in: db).first { $0.integer(at: 0) } ?? 0
        guard mark < first else { return false }
        try SQLiteConnection(db).set(Self.markCounter, to: last)
        return true
    }

    /// Sets new rows aside that are claimed and not settled, and counts an attempt for each.
    ///
    /// - Parameter holder: the owner that may still settle the rows, until the next claim.
    func setAside(_ ids: ClosedRange<Int64>, dueAt time: Timestamp, heldBy holder: String?) throws {
        try PreparedStatement(
            """
            UPDATE notification_queue SET due_at = ?, attempts = \(Self.oneMoreAttempt), claimed_by = ?
             WHERE due_at = 0 AND id BETWEEN ? AND ?
            """,
            in: db
        ).run(time, holder, ids.lowerBound, ids.upperBound)
    }

    // MARK: Ids that begin anew

    /// Whether somebody has reset `sqlite_sequence`, so that unclaimed rows stand up to the mark.
    ///
    /// Either the ids are still behind the mark. Or they have passed it again, and the greatest id up to the mark is in no run. SQLite
    /// gives no id below an existing row, so such rows stand above all older ones.
    func haveBegunAnew(besides live: ClosedRange<Int64>?) throws -> Bool {
        try PreparedStatement(
            """
            SELECT \(Self.sequence) < \(Self.mark)
                OR EXISTS (SELECT 1 FROM (SELECT id, due_at FROM notification_queue WHERE id <= \(Self.mark) ORDER BY id DESC LIMIT 1)
                            WHERE due_at = 0 AND id NOT BETWEEN ?1 AND ?2)
            """,
            in: db
        ).first(live?.lowerBound ?? 0, live?.upperBound ?? 0) { $0.integer(at: 0) != 0 } ?? false
    }

    /// Makes the rows up to the mark due, and continues the ids above it.
    func takeInAnew() throws {
        let mark = try PreparedStatement("SELECT \(Self.mark)", in: db).first { $0.integer(at: 0) } ?? 0
        if mark > 0 { try setAside(1...mark, dueAt: Self.leftBehind, heldBy: owner) }
        if try PreparedStatement("SELECT \(Self.sequence)", in: db).first(read: { $0.integer(at: 0) }) ?? 0 < mark {
            try PreparedStatement("DELETE FROM sqlite_sequence WHERE name = 'notification_queue'", in: db).run()
            try PreparedStatement("INSERT INTO sqlite_sequence (name, seq) VALUES ('notification_queue', ?)", in: db).run(mark)
        }
        try PreparedStatement(SQLiteStore.recountRemoved(from: .notification), in: db).run()
    }

    private static let sequence = "COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'notification_queue'), 0)"

    // MARK: Claims that hold

    /// The holder of a row's last claim.
    enum Holder {
        /// The process that moved the mark past the row.
        case first
        case later(Claim)

        func isHeld(by claim: Claim) -> Bool {
            switch self {
            case .first: claim.attempts == 1
            case .later(let last): claim == last
            }
        }
    }

    /// The holders of claimed rows, by id.
    static func holders(of ids: [Int64], in db: Database) throws -> [Int64: Holder] {
        var holders: [Int64: Holder] = [:]
        guard !ids.isEmpty else { return holders }
        let claimed = try PreparedStatement(
            """
            SELECT id, claimed_by, attempts FROM notification_queue
             WHERE id BETWEEN ? AND ? AND (claimed_by IS NOT NULL OR due_at = 0 AND id <= \(mark))
            """,
            in: db
        )
        for range in ids.ranges {
            try claimed.forEachRow(range.lowerBound, range.upperBound) { row in
                let claim = row.text(at: 1).map { Claim(owner: $0, attempts: Int(row.integer(at: 2))) }
                holders[row.integer(at: 0)] = claim.map(Holder.later) ?? .first
            }
        }
        return holders
    }

    // MARK: Rows set aside

    struct Due {
        var id: Int64
        var attempts: Int
        var isLeftBehind: Bool
    }

    /// Longest due first.
    func due(at now: Timestamp, upTo limit: Int) throws -> [Due] {
        var rows: [Due] = []
        try PreparedStatement(
            "SELECT id, attempts, due_at FROM notification_queue WHERE \(Tables.setAside) AND due_at <= ? ORDER BY due_at, id LIMIT ?",
            in: db
        ).forEachRow(now, limit) { row in
            rows.append(Due(id: row.integer(at: 0), attempts: Int(row.integer(at: 1)), isLeftBehind: row.integer(at: 2) < 0))
        }
        return rows
    }

    func claim(_ ids: [Int64], until leaseEnd: Timestamp) throws -> [ClaimedNotification] {
        let take = try PreparedStatement(
            """
            UPDATE notification_queue SET due_at = ?, attempts = \(Self.oneMoreAttempt), claimed_by = ? WHERE id = ?
            RETURNING attempts, CAST(payload AS BLOB), received_at
            """,
            in: db
        )
        return try ids.compactMap { id in
            try take.first(leaseEnd, owner, id) { row in
                ClaimedNotification(
                    id: id,
                    claim: Claim(owner: owner, attempts: Int(row.integer(at: 0))),
                    payload: row.bytes(at: 1),
                    receivedAt: Timestamp(milliseconds: row.integer(at: 2))
                )
            }
        }
    }

    /// Makes rows due that were postponed by a clock that has since been set back.
    func bringBack(from furthest: Timestamp, to now: Timestamp) throws {
        try PreparedStatement("UPDATE notification_queue SET due_at = ? WHERE \(Tables.setAside) AND due_at > ?", in: db).run(now, furthest)
    }

    /// Makes every claimed row due at once, because its process is gone.
    func recover() throws {
        let mark = try PreparedStatement("SELECT \(Self.mark)", in: db).first { $0.integer(at: 0) } ?? 0
        if mark > 0 { try setAside(1...mark, dueAt: Self.leftBehind, heldBy: nil) }
        try PreparedStatement(
            "UPDATE notification_queue SET due_at = ?, claimed_by = NULL WHERE \(Tables.setAside) AND due_at > 0 AND claimed_by IS NOT NULL",
            in: db
        ).run(Self.leftBehind)
    }
}
