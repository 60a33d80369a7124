// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Foundation
import GRDB
import NIOConcurrencyHelpers

extension SQLiteStore: StoreUpkeep {
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
    }

    /// Makes what was erased unreadable in the files too.
    package func sweep(at now: Timestamp) async throws {
        try await checkpointer?.truncateAfterErasure(at: now)
    }

    /// Since when a reader has kept what was erased readable in the log; nil where nothing is.
    package var logPinnedSince: Timestamp? { checkpointer?.pinnedSince }

    /// What is being asked about, and what waits after a failure, has a due time of its own. A later answer than now is of a clock that has
    /// since been set back: claims see to that.
    package func shortenSchedule(to policy: RefreshPolicy, at now: Timestamp) async throws {
        let clients = directory.withLockedValue { $0.clientsByID.keys.sorted() }
        for client in clients {
            try await repeatWhileFull { db in
                try db.execute(
                    cached: """
                        UPDATE credential
                           SET due_at = MAX(?2 + (due_at - ?2) % ?3, COALESCE(answered_at, 0) + ?3)
                         WHERE (user_id, client) IN (SELECT user_id, client FROM credential
                                                      WHERE client = ?1 AND due_at IS NOT NULL AND due_at > ?4 AND claimed_by IS NULL
                                                        AND failures = 0 AND COALESCE(answered_at, 0) <= ?2
                                                      LIMIT \(Self.portion))
                        """,
                    [client, now.milliseconds, policy.interval.milliseconds, now.advanced(by: policy.repetition).milliseconds]
                )
                return db.changesCount
            }
        }
    }

    private func prune(_ table: String, _ column: String, olderThan cutoff: Timestamp, where condition: String = "TRUE") async throws {
        try await walk(table, column, olderThan: cutoff) { db, ids in
            try db.execute(
                cached: "DELETE FROM \(table) WHERE id BETWEEN ? AND ? AND \(column) < ? AND \(condition)",
                [ids.lowerBound, ids.upperBound, cutoff.milliseconds]
            )
        }
    }

    private func pruneQuarantine(olderThan cutoff: Timestamp) async throws {
        try await walk("notification_quarantine", "rejected_at", olderThan: cutoff) { db, ids in
            try QuarantineRing.prune(ids, olderThan: cutoff, in: db)
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
        delete: @escaping @Sendable (Database, ClosedRange<Int64>) throws -> Void
    ) async throws {
        var progress = pruning.withLockedValue { $0[table] } ?? PruneProgress()
        progress.begin(cutoff)
        while progress.goesOn {
            let last = progress.last
            let portion = try await read { db in
                try Row.fetchOne(
                    db.cachedStatement(
                        sql: """
                            SELECT MIN(id), MAX(id), MIN(\(column)),
                                   MAX(id) FILTER (WHERE \(column) >= ?2), MIN(\(column)) FILTER (WHERE \(column) >= ?2)
                              FROM (SELECT id, \(column) FROM \(table) WHERE id > ?1 ORDER BY id LIMIT \(Self.portion))
                            """
                    ),
                    arguments: [last, cutoff.milliseconds]
                ).flatMap { PruneProgress.Portion($0) }
            }
            guard let portion else { break }
            if portion.oldest < cutoff { try await write { db in try delete(db, portion.ids) } }
            progress.passed(portion, cutoff: cutoff)
        }
        pruning.withLockedValue { [progress] in $0[table] = progress }
    }

    private func eraseRejectedTokens(olderThan cutoff: Timestamp) async throws {
        let checkpointer = checkpointer
        try await repeatWhileFull { db in
            try db.execute(
                cached: """
                    UPDATE credential SET sealed_token = NULL, due_at = NULL
                     WHERE (user_id, client) IN (SELECT user_id, client FROM credential
                                                  WHERE rejected_at < ? AND sealed_token IS NOT NULL
                                                    AND rejected_at > COALESCE(verified_at, -1)
                                                  LIMIT \(Self.portion))
                    """,
                [cutoff.milliseconds]
            )
            if db.changesCount > 0 { checkpointer?.mustTruncate() }
            return db.changesCount
        }
    }

    /// Looks at the rejections that were believed an hour ago or earlier.
    ///
    /// - Returns: of how many of them no notification has come, by app. Each is counted once.
    package func countMissedNotifications(at now: Timestamp) async throws -> [String: Int] {
        let before = now.advanced(by: .zero - SettlementRules.longestWaitForNotification)
        var missed: [String: Int] = [:]
        while true {
            let (portion, counts) = try await write { db in
                // What waits in the queue may be the notification: after a stop this would look too soon.
                let oldest = try Int64.fetchOne(
                    db.cachedStatement(
                        sql: "SELECT received_at FROM notification_queue WHERE id = (SELECT MIN(id) FROM notification_queue)"
                    )
                ).map { Timestamp(milliseconds: $0).advanced(by: .zero - SettlementRules.longestWaitForNotification) }
                return try Self.countMissedNotifications(admittedBefore: min(before, oldest ?? before), in: db)
            }
            missed.merge(counts) { $0 + $1 }
            if portion < Self.portion { return missed }
        }
    }

    /// An event of this sign-in explains a rejection, whenever it came. One that was taken back needs no explanation.
    private static func countMissedNotifications(admittedBefore time: Timestamp, in db: Database) throws -> (Int, [String: Int]) {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT a.id, app.id, app.name,
                           EXISTS (SELECT 1 FROM user_event e
                                    WHERE e.user_id = a.user_id AND e.app = a.app
                                      AND (e.consent_revoked_at >= a.granted_at OR e.deleted_at >= a.granted_at)),
                           EXISTS (SELECT 1 FROM credential c
                                    WHERE c.user_id = a.user_id AND c.client = a.client AND c.token_granted_at = a.granted_at
                                      AND c.verified_at >= a.rejected_at)
                      FROM admitted_rejection a JOIN app ON app.id = a.app
                     WHERE a.admitted_at <= ? ORDER BY a.admitted_at LIMIT \(portion)
                    """
            ),
            arguments: [time.milliseconds]
        )
        var missed: [String: Int] = [:]
        for row in rows {
            let (app, name, isNotified, isTakenBack): (Int64, String, Bool, Bool) = (row[1], row[2], row[3], row[4])
            try db.execute(cached: "DELETE FROM admitted_rejection WHERE id = ?", [row[0] as Int64])
            if isTakenBack { continue }
            try db.execute(
                cached: "UPDATE app SET admitted = admitted + 1, missed = missed + ? WHERE id = ?",
                [isNotified ? 0 : 1, app]
            )
            if !isNotified { missed[name, default: 0] += 1 }
        }
        return (rows.count, missed)
    }

    private func forgetAnsweredRequests(before cutoff: Timestamp) async throws {
        try await write { db in
            try db.execute(
                cached: "DELETE FROM operator_request WHERE answered_at < ? AND position IS NULL",
                [cutoff.milliseconds]
            )
        }
    }

    private func repeatWhileFull(_ body: @escaping @Sendable (Database) throws -> Int) async throws {
        while try await write(body) == Self.portion {}
    }
}

extension PruneProgress.Portion {
    /// From the least and the greatest id and the least time; then, of those that stay, the greatest id and the least time. Nil where
    /// there is no row.
    fileprivate init?(_ row: Row) {
        guard let first: Int64 = row[0], let last: Int64 = row[1], let oldest: Int64 = row[2] else { return nil }
        self.init(ids: first...last, oldest: Timestamp(milliseconds: oldest), left: nil)
        if let lastID: Int64 = row[3], let time: Int64 = row[4] { left = (lastID, Timestamp(milliseconds: time)) }
    }
}
