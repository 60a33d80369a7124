// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables

/// The state of the queues. The claims say which rows are due.
extension PostgresStore {
    /// siwatch counts up to this many rows of a queue one by one. Beyond, it takes the span of ids, which is never too small.
    private static let mostCounted = 100_000

    package func queues(in connection: Connection) throws -> [QueueStatus] {
        let answers = try Queue.allCases.map { queue in
            try connection.send(
                """
                SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM \(sql: queue.rawValue) LIMIT \(Self.mostCounted)) q),
                       (SELECT MAX(id) - MIN(id) + 1 FROM \(sql: queue.rawValue)),
                       (SELECT \(sql: queue.arrivalColumn) FROM \(sql: queue.rawValue) ORDER BY id LIMIT 1),
                       COALESCE((SELECT value FROM counter WHERE name = \(queue.removedCounter)), 0)
                """
            )
        }
        return try zip(Queue.allCases, answers).map { queue, answer in
            let row = try connection.rows(of: answer).first
            let counted = row?.int(at: 0) ?? 0
            return QueueStatus(
                queue: queue.label,
                depth: counted < Self.mostCounted ? counted : max(counted, row?.int(at: 1) ?? 0),
                oldest: row?.time(at: 2)?.milliseconds,
                settled: row?.int(at: 3) ?? 0
            )
        }
    }

    package func dueRows(at now: Timestamp, upTo limit: Int, in connection: Connection) throws -> [String: Int] {
        let lanes = [
            (Queue.notification, Tables.anyNotification), (.grant, "authorization_code IS NULL"),
            (.grant, "authorization_code IS NOT NULL"),
        ]
        let answers = try lanes.map { queue, lane in
            let due: SQL = "SELECT 1 FROM \(sql: queue.rawValue) WHERE \(sql: lane) AND due_at <= \(now) LIMIT \(limit)"
            return (queue, try connection.send("SELECT COUNT(*) FROM (\(due)) q"))
        }
        return try answers.reduce(into: [:]) { due, lane in
            due[lane.0.label, default: 0] += try connection.rows(of: lane.1).integer
        }
    }
}
