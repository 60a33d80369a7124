// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// The quarantine. Rows that Apple signed stay. Rows that anybody could have sent are kept in rings, because the endpoint is open to all.
struct QuarantineRing {
    let connection: Connection
    private var rows = RowArrays()
    private var added: [UnsignedRing: (rows: Int, bytes: Int)] = [:]

    init(on connection: Connection) {
        self.connection = connection
    }

    mutating func add(notification id: Int64, payloadSize: Int, reason: RejectionReason, detail: String) {
        rows.append(id, reason.rawValue, detail)
        guard let ring = reason.ring else { return }
        added[ring, default: (0, 0)].rows += 1
        added[ring, default: (0, 0)].bytes += payloadSize
    }

    /// Moves the added rows out of the queue.
    func send(at now: Timestamp) throws {
        try connection.send(
            """
            WITH gone AS (DELETE FROM notification_queue WHERE id = ANY($1) RETURNING id, payload, received_at)
            INSERT INTO notification_quarantine (payload, received_at, rejected_at, reason, detail)
            SELECT gone.payload, gone.received_at, $4, n.reason, n.detail
              FROM unnest($1, $2, $3) AS n (id, reason, detail) JOIN gone ON gone.id = n.id
             ORDER BY n.id
            """,
            rows,
            [now.parameter]
        )
    }

    /// Makes room for the added rows. Runs under the lock on the tail, so it waits for no answer.
    ///
    /// - Returns: for each ring, the answer with the number of evicted rows, oldest first.
    func sendMakeRoom() throws -> [Connection.Answer] {
        try added.map { ring, new in
            try connection.add(new.rows, to: ring.rowsCounter)
            try connection.add(new.bytes, to: ring.bytesCounter)
            return try sendEvict(from: ring)
        }
    }

    private func sendEvict(from ring: UnsignedRing) throws -> Connection.Answer {
        try connection.send(
            """
            WITH ring AS MATERIALIZED (
              SELECT (SELECT value FROM counter WHERE name = $1) - \(UnsignedRing.mostRows) AS rows,
                     (SELECT value FROM counter WHERE name = $2) - \(UnsignedRing.mostBytes) AS bytes),
            oldest AS (
              SELECT id, octet_length(payload) AS size FROM notification_quarantine WHERE \(Schema.tables.members(of: ring))
               ORDER BY id LIMIT (SELECT CASE WHEN bytes > 0 THEN NULL ELSE GREATEST(rows, 0) END FROM ring)),
            numbered AS (SELECT id, size, row_number() OVER w AS place, sum(size) OVER w - size AS before FROM oldest WINDOW w AS (ORDER BY id)),
            evicted AS (
              DELETE FROM notification_quarantine q USING numbered n, ring
               WHERE q.id = n.id AND (n.place <= ring.rows OR n.before < ring.bytes)
              RETURNING n.size),
            counts (name, change) AS (
              SELECT $1, -COUNT(*) FROM evicted UNION ALL SELECT $2, -COALESCE(SUM(size), 0)::bigint FROM evicted
              UNION ALL SELECT $3, COUNT(*) FROM evicted),
            counted AS (
              INSERT INTO counter AS c (name, value) SELECT name, change FROM counts WHERE change <> 0
                  ON CONFLICT (name) DO UPDATE SET value = c.value + excluded.value)
            SELECT COUNT(*) FROM evicted
            """,
            ring.rowsCounter,
            ring.bytesCounter,
            UnsignedRing.evictedCounter
        )
    }
}
