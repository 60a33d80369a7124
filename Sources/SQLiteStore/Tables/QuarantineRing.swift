// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// The quarantine: whatever Apple may have signed stays; what anybody could have sent is a ring, because the endpoint is open to all.
struct QuarantineRing {
    let db: Database
    private var rows = 0
    private var bytes = 0

    init(db: Database) {
        self.db = db
    }

    mutating func add(notification id: Int64, payloadSize: Int, reason: RejectionReason, detail: String, at now: Timestamp) throws {
        try db.execute(
            cached: """
                INSERT INTO notification_quarantine (payload, received_at, rejected_at, reason, detail)
                SELECT payload, received_at, ?, ?, ? FROM notification_queue WHERE id = ?
                """,
            [now.milliseconds, reason.rawValue, detail, id]
        )
        if reason.isUnsigned {
            rows += 1
            bytes += payloadSize
        }
    }

    /// Makes room for what was added.
    ///
    /// - Returns: how many rows were evicted, oldest first.
    func save() throws -> Int {
        guard rows > 0 else { return 0 }
        var (total, size) = (try count(QuarantineLimits.rowsCounter) + rows, try count(QuarantineLimits.bytesCounter) + bytes)
        var evicted = 0
        while total > QuarantineLimits.longestRing || size > QuarantineLimits.largestRing {
            guard
                let length = try Int.fetchOne(
                    db.cachedStatement(
                        sql: """
                            DELETE FROM notification_quarantine
                             WHERE id = (SELECT id FROM notification_quarantine WHERE \(Schema.unsigned) ORDER BY id LIMIT 1)
                            RETURNING length(CAST(payload AS BLOB))
                            """
                    )
                )
            else { break }
            total -= 1
            size -= length
            evicted += 1
        }
        try db.set(QuarantineLimits.rowsCounter, to: Int64(total))
        try db.set(QuarantineLimits.bytesCounter, to: Int64(size))
        if evicted > 0 { try db.add(evicted, to: QuarantineLimits.evictedCounter) }
        return evicted
    }

    /// Counts the ring anew.
    static func recount(in db: Database) throws {
        try db.execute(
            cached: """
                INSERT INTO counter (name, value)
                SELECT '\(QuarantineLimits.rowsCounter)', COUNT(*) FROM notification_quarantine WHERE \(Schema.unsigned)
                 UNION ALL
                SELECT '\(QuarantineLimits.bytesCounter)', COALESCE(SUM(length(CAST(payload AS BLOB))), 0)
                  FROM notification_quarantine WHERE \(Schema.unsigned)
                    ON CONFLICT (name) DO UPDATE SET value = excluded.value
                """
        )
    }

    /// Takes rows that wait for one of these keys back into the queue.
    static func release(unknownKey keyID: String, in db: Database) throws {
        let (count, size) =
            try Row.fetchOne(
                db,
                sql: """
                    SELECT COUNT(*), COALESCE(SUM(length(CAST(payload AS BLOB))), 0) FROM notification_quarantine
                     WHERE reason = 'unknown_key' AND detail = ?
                    """,
                arguments: [keyID]
            ).map { ($0[0] as Int, $0[1] as Int) } ?? (0, 0)
        guard count > 0 else { return }
        try db.execute(
            sql: """
                INSERT INTO notification_queue (payload, received_at)
                SELECT payload, received_at FROM notification_quarantine WHERE reason = 'unknown_key' AND detail = ? ORDER BY id
                """,
            arguments: [keyID]
        )
        try db.execute(
            sql: "DELETE FROM notification_quarantine WHERE reason = 'unknown_key' AND detail = ?",
            arguments: [keyID]
        )
        try db.add(-count, to: QuarantineLimits.rowsCounter)
        try db.add(-size, to: QuarantineLimits.bytesCounter)
    }

    private func count(_ counter: String) throws -> Int {
        try Int.fetchOne(db.cachedStatement(sql: "SELECT value FROM counter WHERE name = ?"), arguments: [counter]) ?? 0
    }
}

extension QuarantineRing {
    /// Deletes one row, where it is there.
    static func remove(_ id: Int64, in db: Database) throws -> Bool {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    DELETE FROM notification_quarantine WHERE id = ?
                    RETURNING \(Schema.unsigned), length(CAST(payload AS BLOB))
                    """
            ),
            arguments: [id]
        )
        guard let row else { return false }
        if row[0] {
            try db.add(-1, to: QuarantineLimits.rowsCounter)
            try db.add(-(row[1] as Int), to: QuarantineLimits.bytesCounter)
        }
        return true
    }

    /// Deletes those of some rows that are older than `cutoff`.
    static func prune(_ ids: ClosedRange<Int64>, olderThan cutoff: Timestamp, in db: Database) throws {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    DELETE FROM notification_quarantine
                     WHERE id BETWEEN ? AND ? AND rejected_at < ?
                    RETURNING \(Schema.unsigned), length(CAST(payload AS BLOB))
                    """
            ),
            arguments: [ids.lowerBound, ids.upperBound, cutoff.milliseconds]
        )
        let unsigned = rows.filter { $0[0] }
        try db.add(-unsigned.count, to: QuarantineLimits.rowsCounter)
        try db.add(-unsigned.reduce(0) { $0 + ($1[1] as Int) }, to: QuarantineLimits.bytesCounter)
    }
}
