// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Writes the changes: rows that leave their queues, users, and last the tail, with the change feed and the counts.
extension SettlementTransaction {
    func write(_ changes: SettlementChanges) throws -> (result: () throws -> SettlementChanges, hasErased: Bool) {
        var queues = QueueWrites(on: connection, at: now)
        try queues.add(changes.queueRows, RevocationRows(on: connection, directory: directory, at: now))
        let duplicates = try queues.send()
        // Clear before saving the batch's own rows over it, because a rejection that came after the opening may be pending again.
        let openedApps = changes.openedApps.map { directory.app($0).id }.sorted()
        for app in openedApps { try clearPending(of: app) }
        let users = UserRows(connection: connection, directory: directory)
        let hasErased = try users.save(changes.users)
        try users.removeEmpty(changes.users)
        try connection.execute(.insertAdmitted, changes.admitted.map(row), [now.columnValue])
        for (app, breaker) in changes.breakers { try BreakerRow.save(breaker, of: directory.app(app).id, on: connection) }
        try connection.lockSettlements(publishing: changes.announcements.map { $0.values(at: now) })
        try connection.add(changes.tallies, in: directory)
        try writeCounts(changes)
        for (queue, count) in queues.removed { try connection.add(count, to: queue.removedCounter) }
        for (app, revocationLimit) in changes.revocationLimits {
            try RevocationLimitRow.save(revocationLimit, of: directory.app(app).id, on: connection)
        }
        for app in openedApps { try BreakerRow.countPending(of: app, on: connection) }
        let evicted = try queues.makeRoom()
        let result = { () throws -> SettlementChanges in
            var settled = changes
            for settlement in try duplicates() { settled.results[settlement] = .notification(.duplicate) }
            settled.evicted = try evicted.reduce(0) { try $0 + $1() }
            return settled
        }
        return (result, hasErased || queues.hasErased)
    }

    /// Does `CredentialRecord.forgetRejection` for all pending rejections of an app.
    ///
    /// Here a settlement waits for credentials while it holds a breaker, against the order of locks. It must not skip locked rows, because
    /// siwatch might believe a skipped rejection after the breaker has closed. If two transactions wait for each other, the server fails
    /// one, and siwatch tries it again.
    private func clearPending(of app: Int64) throws {
        let dialect = connection.dialect
        try connection.execute(
            """
            UPDATE credential AS c SET pending_since = NULL, pending_asked_at = NULL, pending_key = NULL,
                                       due_at = \(dialect.greatest)(c.due_at, c.answered_at + \(rules.policy.interval))
              FROM (SELECT user_id, client FROM credential WHERE app = \(app) AND pending_since IS NOT NULL
                    \(dialect.lockOrder("user_id, client")) \(dialect.forUpdate)) AS found
             WHERE c.user_id = found.user_id AND c.client = found.client
            """
        )
    }

    private func row(_ rejection: AdmittedRejection) -> [ColumnValue] {
        let client = directory.client(rejection.credential.clientID)
        return [
            client.app.id.columnValue, client.id.columnValue, rejection.credential.userID.columnValue,
            rejection.tokenGrantedAt.columnValue, rejection.rejectedAt.columnValue,
        ]
    }

    private func writeCounts(_ changes: SettlementChanges) throws {
        let counts = changes.counts.filter { $0.value != 0 }.map {
            [directory.app($0.app).id.columnValue, $0.state.rawValue.columnValue, $1.columnValue]
        }
        try connection.execute(.addCounts, counts)
        try connection.execute(.heardClients, changes.validAt.map { [$0.columnValue, $1.columnValue] }, [now.columnValue])
        try connection.execute(.provedClients, changes.provedAt.map { [$0.columnValue, $1.columnValue] }, [now.columnValue])
        let refusals = changes.refusals.map { client, refusal in
            [client.columnValue, (refusal?.since).columnValue, (refusal?.at).columnValue, (refusal?.word).columnValue]
        }
        try connection.execute(.refuseClients, refusals)
        try connection.add(changes.checks, at: now)
    }
}

extension RowStatement {
    /// siwatch remembers the rejections until a notification has had time to come.
    fileprivate static let insertAdmitted = insert(
        into: "admitted_rejection",
        ["app", "client", "user_id", "granted_at", "rejected_at"],
        shared: ["admitted_at"]
    )
    fileprivate static let addCounts = insert(
        into: "credential_count AS c",
        ["app", "state", "count"],
        orElse: "ON CONFLICT (app, state) DO UPDATE SET count = c.count + excluded.count"
    )
    fileprivate static let heardClients = moveTime("valid_at")
    fileprivate static let provedClients = moveTime("proved_at")
    fileprivate static let refuseClients = update("client", key: ["client_id"], ["refused_since", "refused_at", "refusal"])

    private static func moveTime(_ column: String) -> RowStatement {
        update(
            "client",
            key: ["client_id"],
            [column],
            where: "(t.\(column) IS NULL OR t.\(column) < @\(column) OR t.\(column) > @now)",
            shared: ["now"]
        )
    }
}
