// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The quarantine: whatever Apple may have signed stays; what anybody could have sent is a ring, because the endpoint is open to all.
struct QuarantineRing {
    let connection: Connection
    private var rows = RowArrays()
    private var unsigned = 0
    private var bytes = 0

    init(on connection: Connection) {
        self.connection = connection
    }

    mutating func add(notification id: Int64, payloadSize: Int, reason: RejectionReason, detail: String) {
        rows.append(id, reason.rawValue, detail)
        guard reason.isUnsigned else { return }
        unsigned += 1
        bytes += payloadSize
    }

    /// Moves what was added out of the queue.
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

    /// Makes room for what was added, under the lock on the tail, where nobody is to wait for an answer.
    ///
    /// - Returns: how many rows were evicted, oldest first.
    func sendMakeRoom() throws -> Connection.Answer? {
        guard unsigned > 0 else { return nil }
        try connection.sendAdd(unsigned, to: QuarantineLimits.rowsCounter)
        try connection.sendAdd(bytes, to: QuarantineLimits.bytesCounter)
        return try connection.send(
            """
            WITH ring AS MATERIALIZED (
              SELECT (SELECT value FROM counter WHERE name = $1) - \(QuarantineLimits.longestRing) AS rows,
                     (SELECT value FROM counter WHERE name = $2) - \(QuarantineLimits.largestRing) AS bytes),
            oldest AS (
              SELECT id, octet_length(payload) AS size FROM notification_quarantine WHERE \(Schema.unsigned)
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
            QuarantineLimits.rowsCounter,
            QuarantineLimits.bytesCounter,
            QuarantineLimits.evictedCounter
        )
    }

    // MARK: Rows that leave, under the lock on the tail

    /// Takes rows that wait for one of these keys back into the queue.
    static func release(unknownKeys keyIDs: [String], on connection: Connection) throws {
        try connection.lockTail()
        let gone = try connection.rows(
            """
            WITH gone AS (DELETE FROM notification_quarantine WHERE reason = 'unknown_key' AND detail = ANY($1)
                          RETURNING id, payload, received_at),
            back AS (INSERT INTO notification_queue (payload, received_at) SELECT payload, received_at FROM gone ORDER BY id)
            SELECT COUNT(*), COALESCE(SUM(octet_length(payload)), 0)::bigint FROM gone
            """,
            ArrayOf(keyIDs)
        ).first
        try forget(gone?.int(at: 0) ?? 0, gone?.int(at: 1) ?? 0, on: connection)
    }

    /// Deletes rows.
    ///
    /// - Returns: those that were there.
    static func remove(_ ids: [Int64], on connection: Connection) throws -> Set<Int64> {
        try remove("id = ANY($1)", [ArrayOf(ids).parameter], on: connection)
    }

    /// Deletes those of some rows that are older than `cutoff`.
    static func prune(_ ids: ClosedRange<Int64>, olderThan cutoff: Timestamp, on connection: Connection) throws {
        let parameters = [ids.lowerBound.parameter, ids.upperBound.parameter, cutoff.parameter]
        _ = try remove("id BETWEEN $1 AND $2 AND rejected_at < $3", parameters, on: connection)
    }

    private static func remove(_ condition: String, _ parameters: [Parameter], on connection: Connection) throws -> Set<Int64> {
        try connection.lockTail()
        let answer = try connection.send(
            "DELETE FROM notification_quarantine WHERE \(condition) RETURNING \(Schema.unsigned), octet_length(payload), id",
            parameters
        )
        let rows = try connection.rows(of: answer)
        let unsigned = rows.compactMap { $0.bool(at: 0) ? $0.int(at: 1) : nil }
        try forget(unsigned.count, unsigned.reduce(0, +), on: connection)
        return Set(rows.map { $0.integer(at: 2) })
    }

    private static func forget(_ rows: Int, _ bytes: Int, on connection: Connection) throws {
        try connection.sendAdd(-rows, to: QuarantineLimits.rowsCounter)
        try connection.sendAdd(-bytes, to: QuarantineLimits.bytesCounter)
    }
}
