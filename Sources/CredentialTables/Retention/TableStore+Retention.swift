// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension TableStore {
    /// Rows per transaction. Settlements wait only briefly for so few.
    var portion: Int { 500 }

    package func forget(at now: Timestamp, naming pseudonymizer: any UserPseudonymizer) async throws {
        try await prune("notification_log", "settled_at", olderThan: now.advanced(by: .zero - retention.notificationLog))
        try await prune("grant_log", "settled_at", olderThan: now.advanced(by: .zero - retention.grantLog))
        try await prune("revocation_log", "settled_at", olderThan: now.advanced(by: .zero - retention.revocationLog))
        // The newest row stays, so that a follower sees that older rows are gone.
        let isNotNewest = "id < (SELECT MAX(id) FROM credential_change)"
        let cutoff = now.advanced(by: .zero - retention.changes)
        try await prune("credential_change", "recorded_at", olderThan: cutoff, where: isNotNewest)
        let quarantineCutoff = now.advanced(by: .zero - retention.quarantine)
        try await walk("notification_quarantine", "rejected_at", olderThan: quarantineCutoff) { connection, ids in
            try QuarantineRow.prune(ids, olderThan: quarantineCutoff, on: connection)
        }
        if retention.payload < retention.notificationLog {
            let cutoff = now.advanced(by: .zero - retention.payload)
            try await erase("payload", as: "''", from: "notification_log", "settled_at", olderThan: cutoff)
        }
        if let address = retention.address {
            try await erase("email", as: "NULL", from: "credential_change", "recorded_at", olderThan: now.advanced(by: .zero - address))
        }
        try await eraseRejectedTokens(olderThan: now.advanced(by: .zero - retention.rejectedToken))
        try await transaction { connection in
            let cutoff = now.advanced(by: .hours(-1))
            try connection.execute("DELETE FROM operator_request WHERE answered_at < \(cutoff) AND position IS NULL")
            // Nobody repeats older requests over HTTP any more.
            try connection.execute("DELETE FROM request_key WHERE told_at < \(now.advanced(by: .zero - RequestKey.life))")
        }
        try await forgetEndedUsers(at: now, naming: pseudonymizer)
        try await forgetOwn(at: now)
    }

    private func prune(_ table: String, _ column: String, olderThan cutoff: Timestamp, where condition: String = "TRUE") async throws {
        try await walk(table, column, olderThan: cutoff) { connection, ids in
            try connection.change(
                """
                DELETE FROM \(sql: table)
                 WHERE id BETWEEN \(ids.lowerBound) AND \(ids.upperBound) AND \(sql: column) < \(cutoff) AND \(sql: condition)
                """
            )
        }
    }

    /// Goes through a table in portions, and deletes in each portion that holds an old row. The oldest rows stand first, so it needs no
    /// index on time. But a wrong clock may have dated some rows. So it goes on for some portions after the last old row, and the next walk
    /// continues there.
    private func walk(
        _ table: String,
        _ column: String,
        olderThan cutoff: Timestamp,
        delete: @escaping @Sendable (Connection, ClosedRange<Int64>) throws -> Void
    ) async throws {
        var progress = upkeep.withLockedValue { $0.pruning[table] } ?? PruneProgress()
        progress.begin(cutoff)
        while progress.goesOn {
            try Task.checkCancellation()
            let last = progress.last
            let portion = try await query { [portion] connection in
                try connection.fetchOne(
                    """
                    SELECT MIN(id), MAX(id), MIN(\(sql: column)),
                           MAX(id) FILTER (WHERE \(sql: column) >= \(cutoff)),
                           MIN(\(sql: column)) FILTER (WHERE \(sql: column) >= \(cutoff))
                      FROM (SELECT id, \(sql: column) FROM \(sql: table) WHERE id > \(last) ORDER BY id LIMIT \(sql: portion)) AS found
                    """
                ).flatMap { PruneProgress.Portion($0) }
            }
            guard let portion else { break }
            if portion.oldest < cutoff { try await transaction { try delete($0, portion.ids) } }
            progress.passed(portion, cutoff: cutoff)
        }
        upkeep.withLockedValue { [progress] in $0.pruning[table] = progress }
    }

    /// Erases a value from old rows that stay. It begins where all older rows are done, and looks beyond newer rows as `walk` does.
    private func erase(_ column: String, as nothing: String, from table: String, _ time: String, olderThan cutoff: Timestamp) async throws {
        let greatest = try await query { try $0.fetchOne("SELECT MAX(id) FROM \(sql: table)")?.integer(at: 0) ?? 0 }
        // The database may give ids again.
        var last = upkeep.withLockedValue { $0.erasedUpTo[table].flatMap { $0 <= greatest ? $0 : nil } } ?? .min
        var (isWhole, vain) = (true, 0)
        while vain < 4 {
            try Task.checkCancellation()
            let rows = try await query { [portion, last] connection in
                try connection.fetchOne(
                    """
                    SELECT MAX(id), MIN(\(sql: time)), MAX(\(sql: time))
                      FROM (SELECT id, \(sql: time) FROM \(sql: table) WHERE id > \(last) ORDER BY id LIMIT \(sql: portion)) AS found
                    """
                ).flatMap { row in row.isNull(at: 0) ? nil : (row.integer(at: 0), row.integer(at: 1), row.integer(at: 2)) }
            }
            guard let (end, oldest, newest) = rows else { break }
            vain = oldest < cutoff.milliseconds ? 0 : vain + 1
            if vain == 0 {
                let erased = try await transaction { [last] connection in
                    try connection.change(
                        """
                        UPDATE \(sql: table) SET \(sql: column) = \(sql: nothing)
                         WHERE id > \(last) AND id <= \(end) AND \(sql: time) < \(cutoff) AND \(sql: column) <> ''
                        """
                    )
                }
                if erased > 0 { tokenWasErased() }
            }
            last = end
            isWhole = isWhole && newest < cutoff.milliseconds
            if isWhole { upkeep.withLockedValue { [last] in $0.erasedUpTo[table] = last } }
        }
    }

    private func eraseRejectedTokens(olderThan cutoff: Timestamp) async throws {
        try await repeatWhileFull { [portion] connection in
            let dialect = connection.dialect
            let erased = try connection.change(
                """
                UPDATE credential AS c SET sealed_token = NULL, due_at = NULL
                  FROM (SELECT user_id, client FROM credential
                         WHERE rejected_at < \(cutoff) AND sealed_token IS NOT NULL AND rejected_at > COALESCE(verified_at, -1)
                         \(dialect.lockOrder("user_id, client")) LIMIT \(sql: portion) \(dialect.skipLocked)) AS old
                 WHERE c.user_id = old.user_id AND c.client = old.client
                """
            )
            if erased > 0 { self.tokenWasErased() }
            return erased
        }
    }

    func repeatWhileFull(_ body: @escaping @Sendable (Connection) throws -> Int) async throws {
        while try await transaction(body) == portion { try Task.checkCancellation() }
    }
}

extension PruneProgress.Portion {
    /// From the least id, the greatest id and the least time of all rows, and the greatest id and the least time of the rows that stay. Nil
    /// if there is no row.
    fileprivate init?(_ row: some TableRow) {
        guard let oldest = row.time(at: 2) else { return nil }
        self.init(ids: row.integer(at: 0)...row.integer(at: 1), oldest: oldest, left: row.time(at: 4).map { (row.integer(at: 3), $0) })
    }
}
