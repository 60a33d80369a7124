// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import CredentialTables
import GRDB
import NIOConcurrencyHelpers

extension SQLiteConnection {
    package func askHeld(notifications claims: [(id: Int64, claim: Claim)]) -> () throws -> [Int64: Claim] {
        { try NotificationRows(connection: self, owner: "").held(claims) }
    }

    /// Does nothing: no other process registers clients.
    package func confirm(_ directory: ClientDirectory) {}

    package func lockSettlements(publishing rows: [[ColumnValue]]) throws { try execute(.publish, rows) }

    /// Deletes all rows of the queue before it inserts the entries of the log, which take their pages over. Selects nothing from the queue,
    /// because SQLite keeps a copy of each page that a statement of many rows may have to undo.
    package func log(_ notifications: [NotificationEntry], at now: Timestamp) throws -> () throws -> [Int] {
        guard !notifications.isEmpty else { return { [] } }
        let remove = try PreparedStatement("DELETE FROM notification_queue WHERE id BETWEEN ? AND ?", in: db)
        for ids in notifications.map(\.work.id).ranges { try remove.run(bound(ids.lowerBound, ids.upperBound)) }
        let (event, settlement) = (NotificationEntry.eventColumns, NotificationEntry.settlementColumns)
        let insert = try PreparedStatement(
            """
            INSERT INTO notification_log (\(event), payload, \(settlement))
            VALUES (?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?, ?, ?)
                ON CONFLICT (event_time, user_id, app, type) WHERE outcome <> 'duplicate' DO NOTHING
            """,
            in: db
        )
        let insertDuplicate = try PreparedStatement(
            "INSERT INTO notification_log (\(event), \(settlement)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'duplicate')",
            in: db
        )
        var duplicates: [Int] = []
        for logged in notifications {
            let (told, work, outcome) = (logged.notification, logged.work, logged.outcome)
            let values = bound(logged.app, told.tokenID, told.clientID, told.userID, told.type, told.event.occurredAt)
            if outcome != .duplicate {
                try insert.run(values + bound(work.payload, work.receivedAt, now, outcome.rawValue))
                if db.changesCount > 0 { continue }
            }
            try insertDuplicate.run(values + bound(work.receivedAt, now))
            duplicates.append(logged.settlement)
        }
        return { [duplicates] in duplicates }
    }

    package func evict(from ring: UnsignedRing) throws -> () throws -> Int {
        func count(_ counter: String) throws -> Int { try fetchInt("SELECT value FROM counter WHERE name = \(counter)") }
        var (rows, bytes, evicted) = (try count(ring.rowsCounter), try count(ring.bytesCounter), 0)
        while rows > UnsignedRing.mostRows || bytes > UnsignedRing.mostBytes {
            let oldest = try fetchOne(
                """
                DELETE FROM notification_quarantine
                 WHERE id = (SELECT MIN(id) FROM notification_quarantine WHERE \(sql: FileSchema.tables.members(of: ring)))
                RETURNING \(dialect.payloadSize("payload"))
                """
            )
            guard let oldest else { break }
            rows -= 1
            bytes -= oldest.int(at: 0)
            evicted += 1
        }
        if evicted > 0 {
            try set(ring.rowsCounter, to: Int64(rows))
            try set(ring.bytesCounter, to: Int64(bytes))
            try add(evicted, to: UnsignedRing.evictedCounter)
        }
        return { [evicted] in evicted }
    }

    func recountQuarantine() throws {
        for ring in UnsignedRing.allCases {
            try execute(
                """
                INSERT INTO counter (name, value)
                SELECT '\(sql: ring.rowsCounter)', COUNT(*) FROM notification_quarantine WHERE \(sql: FileSchema.tables.members(of: ring))
                 UNION ALL
                SELECT '\(sql: ring.bytesCounter)', COALESCE(SUM(\(dialect.payloadSize("payload"))), 0)
                  FROM notification_quarantine WHERE \(sql: FileSchema.tables.members(of: ring))
                    ON CONFLICT (name) DO UPDATE SET value = excluded.value
                """
            )
        }
    }
}

extension RowStatement {
    fileprivate static let publish = insert(into: "credential_change", Announcement.columnNames)
}

extension Collection<Int64> {
    /// Ranges of consecutive numbers, in order.
    var ranges: [ClosedRange<Int64>] {
        var ranges: [ClosedRange<Int64>] = []
        for number in sorted() {
            if let last = ranges.last, number - last.upperBound <= 1 {
                ranges[ranges.endIndex - 1] = last.lowerBound...number
            } else {
                ranges.append(number...number)
            }
        }
        return ranges
    }
}

extension SQLiteStore {
    /// SQLite has one lock, and no queue for it. A waiting writer looks again after up to 100 ms.
    package var holdsBackendsUp: Bool { true }

    /// A claim waits for the lock, and a commit for the disk.
    package var longestSilence: Duration { .seconds(10) }

    package func settle(_ settlements: [Settlement], under rules: SettlementRules, at now: Timestamp) async throws -> SettlementChanges {
        let directory = self.directory.withLockedValue { $0 }
        let (batch, hasErased) = try await transaction { [decisions] connection in
            let transaction = SettlementTransaction(on: connection, directory: directory, decisions, rules: rules, at: now)
            let (result, hasErased) = try transaction.send(settlements)
            return (try result(), hasErased)
        }
        if hasErased { checkpointer?.mustTruncate() }
        // If a checkpoint must wait, the commit stands all the same.
        try? await checkpointer?.checkpointIfNeeded()
        return batch
    }
}
