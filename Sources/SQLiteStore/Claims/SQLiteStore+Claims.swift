// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import CredentialTables
import NIOConcurrencyHelpers

extension SQLiteStore {
    package func claim<Choice: Sendable, Work: Sendable>(
        choosing choose: @escaping @Sendable (SQLiteConnection) throws -> Choice?,
        taking take: @escaping @Sendable (SQLiteConnection, Choice) throws -> [Work]
    ) async throws -> [Work] {
        guard let choice = try await query(choose) else { return [] }
        return try await transaction { connection in try take(connection, choice) }
    }

    package func claimRows<Work: Sendable>(
        of lane: QueueLane,
        upTo limit: Int,
        at now: Timestamp,
        lease: Duration,
        suspects: Bool,
        _ read: @escaping @Sendable (PreparedStatement.Columns) -> Work
    ) async throws -> [Work] {
        let waiting: SQL = "\(sql: lane.queue.rawValue) WHERE \(sql: lane.condition)"
        let furthest = now.advanced(by: lane.queue.longestDelay)
        return try await claim { connection -> Bool? in
            let isLate: SQL = "SELECT 1 FROM \(waiting) AND due_at > \(furthest)"
            let isDue = try connection.exists("SELECT 1 FROM \(waiting) AND due_at <= \(now)") || connection.exists(isLate)
            return isDue && limit > 0 ? true : nil
        } taking: { [owner] connection, _ in
            let isLate: SQL = "\(sql: lane.condition) AND due_at > \(furthest)"
            try connection.execute("UPDATE \(sql: lane.queue.rawValue) SET due_at = \(now) WHERE \(isLate)")
            var rows: [(id: Int64, attempts: Int)] = []
            for due in Self.turns(of: lane.queue, at: now) where rows.count < limit {
                let isDue: SQL = "due_at BETWEEN \(due.from) AND \(due.to) ORDER BY due_at, id LIMIT \(limit - rows.count)"
                rows += try connection.fetchAll("SELECT id, attempts FROM \(waiting) AND \(isDue)").map { (id: $0[0], attempts: $0[1]) }
            }
            let ids = Claim.claimable(rows, suspects: suspects).map { bound($0) }
            let take = RowStatement.take(lane.queue, returning: "due_at, \(lane.returning)")
            return try connection.read(connection.ask(take, ids, bound(now.advanced(by: lease), owner)), read)
        }
    }

    /// Due times in the order in which siwatch claims their rows. A sign-in that was claimed before goes before all new ones, whose due
    /// time is 0, because an event waits six minutes for it, and an import may take longer. A postponed sign-in also goes before them, once
    /// in six hours.
    private static func turns(of queue: Queue, at now: Timestamp) -> [(from: Timestamp, to: Timestamp)] {
        switch queue {
        case .grant: [(from: Timestamp(milliseconds: 1), to: now), (from: .earliest, to: Timestamp(milliseconds: 0))]
        case .notification, .revocation: [(from: .earliest, to: now)]
        }
    }
}

extension SQLiteConnection {
    package func begin(_ search: CheckSearch, at now: Timestamp) -> Timestamp { .earliest }
    package func end(_ search: CheckSearch, at now: Timestamp, from first: Timestamp?, upTo place: Timestamp) {}
}

/// Claims of notifications, one run at a time.
///
/// A notification that siwatch has not postponed is *new*: its `due_at` is 0. Ids grow, so one durable mark says which new rows are
/// claimed: all rows up to the mark. The mark costs one small write for thousands of rows, and no write to their index. A process that dies
/// or a lease that ends leaves new rows up to the mark. siwatch *sets these rows aside* and writes an attempt on each. Postponed rows are
/// set aside too. Each row set aside has a claim of its own, with a write of its own.
extension SQLiteStore {
    package func claimNotifications(upTo limit: Int, at now: Timestamp, lease: Duration, suspects: Bool) async throws
        -> [ClaimedNotification]
    {
        let furthest = now.advanced(by: Queue.notification.longestDelay)
        let (ended, live) = runs.withLockedValue { ($0.ended(at: now, furthest: furthest), $0.hull) }
        guard limit > 0, try await isNotificationDue(at: now, furthest: furthest, ended: ended, live: live) else { return [] }
        // Read before the write, so that the write stays short.
        let new = try await query { [owner] in try NotificationRows(connection: $0, owner: owner).new(upTo: limit) }
        let claimed = try await transaction { [owner, runs] connection -> [ClaimedNotification]? in
            let rows = NotificationRows(connection: connection, owner: owner)
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

    private func isNotificationDue(at now: Timestamp, furthest: Timestamp, ended: ClosedRange<Int64>?, live: ClosedRange<Int64>?)
        async throws -> Bool
    {
        try await query { [owner] connection in
            if try NotificationRows(connection: connection, owner: owner).haveBegunAnew(besides: live) { return true }
            let conditions: [SQL] = [
                "due_at = 0 AND id > \(sql: NotificationRows.mark)", "\(sql: Tables.setAside) AND due_at <= \(now)",
                "\(sql: Tables.setAside) AND due_at > \(furthest)",
                "due_at = 0 AND id BETWEEN \(ended?.lowerBound ?? 1) AND \(ended?.upperBound ?? 0)",
            ]
            return try conditions.contains { try connection.exists("SELECT 1 FROM notification_queue WHERE \($0)") }
        }
    }
}

/// Runs of claimed new rows, oldest first, in memory. If the process dies, the mark remains, and the next process uses it.
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

    /// The ids of the first runs whose lease has ended, or ends later than any lease can, because a clock was set back.
    func ended(at now: Timestamp, furthest: Timestamp) -> ClosedRange<Int64>? {
        let ended = runs.prefix { $0.end <= now || $0.end > furthest }
        guard let first = ended.first, let last = ended.last else { return nil }
        return first.ids.lowerBound...last.ids.upperBound
    }

    mutating func forget(upTo id: Int64) { runs.removeAll { $0.ids.upperBound <= id } }
}
