// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Removes rows from the quarantine, and keeps the counts of its rings.
enum QuarantineRow {
    /// Moves the rows that lacked one of these keys or clients back into the queue.
    static func release(_ reason: RejectionReason, about names: [String], on connection: some TableConnection) throws {
        let condition: SQL = "reason = '\(sql: reason.rawValue)' AND \(try connection.dialect.isOne("detail", of: names))"
        guard try connection.exists("SELECT 1 FROM notification_quarantine WHERE \(condition)") else { return }
        try connection.lockSettlements()
        try connection.execute(
            """
            INSERT INTO notification_queue (payload, received_at)
            SELECT payload, received_at FROM notification_quarantine WHERE \(condition) ORDER BY id
            """
        )
        _ = try remove(where: condition, on: connection)
    }

    /// - Returns: the ids of the rows that it found.
    static func remove(_ ids: [Int64], on connection: some TableConnection) throws -> Set<Int64> {
        try remove(where: connection.dialect.isOne("id", of: ids), on: connection)
    }

    static func prune(_ ids: ClosedRange<Int64>, olderThan cutoff: Timestamp, on connection: some TableConnection) throws {
        _ = try remove(where: "id BETWEEN \(ids.lowerBound) AND \(ids.upperBound) AND rejected_at < \(cutoff)", on: connection)
    }

    private static func remove(where condition: SQL, on connection: some TableConnection) throws -> Set<Int64> {
        try connection.lockSettlements()
        let rows = try connection.fetchAll(
            """
            DELETE FROM notification_quarantine WHERE \(condition)
            RETURNING id, reason, \(connection.dialect.payloadSize("payload"))
            """
        )
        for ring in UnsignedRing.allCases {
            let members = rows.filter { $0.text(at: 1).flatMap(RejectionReason.init(rawValue:))?.ring == ring }
            try connection.add(-members.count, to: ring.rowsCounter)
            try connection.add(-members.reduce(0) { $0 + $1.int(at: 2) }, to: ring.bytesCounter)
        }
        return Set(rows.map { $0.integer(at: 0) })
    }
}
