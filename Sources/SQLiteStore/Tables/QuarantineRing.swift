// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// The quarantine. Rows that Apple signed stay. Rows that anybody could have sent are kept in rings, because the endpoint is open to all.
struct QuarantineRing {
    private let connection: SQLiteConnection
    private var added: [UnsignedRing: (rows: Int, bytes: Int)] = [:]

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
        guard let ring = reason.ring else { return }
        added[ring, default: (0, 0)].rows += 1
        added[ring, default: (0, 0)].bytes += payloadSize
    }

    /// Makes room for the added rows.
    ///
    /// - Returns: the number of evicted rows, oldest first.
    func save() throws -> Int {
        let evicted = try added.reduce(0) { try $0 + makeRoom(in: $1.key, for: $1.value) }
        try connection.add(evicted, to: UnsignedRing.evictedCounter)
        return evicted
    }

    private func makeRoom(in ring: UnsignedRing, for added: (rows: Int, bytes: Int)) throws -> Int {
        var (total, size) = (try count(ring.rowsCounter) + added.rows, try count(ring.bytesCounter) + added.bytes)
        var evicted = 0
        while total > UnsignedRing.mostRows || size > UnsignedRing.mostBytes {
            guard
                let row = try connection.fetchOne(
                    """
                    DELETE FROM notification_quarantine
                     WHERE id = (SELECT MIN(id) FROM notification_quarantine WHERE \(Schema.tables.members(of: ring)))
                    RETURNING length(CAST(payload AS BLOB))
                    """
                )
            else { break }
            total -= 1
            size -= row.int(at: 0)
            evicted += 1
        }
        try connection.set(ring.rowsCounter, to: Int64(total))
        try connection.set(ring.bytesCounter, to: Int64(size))
        return evicted
    }

    static func recount(on connection: SQLiteConnection) throws {
        for ring in UnsignedRing.allCases {
            try connection.execute(
                """
                INSERT INTO counter (name, value)
                SELECT '\(ring.rowsCounter)', COUNT(*) FROM notification_quarantine WHERE \(Schema.tables.members(of: ring))
                 UNION ALL
                SELECT '\(ring.bytesCounter)', COALESCE(SUM(length(CAST(payload AS BLOB))), 0)
                  FROM notification_quarantine WHERE \(Schema.tables.members(of: ring))
                    ON CONFLICT (name) DO UPDATE SET value = excluded.value
                """
            )
        }
    }

    private func count(_ counter: String) throws -> Int {
        try connection.fetchInt("SELECT value FROM counter WHERE name = $1", counter)
    }
}
