// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// One batch of settlements in one transaction: load the rows, fold, write the changes. The core's fold decides. On a server it takes two
/// round trips, however large the batch is: one locks and loads, one writes and commits.
package struct SettlementTransaction<Connection: TableConnection> {
    let connection: Connection
    let directory: ClientDirectory
    let decisions: DecisionBook
    let rules: SettlementRules
    let now: Timestamp

    package init(
        on connection: Connection,
        directory: ClientDirectory,
        _ decisions: DecisionBook,
        rules: SettlementRules,
        at now: Timestamp
    ) {
        self.connection = connection
        self.directory = directory
        self.decisions = decisions
        self.rules = rules
        self.now = now
    }

    /// - Returns: a closure that gives the result after the commit, and whether a token, an address or a forgotten user's message was
    ///   erased. The log of a file still holds it then.
    package func send(_ settlements: [Settlement]) throws -> (result: () throws -> SettlementChanges, hasErased: Bool) {
        let apps = directory.appNames
        let scope = SettlementScope(of: settlements, apps: apps, under: rules)
        let basis = try load(scope)
        return try write(SettlementFold.fold(settlements, over: basis, apps: apps, under: rules, at: now), over: basis)
    }
}

/// Writes the changes: rows that leave their queues, users, and last the tail, with the change feed and the counts.
extension SettlementTransaction {
    var breakers: BreakerRow<Connection> { BreakerRow(connection: connection, decisions: decisions) }
    var limits: RevocationLimitRow<Connection> { RevocationLimitRow(connection: connection, decisions: decisions) }

    func write(_ changes: SettlementChanges, over basis: SettlementBasis) throws
        -> (result: () throws -> SettlementChanges, hasErased: Bool)
    {
        var queues = QueueWrites(on: connection, at: now)
        try queues.add(changes.queueRows, RevocationRows(connection: connection, directory: directory, decisions: decisions, now: now))
        let duplicates = try queues.send()
        // Clear before saving the batch's own rows over it, because a rejection that came after the opening may be pending again.
        let openedApps = changes.openedApps.map { directory.app($0).id }.sorted()
        for app in openedApps { try clearPending(of: app) }
        let users = UserRows(connection: connection, directory: directory)
        let hasErased = try users.save(changes.users)
        try users.removeEmpty(changes.users)
        let admitted = changes.admitted.map { rejection in
            let (client, userID) = (directory.client(rejection.credential.clientID), rejection.credential.userID)
            return bound(client.app.id, client.id, userID, rejection.tokenGrantedAt, rejection.rejectedAt)
        }
        try connection.execute(.insertAdmitted, admitted, bound(now))
        for (app, breaker) in changes.breakers { try breakers.save(breaker, of: directory.app(app).id) }
        try connection.lockSettlements(publishing: changes.announcements.map { $0.values(at: now) })
        try connection.add(changes.tallies, in: directory)
        try writeCounts(changes)
        for (queue, count) in queues.removed { try connection.add(count, to: queue.removedCounter) }
        for (app, revocationLimit) in basis.plantedLimits.merging(changes.revocationLimits, uniquingKeysWith: { $1 }) {
            try limits.save(revocationLimit, of: directory.app(app).id)
        }
        for app in openedApps { try breakers.countPending(of: app) }
        let evicted = try queues.makeRoom()
        let result = { () throws -> SettlementChanges in
            var settled = changes
            for settlement in try duplicates() { settled.results[settlement] = .notification(.duplicate) }
            settled.evicted = try evicted.reduce(0) { try $0 + $1() }
            return settled
        }
        return (result, hasErased || queues.hasErased)
    }

    /// Does `CredentialRecord.forgetRejection` for all pending rejections of an app, against the order of locks, while it holds a breaker.
    /// If it skipped a locked rejection, siwatch might believe it after the breaker has closed. If two transactions wait for each other,
    /// the server fails one, and siwatch tries it again.
    private func clearPending(of app: Int64) throws {
        let dialect = connection.dialect
        try connection.execute(
            """
            UPDATE credential AS c
               SET \(sql: PendingRejection.drop), due_at = \(dialect.greatest)(c.due_at, c.answered_at + \(rules.policy.interval))
              FROM (SELECT user_id, client FROM credential WHERE app = \(app) AND pending_since IS NOT NULL
                    \(dialect.lockOrder("user_id, client")) \(dialect.forUpdate)) AS found
             WHERE c.user_id = found.user_id AND c.client = found.client
            """
        )
    }

    private func writeCounts(_ changes: SettlementChanges) throws {
        let counts = changes.counts.filter { $0.value != 0 }.map { bound(directory.app($0.app).id, $0.state.rawValue, $1) }
        try connection.execute(.addCounts, counts)
        for (key, change) in changes.counts where key.state == .authorized {
            decisions.count(change, authorizedOf: directory.app(key.app).id)
        }
        try connection.execute(.heardClients, changes.validAt.map { bound($0, $1) }, bound(now))
        try connection.execute(.provedClients, changes.provedAt.map { bound($0, $1) }, bound(now))
        try connection.execute(.refuseClients, changes.refusals.map { bound($0, $1?.since, $1?.at, $1?.word) })
        try connection.add(changes.checks, at: now)
    }
}

extension RowStatement {
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
        let isEarlier = "(t.\(column) IS NULL OR t.\(column) < @\(column) OR t.\(column) > @now)"
        return update("client", key: ["client_id"], [column], where: isEarlier, shared: ["now"])
    }
}
