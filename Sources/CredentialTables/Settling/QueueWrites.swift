// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Writes the changes of queue rows. A server moves each row that leaves a queue itself, because a backend may have written text that Swift
/// cannot hold.
struct QueueWrites<Connection: TableConnection> {
    let connection: Connection
    let now: Timestamp
    /// How many rows have left each queue.
    private(set) var removed: [Queue: Int] = [:]
    /// Whether a secret, or a message about a forgotten user, was erased.
    private(set) var hasErased = false
    private var logged: [NotificationEntry] = []
    private var quarantined: [[ColumnValue]] = []
    private var ringed: [UnsignedRing: (rows: Int, bytes: Int)] = [:]
    private var postponedNotifications: [[ColumnValue]] = []
    private var loggedGrants: [[ColumnValue]] = []
    private var postponedGrants: [[ColumnValue]] = []
    private var postponedCodes: [[ColumnValue]] = []

    init(on connection: Connection, at now: Timestamp) { (self.connection, self.now) = (connection, now) }

    mutating func add(_ rows: [QueueRowChange], _ revocations: RevocationRows<Connection>) throws {
        for row in rows {
            switch row {
            case .logNotification(let work, let notification, let app, let outcome, let settlement):
                let entry = NotificationEntry(work: work, notification: notification, app: app, outcome: outcome, settlement: settlement)
                logged.append(entry)
                removed[.notification, default: 0] += 1
                // The message names a forgotten user.
                if outcome == .duplicate { hasErased = true }
            case .quarantine(let work, let reason, let detail):
                quarantined.append(bound(work.id, reason.rawValue, detail))
                removed[.notification, default: 0] += 1
                if let ring = reason.ring {
                    let known = ringed[ring, default: (0, 0)]
                    ringed[ring] = (known.rows + 1, known.bytes + work.payload.count)
                }
            case .postponeNotification(let id, let until):
                postponedNotifications.append(bound(id, until))
            case .logGrant(let entry):
                let (outcome, reason) = (entry.outcome.rawValue, entry.reason?.rawValue)
                loggedGrants.append(bound(entry.id, entry.userID, outcome, reason, entry.detail, entry.signedInAt, entry.realUserStatus))
                removed[.grant, default: 0] += 1
                if entry.hasSecret { hasErased = true }
            case .postponeGrant(let id, let until, let waitsSince, let isAhead):
                postponedGrants.append(bound(id, until, waitsSince, isAhead ? 1 : 0))
            case .postponeCode(let work, let until):
                postponedCodes.append(bound(work.id, until, work.failures, work.isAnswerLost ? 1 : 0, work.detail))
            case .revocation(let change):
                if try revocations.write(change) { removed[.revocation, default: 0] += 1 }
                if case .finish = change { hasErased = true }
            }
        }
    }

    /// - Returns: after the commit, the settlements whose notifications were duplicates.
    func send() throws -> () throws -> [Int] {
        // If a vacuum found a queue empty, a server expects one row, and a nested loop would go through all pairs of a batch.
        if connection.dialect == .postgres { try connection.execute("SET LOCAL enable_nestloop = off") }
        let duplicates = try connection.log(logged, at: now)
        try connection.execute(.quarantine, quarantined, bound(now))
        try connection.execute(.postponeNotifications, postponedNotifications)
        try connection.execute(.logGrants, loggedGrants, bound(now))
        try connection.execute(.postponeGrants, postponedGrants)
        try connection.execute(.postponeCodes, postponedCodes)
        if connection.dialect == .postgres { try connection.execute("SET LOCAL enable_nestloop = on") }
        return duplicates
    }

    /// Makes room in the rings of the quarantine, which hold the rows that anybody could have sent.
    /// - Returns: of each ring, after the commit, the number of evicted rows.
    func makeRoom() throws -> [() throws -> Int] {
        try ringed.map { ring, new in
            try connection.add(new.rows, to: ring.rowsCounter)
            try connection.add(new.bytes, to: ring.bytesCounter)
            return try connection.evict(from: ring)
        }
    }
}

/// A row to come of `notification_log`.
package struct NotificationEntry {
    /// SQL: the columns of an event, and those of its settlement. The payload stands between; a duplicate has none.
    package static let eventColumns = "app, jti, client_id, user_id, type, event_time"
    package static let settlementColumns = "received_at, settled_at, outcome"

    package let work: ClaimedNotification
    package let notification: VerifiedNotification
    package let app: String
    package let outcome: NotificationLogOutcome
    /// The index in the batch.
    package let settlement: Int
}

extension RowStatement {
    fileprivate static let quarantine = move(
        from: "notification_queue",
        "payload, received_at",
        into: "notification_quarantine",
        [
            "payload": "q.payload", "received_at": "q.received_at", "rejected_at": "@rejected_at", "reason": "@reason",
            "detail": "@detail",
        ],
        row: ["reason", "detail"],
        shared: ["rejected_at"]
    )
    fileprivate static let logGrants = move(
        from: "grant_queue",
        "client_id, user_id, granted_at",
        into: "grant_log",
        [
            "grant_id": "q.id", "client_id": "q.client_id", "user_id": "COALESCE(@user_id, q.user_id)", "granted_at": "q.granted_at",
            "settled_at": "@settled_at", "outcome": "@outcome", "reason": "@reason", "detail": "@detail",
            "signed_in_at": "@signed_in_at", "real_user_status": "@real_user_status",
        ],
        row: ["user_id", "outcome", "reason", "detail", "signed_in_at", "real_user_status"],
        shared: ["settled_at"]
    )
    fileprivate static let postponeNotifications = postpone("notification_queue", [])
    fileprivate static let postponeGrants = postpone("grant_queue", ["waits_since", "is_ahead"])
    fileprivate static let postponeCodes = postpone("grant_queue", ["failures", "answer_lost", "detail"])

    private static func postpone(_ queue: String, _ columns: [String]) -> RowStatement {
        update(queue, key: ["id"], ["due_at"] + columns, others: ", \(Claim.end)")
    }
}
