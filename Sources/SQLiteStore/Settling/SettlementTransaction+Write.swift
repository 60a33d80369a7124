// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB

/// Writes the changes: users, the change feed, rows that leave their queues, and counts.
extension SettlementTransaction {
    func write(_ changes: SettlementChanges) throws -> (batch: SettledBatch, hasErased: Bool) {
        var batch = SettledBatch(
            results: changes.results,
            announcements: changes.announcements,
            breakers: changes.knownBreakers,
            replenished: changes.replenished
        )
        var hasErased = try writeQueueRows(changes.queueRows, &batch)
        try write(changes.announcements)
        // Clear before saving the batch's own rows over it, because a rejection that came after the opening may be pending again.
        let openedApps = changes.openedApps.map { directory.app($0).id }
        for app in openedApps { try clearPending(of: app) }
        if try UserTable(db: db, directory: directory).save(changes.users) { hasErased = true }
        try connection.add(changes.tallies, in: directory)
        try writeCounts(changes)
        for rejection in changes.admitted { try write(rejection) }
        for (app, breaker) in changes.breakers { try BreakerRow.save(breaker, of: directory.app(app).id, on: connection) }
        for (app, brake) in changes.brakes { try BrakeRow.save(brake, of: directory.app(app).id, on: connection) }
        for app in openedApps { try BreakerRow.countPending(of: app, on: connection) }
        return (batch, hasErased)
    }

    private func write(_ announcements: [Announcement]) throws {
        guard !announcements.isEmpty else { return }
        let insert = try PreparedStatement(Announcement.insert, in: db)
        for entry in announcements { try insert.run(entry.values(at: now)) }
    }

    /// Does `CredentialRecord.forgetRejection` for all pending rejections of an app.
    private func clearPending(of app: Int64) throws {
        try connection.execute(
            """
            UPDATE credential SET pending_since = NULL, pending_asked_at = NULL, pending_key = NULL,
                                  due_at = MAX(due_at, answered_at + $2)
             WHERE app = $1 AND pending_since IS NOT NULL
            """,
            app,
            rules.policy.interval
        )
    }

    /// Remembers the rejection until a notification has had time to come.
    private func write(_ rejection: AdmittedRejection) throws {
        let client = directory.client(rejection.credential.clientID)
        try connection.execute(
            """
            INSERT INTO admitted_rejection (app, client, user_id, granted_at, rejected_at, admitted_at) VALUES ($1, $2, $3, $4, $5, $6)
            """,
            client.app.id,
            client.id,
            rejection.credential.userID,
            rejection.tokenGrantedAt,
            rejection.rejectedAt,
            now
        )
    }

    // MARK: Counts

    private func writeCounts(_ changes: SettlementChanges) throws {
        for (key, change) in changes.counts where change != 0 {
            try connection.execute(
                """
                INSERT INTO credential_count (app, state, count) VALUES ($1, $2, $3)
                    ON CONFLICT (app, state) DO UPDATE SET count = count + excluded.count
                """,
                directory.app(key.app).id,
                key.state.rawValue,
                change
            )
        }
        for (column, times) in [("valid_at", changes.validAt), ("proved_at", changes.provedAt)] {
            for (client, time) in times {
                try connection.execute(
                    "UPDATE client SET \(column) = $1 WHERE client_id = $2 AND (\(column) IS NULL OR \(column) < $1 OR \(column) > $3)",
                    time,
                    client,
                    now
                )
            }
        }
        for (client, refusal) in changes.refusals {
            try connection.execute(
                "UPDATE client SET refused_since = $1, refused_at = $2, refusal = $3 WHERE client_id = $4",
                refusal?.since,
                refusal?.at,
                refusal?.word,
                client
            )
        }
        try connection.add(changes.checks, at: now)
    }
}
