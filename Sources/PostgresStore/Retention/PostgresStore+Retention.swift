// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension PostgresStore: StoreUpkeep {
    /// Rows per transaction: few enough that no settlement waits long for them.
    private static let portion = 500

    /// Deletes what has passed its retention. Only at a time that can be trusted.
    package func forget(at now: Timestamp) async throws {
        try await prune("notification_log", "settled_at", olderThan: now.advanced(by: .zero - retention.notificationLog))
        try await prune("grant_log", "settled_at", olderThan: now.advanced(by: .zero - retention.grantLog))
        try await prune("revocation_log", "settled_at", olderThan: now.advanced(by: .zero - retention.revocationLog))
        // The newest stays, so that a follower sees that others have gone.
        try await prune(
            "credential_change",
            "recorded_at",
            olderThan: now.advanced(by: .zero - retention.changes),
            where: "id < (SELECT MAX(id) FROM credential_change)"
        )
        try await pruneQuarantine(olderThan: now.advanced(by: .zero - retention.quarantine))
        try await eraseRejectedTokens(olderThan: now.advanced(by: .zero - retention.rejectedToken))
        try await forgetAnsweredRequests(before: now.advanced(by: .hours(-1)))
        try await forgetBatches(before: now.advanced(by: .days(-1)))
    }

    /// What was erased stays in dead rows until the server's vacuum has passed, and in its log and archives: that is theirs to end.
    package func sweep(at now: Timestamp) async throws {
        try await endStalledTransactions()
    }

    package var logPinnedSince: Timestamp? {
        get async throws { try await oldestSnapshot(heldFor: .seconds(60)) }
    }

    /// Since when somebody holds a snapshot of the database, or has written and not committed: vacuum leaves what they may still see. A
    /// vacuum itself is in nobody's way. Of other users the server tells that to members of `pg_read_all_stats`.
    ///
    /// - Parameter time: nil is returned where none is older.
    func oldestSnapshot(heldFor time: Duration) async throws -> Timestamp? {
        try await reader.run { connection in
            try connection.rows(
                """
                SELECT (floor(extract(epoch FROM MIN(since)) * 1000))::bigint
                  FROM (SELECT COALESCE(xact_start, query_start) AS since FROM pg_stat_activity
                         WHERE num_nulls(backend_xmin, backend_xid) < 2 AND datname = current_database() AND pid <> pg_backend_pid()
                           AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
                        UNION ALL SELECT prepared FROM pg_prepared_xacts WHERE database = current_database()) held
                 WHERE since <= clock_timestamp() - $1 * INTERVAL '1 millisecond'
                """,
                time
            ).first?.time(at: 0)
        }
    }

    /// What is being asked about, and what waits after a failure, has a due time of its own. A later answer than now is of a clock that has
    /// since been set back: claims see to that.
    package func shortenSchedule(to policy: RefreshPolicy, at now: Timestamp) async throws {
        let clients = directory.withLockedValue { $0.clientsByID.keys.sorted() }
        for client in clients {
            try await repeatWhileFull { connection in
                try connection.run(
                    """
                    UPDATE credential c SET due_at = GREATEST($2 + (c.due_at - $2) % $3, COALESCE(c.answered_at, 0) + $3)
                      FROM (SELECT user_id, client FROM credential
                             WHERE client = $1 AND due_at IS NOT NULL AND due_at > $4 AND claimed_by IS NULL
                               AND failures = 0 AND COALESCE(answered_at, 0) <= $2
                             ORDER BY user_id, client LIMIT \(Self.portion) FOR UPDATE SKIP LOCKED) late
                     WHERE c.user_id = late.user_id AND c.client = late.client
                    """,
                    client,
                    now,
                    policy.interval,
                    now.advanced(by: policy.repetition)
                )
            }
        }
    }

    private func prune(_ table: String, _ column: String, olderThan cutoff: Timestamp, where condition: String = "TRUE") async throws {
        try await walk(table, column, olderThan: cutoff) { connection, ids in
            try connection.run(
                "DELETE FROM \(table) WHERE id BETWEEN $1 AND $2 AND \(column) < $3 AND \(condition)",
                ids.lowerBound,
                ids.upperBound,
                cutoff
            )
        }
    }

    private func pruneQuarantine(olderThan cutoff: Timestamp) async throws {
        try await walk("notification_quarantine", "rejected_at", olderThan: cutoff) { connection, ids in
            try QuarantineRing.prune(ids, olderThan: cutoff, on: connection)
        }
    }

    /// Goes through a table in portions and deletes where one holds something old.
    ///
    /// Rows are appended in the order of time, so the oldest stand first, and no index on time is needed. But some may have been written
    /// under a wrong clock. So the walk goes on for some portions after the last that held anything old, and the next one continues it.
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
            let portion = try await reader.run { connection in
                try connection.rows(
                    """
                    SELECT MIN(id), MAX(id), MIN(\(column)),
                           MAX(id) FILTER (WHERE \(column) >= $2), MIN(\(column)) FILTER (WHERE \(column) >= $2)
                      FROM (SELECT id, \(column) FROM \(table) WHERE id > $1 ORDER BY id LIMIT \(Self.portion)) p
                    """,
                    last,
                    cutoff
                ).first.flatMap { PruneProgress.Portion($0) }
            }
            guard let portion else { break }
            if portion.oldest < cutoff { try await writer.transaction { try delete($0, portion.ids) } }
            progress.passed(portion, cutoff: cutoff)
        }
        pruning.withLockedValue { [progress] in $0[table] = progress }
    }

    private func eraseRejectedTokens(olderThan cutoff: Timestamp) async throws {
        try await repeatWhileFull { connection in
            try connection.run(
                """
                UPDATE credential c SET sealed_token = NULL, due_at = NULL
                  FROM (SELECT user_id, client FROM credential
                         WHERE rejected_at < $1 AND sealed_token IS NOT NULL AND rejected_at > COALESCE(verified_at, -1)
                         ORDER BY user_id, client LIMIT \(Self.portion) FOR UPDATE SKIP LOCKED) old
                 WHERE c.user_id = old.user_id AND c.client = old.client
                """,
                cutoff
            )
        }
    }

    private func forgetAnsweredRequests(before cutoff: Timestamp) async throws {
        _ = try await writer.transaction { connection in
            try connection.run("DELETE FROM operator_request WHERE answered_at < $1 AND position IS NULL", cutoff)
        }
    }

    /// Of processes that are gone.
    private func forgetBatches(before cutoff: Timestamp) async throws {
        _ = try await writer.transaction { connection in
            try connection.run(
                "DELETE FROM settled_batch b WHERE settled_at < $1 AND NOT EXISTS (SELECT 1 FROM replica r WHERE r.owner = b.owner)",
                cutoff
            )
        }
    }

    private func repeatWhileFull(_ body: @escaping @Sendable (Connection) throws -> Int) async throws {
        while try await writer.transaction(body) == Self.portion { try Task.checkCancellation() }
    }

    // MARK: Notifications that never came

    /// Looks at the rejections that were believed an hour ago or earlier.
    ///
    /// - Returns: of how many of them no notification has come, by app. Each is counted once.
    package func countMissedNotifications(at now: Timestamp) async throws -> [String: Int] {
        let before = now.advanced(by: .zero - SettlementRules.longestWaitForNotification)
        var missed: [String: Int] = [:]
        while true {
            let (portion, counts) = try await writer.transaction { connection in
                // What waits in the queue may be the notification: after a stop this would look too soon.
                let oldest = try connection.rows("SELECT received_at FROM notification_queue ORDER BY id LIMIT 1").first?.time(at: 0)
                    .map { $0.advanced(by: .zero - SettlementRules.longestWaitForNotification) }
                return try Self.countMissedNotifications(admittedBefore: min(before, oldest ?? before), on: connection)
            }
            missed.merge(counts) { $0 + $1 }
            // What is counted is counted: a stop leaves the rest for the next time.
            if portion < Self.portion || Task.isCancelled { return missed }
        }
    }

    /// An event of this sign-in explains a rejection, whenever it came. One that was taken back needs no explanation.
    private static func countMissedNotifications(admittedBefore time: Timestamp, on connection: Connection) throws -> (Int, [String: Int]) {
        let rows = try connection.rows(
            """
            WITH old AS (
              DELETE FROM admitted_rejection
               WHERE id IN (SELECT id FROM admitted_rejection WHERE admitted_at <= $1 ORDER BY admitted_at LIMIT \(portion) FOR UPDATE SKIP LOCKED)
              RETURNING *)
            SELECT app.id, app.name,
                   EXISTS (SELECT 1 FROM user_event e
                            WHERE e.user_id = a.user_id AND e.app = a.app
                              AND (e.consent_revoked_at >= a.granted_at OR e.deleted_at >= a.granted_at)),
                   EXISTS (SELECT 1 FROM credential c
                            WHERE c.user_id = a.user_id AND c.client = a.client AND c.token_granted_at = a.granted_at
                              AND c.verified_at >= a.rejected_at)
              FROM old a JOIN app ON app.id = a.app
            """,
            time
        )
        var missed: [String: Int] = [:]
        if rows.count > 0 { try connection.lockTail() }
        try rows.forEach { row in
            let (isNotified, isTakenBack) = (row.bool(at: 2), row.bool(at: 3))
            if isTakenBack { return }
            try connection.send(
                "UPDATE app SET admitted = admitted + 1, missed = missed + $2 WHERE id = $1",
                row.integer(at: 0),
                isNotified ? 0 : 1
            )
            if !isNotified { missed[row.text(at: 1) ?? "", default: 0] += 1 }
        }
        return (rows.count, missed)
    }
}

extension PruneProgress.Portion {
    /// From the least and the greatest id and the least time; then, of those that stay, the greatest id and the least time. Nil where
    /// there is no row.
    fileprivate init?(_ row: Row) {
        guard let oldest = row.time(at: 2) else { return nil }
        self.init(ids: row.integer(at: 0)...row.integer(at: 1), oldest: oldest, left: row.time(at: 4).map { (row.integer(at: 3), $0) })
    }
}
