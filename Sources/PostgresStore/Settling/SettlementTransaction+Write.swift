// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// Writes the changes: rows that leave their queues, users, and last the tail, with the change feed and the counts.
extension SettlementTransaction {
    /// - Returns: a closure that gives the result after the commit.
    func write(_ changes: SettlementChanges) throws -> () throws -> SettledBatch {
        let settled = SettledBatch(
            results: changes.results,
            announcements: changes.announcements,
            breakers: changes.knownBreakers,
            replenished: changes.replenished
        )
        var queues = QueueWrites(on: connection, at: now)
        try queues.add(changes.queueRows, RevocationRows(on: connection, directory: directory, at: now))
        let duplicates = try queues.send()
        // Clear before saving the batch's own rows over it, because a rejection that came after the opening may be pending again.
        let openedApps = changes.openedApps.map { directory.app($0).id }.sorted()
        for app in openedApps { try sendClearPending(of: app) }
        let users = UserTable(connection: connection, directory: directory)
        try users.sendSave(changes.users)
        try users.sendRemoveEmpty(changes.users)
        try send(changes.admitted)
        for (app, breaker) in changes.breakers { try BreakerRow.save(breaker, of: directory.app(app).id, on: connection) }
        try sendFeed(changes.announcements)
        try connection.add(changes.tallies, in: directory)
        try sendCounts(changes)
        for (queue, count) in queues.removed { try connection.add(count, to: queue.removedCounter) }
        for (app, brake) in changes.brakes { try BrakeRow.save(brake, of: directory.app(app).id, on: connection) }
        for app in openedApps { try BreakerRow.countPending(of: app, on: connection) }
        let evicted = try queues.quarantine.sendMakeRoom()
        try connection.sendCommit()
        return { [settled] in
            var settled = settled
            // If the answer was lost, the duplicates count as other notifications.
            duplicates?.rows?.forEach { settled.results[$0.int(at: 0)] = .notification(.duplicate) }
            settled.evicted = evicted.reduce(0) { $0 + ($1.rows?.first?.int(at: 0) ?? 0) }
            return settled
        }
    }

    /// Begins the tail. One message brings the lock and the rows that need it, so that a replica that stalls in mid-send does not hold the
    /// lock.
    private func sendFeed(_ announcements: [Announcement]) throws {
        guard !announcements.isEmpty else { return try connection.lockSettlements() }
        var rows = RowArrays()
        for entry in announcements { rows.append(entry.values(at: now)) }
        try connection.send(
            """
            WITH tail AS MATERIALIZED (\(SettlementLock.lock))
            INSERT INTO credential_change (\(Announcement.columns))
            SELECT \(Announcement.columns)
              FROM tail CROSS JOIN unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) WITH ORDINALITY
                   AS n (\(Announcement.columns), place)
             ORDER BY n.place
            """,
            rows
        )
    }

    /// Does `CredentialRecord.forgetRejection` for all pending rejections of an app.
    ///
    /// Here a settlement waits for credentials while it holds a breaker, against the order of locks. It must not skip locked rows, because
    /// siwatch might believe a skipped rejection after the breaker has closed. If two transactions wait for each other, the server fails
    /// one, and siwatch tries it again.
    private func sendClearPending(of app: Int64) throws {
        try connection.send(
            """
            UPDATE credential c SET pending_since = NULL, pending_asked_at = NULL, pending_key = NULL,
                                    due_at = GREATEST(c.due_at, c.answered_at + $2)
              FROM (SELECT user_id, client FROM credential WHERE app = $1 AND pending_since IS NOT NULL
                     ORDER BY user_id, client FOR UPDATE) w
             WHERE c.user_id = w.user_id AND c.client = w.client
            """,
            app,
            rules.policy.interval
        )
    }

    /// Remembers the rejections until a notification has had time to come.
    private func send(_ rejections: [AdmittedRejection]) throws {
        var rows = RowArrays()
        for rejection in rejections {
            let client = directory.client(rejection.credential.clientID)
            rows.append(client.app.id, client.id, rejection.credential.userID, rejection.tokenGrantedAt, rejection.rejectedAt)
        }
        try connection.send(
            """
            INSERT INTO admitted_rejection (app, client, user_id, granted_at, rejected_at, admitted_at)
            SELECT n.app, n.client, n.user_id, n.granted_at, n.rejected_at, $6
              FROM unnest($1, $2, $3, $4, $5) AS n (app, client, user_id, granted_at, rejected_at)
            """,
            rows,
            [now.parameter]
        )
    }

    // MARK: Counts

    private func sendCounts(_ changes: SettlementChanges) throws {
        var counts = RowArrays()
        for (key, change) in changes.counts where change != 0 {
            counts.append(directory.app(key.app).id, key.state.rawValue, change)
        }
        try connection.send(
            """
            INSERT INTO credential_count AS c (app, state, count) SELECT n.app, n.state, n.count FROM unnest($1, $2, $3) AS n (app, state, count)
                ON CONFLICT (app, state) DO UPDATE SET count = c.count + excluded.count
            """,
            counts
        )
        for (column, times) in [("valid_at", changes.validAt), ("proved_at", changes.provedAt)] {
            var rows = RowArrays()
            for (client, time) in times { rows.append(client, time) }
            try connection.send(
                """
                UPDATE client SET \(column) = n.at FROM unnest($1, $2) AS n (client_id, at)
                 WHERE client.client_id = n.client_id AND (client.\(column) IS NULL OR client.\(column) < n.at OR client.\(column) > $3)
                """,
                rows,
                [now.parameter]
            )
        }
        var refusals = RowArrays()
        for (client, refusal) in changes.refusals { refusals.append(client, refusal?.since, refusal?.at, refusal?.word) }
        try connection.send(
            """
            UPDATE client SET refused_since = n.since, refused_at = n.at, refusal = n.word
              FROM unnest($1, $2, $3, $4) AS n (client_id, since, at, word) WHERE client.client_id = n.client_id
            """,
            refusals
        )
        try connection.add(changes.checks, at: now)
    }
}
