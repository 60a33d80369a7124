// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import NIOConcurrencyHelpers

/// The state of the queues. The claims say which rows are due.
extension SQLiteStore {
    package func queues(in connection: SQLiteConnection) throws -> [QueueStatus] {
        try Queue.allCases.map { queue in
            let counts = try connection.fetchOne(
                """
                SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = \(queue.rawValue)), 0),
                       COALESCE((SELECT value FROM counter WHERE name = \(queue.removedCounter)), 0)
                """
            )
            let (appended, removed) = (counts?.integer(at: 0) ?? 0, counts?.integer(at: 1) ?? 0)
            let oldest = try connection.fetchOne("SELECT id, \(sql: queue.arrivalColumn) FROM \(sql: queue.rawValue) ORDER BY id LIMIT 1")
            // Rows deleted by hand were not counted, so known bounds limit the difference. Nothing waits before the oldest row.
            // A member of the group can write any number.
            let depth = oldest.map { row in
                Int(clamping: max(1, min(Int128(appended) - Int128(removed), Int128(appended) - Int128(row.integer(at: 0)) + 1)))
            }
            return QueueStatus(queue: queue.label, depth: depth ?? 0, oldest: oldest?.integer(at: 1), settled: counts?.count(at: 1) ?? 0)
        }
    }

    package func dueRows(at now: Timestamp, upTo limit: Int, in connection: SQLiteConnection) throws -> [String: Int] {
        let ended = runs.withLockedValue { $0.ended(at: now, furthest: now.advanced(by: Queue.notification.longestDelay)) }
        let lanes: [(queue: Queue, condition: String)] = [
            (.notification, "due_at = 0 AND id > \(NotificationRows.mark)"),
            (.notification, Tables.setAside),
            (.notification, "due_at = 0 AND id BETWEEN \(ended?.lowerBound ?? 1) AND \(ended?.upperBound ?? 0)"),
            (.grant, "authorization_code IS NULL"),
            (.grant, "authorization_code IS NOT NULL AND granted_at > 0"),
        ]
        return try lanes.reduce(into: [:]) { due, lane in
            due[lane.queue.label, default: 0] += try connection.count(
                "SELECT 1 FROM \(sql: lane.queue.rawValue) WHERE \(sql: lane.condition) AND due_at <= \(now) LIMIT \(limit)"
            )
        }
    }
}
