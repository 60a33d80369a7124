// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// The quarantine. Rows that Apple may have signed stay. Rows that anybody could have sent are kept in a ring, because the endpoint is open
/// to all.
struct QuarantineRing {
    private let connection: SQLiteConnection
    private var rows = 0
    private var bytes = 0

    init(on connection: SQLiteConnection) {
        self.connection = connection
    }

    mutating func add(notification id: Int64, payloadSize: Int, reason: RejectionReason, detail: String, at now: Timestamp) throws {
        try connection.execute(
            """
            INSERT INTO notification_quarantine (payload, received_at, rejected_at, reason, detail)
            SELECT payload, received_at, $1, $2, $3 FROM notification_queue WHERE id = $4
            """,
            now,
            reason.rawValue,
            detail,
            id
        )
        if reason.isUnsigned {
            rows += 1
            bytes += payloadSize
        }
    }

    /// Makes room for the added rows.
    ///
    /// - Returns: the number of evicted rows, oldest first.
    func save() throws -> Int {
        guard rows > 0 else { return 0 }
        var (total, size) = (try count(QuarantineLimits.rowsCounter) + rows, try count(QuarantineLimits.bytesCounter) + bytes)
        var evicted = 0
        while total > QuarantineLimits.longestRing || size > QuarantineLimits.largestRing {
            guard
                let row = try connection.fetchOne(
                    """
                    DELETE FROM notification_quarantine
                     WHERE id = (SELECT id FROM notification_quarantine WHERE \(Schema.unsigned) ORDER BY id LIMIT 1)
                    RETURNING length(CAST(payload AS BLOB))
                    """
                )
            else { break }
            total -= 1
            size -= row.int(at: 0)
            evicted += 1
        }
        try connection.set(QuarantineLimits.rowsCounter, to: Int64(total))
        try connection.set(QuarantineLimits.bytesCounter, to: Int64(size))
        try connection.add(evicted, to: QuarantineLimits.evictedCounter)
        return evicted
    }

    static func recount(on connection: SQLiteConnection) throws {
        try connection.execute(
            """
            INSERT INTO counter (name, value)
            SELECT '\(QuarantineLimits.rowsCounter)', COUNT(*) FROM notification_quarantine WHERE \(Schema.unsigned)
             UNION ALL
            SELECT '\(QuarantineLimits.bytesCounter)', COALESCE(SUM(length(CAST(payload AS BLOB))), 0)
              FROM notification_quarantine WHERE \(Schema.unsigned)
                ON CONFLICT (name) DO UPDATE SET value = excluded.value
            """
        )
    }

    private func count(_ counter: String) throws -> Int {
        try connection.fetchInt("SELECT value FROM counter WHERE name = $1", counter)
    }
}
