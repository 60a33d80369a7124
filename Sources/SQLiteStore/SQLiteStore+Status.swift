// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
internal import GRDB
internal import Synchronization

extension SQLiteStore: CredentialReader {
    package func queues() async throws -> [QueueStatus] {
        try await read { db in
            try Queue.allCases.map { queue in
                // Every row ever appended, less those that have left.
                let depth = try Int.fetchOne(
                    db.cachedStatement(
                        sql: """
                            SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = '\(queue.rawValue)'), 0)
                                 - COALESCE((SELECT value FROM counter WHERE name = '\(queue.removedCounter)'), 0)
                            """
                    )
                )
                let oldest = try Int64.fetchOne(
                    db.cachedStatement(sql: "SELECT \(queue.arrivalColumn) FROM \(queue.rawValue) ORDER BY id LIMIT 1")
                )
                return QueueStatus(queue: queue.label, depth: max(depth ?? 0, 0), oldest: oldest)
            }
        }
    }

    package func credentialCounts() async throws -> [CredentialCount] {
        try await read { db in
            try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT app.name, credential_count.state, credential_count.count
                          FROM credential_count JOIN app ON app.id = credential_count.app
                         ORDER BY app.name, credential_count.state
                        """
                )
            ).map { CredentialCount(app: $0[0], state: $0[1], count: $0[2]) }
        }
    }

    package func overdueCredentials(before time: Timestamp, upTo limit: Int) async throws -> [String: Int] {
        let apps = directory.withLock { $0.apps.values }
        return try await read { db in
            var overdue: [String: Int] = [:]
            for app in apps {
                overdue[app.name] = try Int.fetchOne(
                    db.cachedStatement(
                        sql: "SELECT COUNT(*) FROM (SELECT 1 FROM credential WHERE app = ? AND due_at < ? LIMIT ?)"
                    ),
                    arguments: [app.id, time.milliseconds, limit]
                )
            }
            return overdue
        }
    }
}

extension Queue {
    fileprivate var arrivalColumn: String {
        switch self {
        case .notification: "received_at"
        case .grant: "granted_at"
        case .revocation: "requested_at"
        }
    }
}
