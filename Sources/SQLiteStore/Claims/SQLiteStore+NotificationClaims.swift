// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import GRDB
import NIOConcurrencyHelpers

/// Claims of notifications, one run at a time.
///
/// A notification that siwatch has not postponed is *new*: its `due_at` is 0. Ids grow, so one durable mark says which new rows are
/// claimed: all rows up to the mark. The mark costs one small write for thousands of rows, and no write to their index. A process that dies
/// or a lease that ends leaves new rows up to the mark. siwatch *sets these rows aside* and writes an attempt on each. Postponed rows are
/// set aside too. Each row set aside has a claim of its own, with a write of its own.
extension SQLiteStore {
    package func claimNotifications(
        upTo limit: Int,
        at now: Timestamp,
        lease: Duration,
        suspects: Bool
    ) async throws -> [ClaimedNotification] {
        let furthest = now.advanced(by: Queue.notification.longestDelay)
        let (ended, live) = runs.withLockedValue { ($0.ended(at: now, furthest: furthest), $0.hull) }
        guard limit > 0, try await isNotificationDue(at: now, furthest: furthest, ended: ended, live: live) else { return [] }
        // Read before the write, so that the write stays short.
        let new = try await read { [owner] db in try NotificationRows(db: db, owner: owner).new(upTo: limit) }
        let claimed = try await write { [owner, runs] db -> [ClaimedNotification]? in
            let rows = NotificationRows(db: db, owner: owner)
            if try rows.haveBegunAnew(besides: runs.withLockedValue(\.hull)) {
                try rows.takeInAnew()
                runs.withLockedValue { $0 = ClaimedRuns() }
            }
            if let ended { try rows.setAside(ended, dueAt: now, heldBy: owner) }
            try rows.bringBack(from: furthest, to: now)
            let aside = try rows.due(at: now, upTo: limit)
            // Rows that a former process left are older than all new rows.
            if aside.first?.isLeftBehind != true, let last = new.last {
                guard try rows.moveMark(from: new[0].id, to: last.id) else { return nil }
                // Add the run before the commit. A row up to the mark and in no run would look as if ids had begun anew.
                runs.withLockedValue { $0.add(new[0].id...last.id, until: now.advanced(by: lease)) }
                return new
            }
            let ids = Claim.claimable(aside.map { ($0.id, $0.attempts) }, suspects: suspects)
            return try rows.claim(ids, until: now.advanced(by: lease))
        }
        guard let claimed else {
            // Another claim has taken the new rows.
            return try await claimNotifications(upTo: limit, at: now, lease: lease, suspects: suspects)
        }
        if let ended { runs.withLockedValue { $0.forget(upTo: ended.upperBound) } }
        return claimed
    }

    private func isNotificationDue(
        at now: Timestamp,
        furthest: Timestamp,
        ended: ClosedRange<Int64>?,
        live: ClosedRange<Int64>?
    ) async throws -> Bool {
        try await read { [owner] db in
            if try NotificationRows(db: db, owner: owner).haveBegunAnew(besides: live) { return true }
            return try PreparedStatement(
                """
                SELECT EXISTS (SELECT 1 FROM notification_queue WHERE due_at = 0 AND id > \(NotificationRows.mark))
                    OR EXISTS (SELECT 1 FROM notification_queue WHERE \(Tables.setAside) AND due_at <= ?1)
                    OR EXISTS (SELECT 1 FROM notification_queue WHERE \(Tables.setAside) AND due_at > ?2)
                    OR EXISTS (SELECT 1 FROM notification_queue WHERE due_at = 0 AND id BETWEEN ?3 AND ?4)
                """,
                in: db
            ).first(now, furthest, ended?.lowerBound, ended?.upperBound) { $0.integer(at: 0) != 0 } ?? false
        }
    }
}

/// Runs of claimed new rows, oldest first. They are in memory only. If the process dies, the mark remains, and the next process uses the
/// mark.
struct ClaimedRuns {
    private var runs: [(ids: ClosedRange<Int64>, end: Timestamp)] = []

    mutating func add(_ ids: ClosedRange<Int64>, until end: Timestamp) {
        // The next claim takes an uncommitted run's rows again.
        runs.removeAll { $0.ids.upperBound >= ids.lowerBound }
        runs.append((ids, end))
    }

    /// The ids from the first run to the last.
    var hull: ClosedRange<Int64>? {
        guard let first = runs.first, let last = runs.last else { return nil }
        return first.ids.lowerBound...last.ids.upperBound
    }

    /// The ids of the first runs whose lease has ended, or ends later than any lease can. A clock that has since been set back makes such a
    /// lease.
    func ended(at now: Timestamp, furthest: Timestamp) -> ClosedRange<Int64>? {
        let ended = runs.prefix { $0.end <= now || $0.end > furthest }
        guard let first = ended.first, let last = ended.last else { return nil }
        return first.ids.lowerBound...last.ids.upperBound
    }

    mutating func forget(upTo id: Int64) {
        runs.removeAll { $0.ids.upperBound <= id }
    }
}
