// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import GRDB
import NIOConcurrencyHelpers

/// What stands in the queues. The claims say which rows are due.
extension SQLiteStore {
    package func queues() async throws -> [QueueStatus] {
        try await read { db in
            try Queue.allCases.map { queue in
                let counts = try Row.fetchOne(
                    db.cachedStatement(
                        sql: """
                            SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = '\(queue.rawValue)'), 0),
                                   COALESCE((SELECT value FROM counter WHERE name = '\(queue.removedCounter)'), 0)
                            """
                    )
                )
                let (appended, removed): (Int, Int) = (counts?[0] ?? 0, counts?[1] ?? 0)
                let oldest = try Row.fetchOne(
                    db.cachedStatement(sql: "SELECT id, \(queue.arrivalColumn) FROM \(queue.rawValue) ORDER BY id LIMIT 1")
                )
                // Rows deleted by hand were not counted, so what can be known at once bounds the difference: nothing waits before the oldest.
                let depth = oldest.map { max(1, min(appended - removed, appended - ($0[0] as Int) + 1)) } ?? 0
                return QueueStatus(queue: queue.label, depth: depth, oldest: oldest.map { $0[1] }, settled: removed)
            }
        }
    }

    package func dueRows(at now: Timestamp, upTo limit: Int) async throws -> [String: Int] {
        let ended = runs.withLockedValue { $0.ended(at: now, furthest: now.advanced(by: Queue.notification.longestDelay)) }
        return try await read { db in
            var due: [String: Int] = [:]
            for (queue, lanes) in [
                (
                    Queue.notification,
                    [
                        "due_at = 0 AND id > \(NotificationRows.mark)", Schema.setAside,
                        "due_at = 0 AND id BETWEEN \(ended?.lowerBound ?? 1) AND \(ended?.upperBound ?? 0)",
                    ]
                ),
                (.grant, ["authorization_code IS NULL", "authorization_code IS NOT NULL AND granted_at > 0"]),
            ] {
                for lane in lanes {
                    let found = try Int.fetchOne(
                        db,
                        sql: "SELECT COUNT(*) FROM (SELECT 1 FROM \(queue.rawValue) WHERE \(lane) AND due_at <= ? LIMIT ?)",
                        arguments: [now.milliseconds, limit]
                    )
                    due[queue.label, default: 0] += found ?? 0
                }
            }
            return due
        }
    }
}
