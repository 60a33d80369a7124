// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension TableStore {
    /// Rows per transaction. Settlements wait only briefly for so few.
    var portion: Int { 500 }

    /// Deletes rows that have passed their retention. Call it only at a time that can be trusted.
    package func forget(at now: Timestamp, naming pseudonymizer: any UserPseudonymizer) async throws {
        try await prune("notification_log", "settled_at", olderThan: now.advanced(by: .zero - retention.notificationLog))
        try await prune("grant_log", "settled_at", olderThan: now.advanced(by: .zero - retention.grantLog))
        try await prune("revocation_log", "settled_at", olderThan: now.advanced(by: .zero - retention.revocationLog))
        // The newest row stays, so that a follower sees that older rows are gone.
        try await prune(
            "credential_change",
            "recorded_at",
            olderThan: now.advanced(by: .zero - retention.changes),
            where: "id < (SELECT MAX(id) FROM credential_change)"
        )
        try await pruneQuarantine(olderThan: now.advanced(by: .zero - retention.quarantine))
        if retention.payload < retention.notificationLog {
            try await erase(
                "payload",
                as: "''",
                from: "notification_log",
                "settled_at",
                olderThan: now.advanced(by: .zero - retention.payload)
            )
        }
        if let address = retention.address {
            try await erase("email", as: "NULL", from: "credential_change", "recorded_at", olderThan: now.advanced(by: .zero - address))
        }
        try await eraseRejectedTokens(olderThan: now.advanced(by: .zero - retention.rejectedToken))
        try await forgetAnsweredRequests(before: now.advanced(by: .hours(-1)))
        try await forgetRequestKeys(before: now.advanced(by: .zero - RequestKey.life))
        try await forgetEndedUsers(at: now, naming: pseudonymizer)
        try await forgetOwn(at: now)
    }

    /// Brings checks forward that are due later than the interval allows.
    ///
    /// Claimed credentials and credentials that wait after a failure keep their due times. An answer later than now comes from a clock that
    /// has since been set back. Claims repair that.
    package func shortenSchedule(to policy: RefreshPolicy, at now: Timestamp) async throws {
        let clients = directory.withLockedValue { $0.clientsByID.keys.sorted() }
        for client in clients {
            try await repeatWhileFull { [portion] connection in
                let dialect = connection.dialect
                return try connection.change(
                    """
                    UPDATE credential AS c
                       SET due_at = \(dialect.greatest)(\(now) + (c.due_at - \(now)) % \(policy.interval),
                                                       COALESCE(c.answered_at, 0) + \(policy.interval))
                      FROM (SELECT user_id, client FROM credential
                             WHERE client = \(client) AND due_at IS NOT NULL AND due_at > \(now.advanced(by: policy.repetition))
                               AND claimed_by IS NULL
                               AND failures = 0 AND COALESCE(answered_at, 0) <= \(now)
                             \(dialect.lockOrder("user_id, client")) LIMIT \(sql: portion) \(dialect.skipLocked)) AS late
                     WHERE c.user_id = late.user_id AND c.client = late.client
                    """
                )
            }
        }
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

    private func pruneQuarantine(olderThan cutoff: Timestamp) async throws {
        try await walk("notification_quarantine", "rejected_at", olderThan: cutoff) { connection, ids in
            try QuarantineRow.prune(ids, olderThan: cutoff, on: connection)
        }
    }

    /// Goes through a table in portions, and deletes in each portion that holds an old row.
    ///
    /// siwatch appends rows in the order of time, so the oldest stand first, and the walk needs no index on time. But a wrong clock may
    /// have dated some rows. So the walk goes on for some portions after the last old row, and the next walk continues there.
    private func walk(
        _ table: String,
        _ column: String,
        olderThan cutoff: Timestamp,
        delete: @escaping @Sendable (Connection, ClosedRange<Int64>) throws -> Void
    ) async throws {
        var progress = pruning.withLockedValue { $0[table] } ?? PruneProgress()
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
        pruning.withLockedValue { [progress] in $0[table] = progress }
    }

    /// Erases a value from old rows that stay. It begins where all older rows are done, and looks beyond newer rows as `walk` does.
    private func erase(_ column: String, as nothing: String, from table: String, _ time: String, olderThan cutoff: Timestamp) async throws {
        let greatest = try await query { try $0.fetchOne("SELECT MAX(id) FROM \(sql: table)")?.integer(at: 0) ?? 0 }
        // The database may give ids again.
        var last = erasedUpTo.withLockedValue { $0[table].flatMap { $0 <= greatest ? $0 : nil } } ?? .min
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
            if isWhole { erasedUpTo.withLockedValue { [last] in $0[table] = last } }
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

    private func forgetAnsweredRequests(before cutoff: Timestamp) async throws {
        try await transaction { connection in
            try connection.execute("DELETE FROM operator_request WHERE answered_at < \(cutoff) AND position IS NULL")
        }
    }

    private func repeatWhileFull(_ body: @escaping @Sendable (Connection) throws -> Int) async throws {
        while try await transaction(body) == portion { try Task.checkCancellation() }
    }
}

extension PruneProgress.Portion {
    /// - Parameter row: the least id, the greatest id and the least time of all rows; then the greatest id and the least time of the rows
    ///   that stay. The result is nil if there is no row.
    fileprivate init?(_ row: some TableRow) {
        guard let oldest = row.time(at: 2) else { return nil }
        self.init(ids: row.integer(at: 0)...row.integer(at: 1), oldest: oldest, left: row.time(at: 4).map { (row.integer(at: 3), $0) })
    }
}
