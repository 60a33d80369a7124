// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import CredentialTables

extension Connection {
    package func askHeld(notifications claims: [(id: Int64, claim: Claim)]) throws -> () throws -> [Int64: Claim] {
        let answer = try ask(.notificationHolders, claims.map { bound($0.id) })
        return { [self] in try held(claims, by: answer) }
    }

    /// The last query of a settlement's first round trip, so that the directory has the client of every row that was read, and the present
    /// name of its app.
    package func confirm(_ directory: ClientDirectory) throws {
        let known = try fetchOne("SELECT (SELECT COALESCE(MAX(id), 0) FROM client), (SELECT string_agg(name, E'\\n' ORDER BY id) FROM app)")
        guard let row = known, row.integer(at: 0) == directory.newestClient, row.text(at: 1) ?? "" == directory.names else {
            throw OutdatedDirectory()
        }
    }

    /// One message brings the lock and the rows that need it, so that a replica that stalls in mid-send does not hold the lock.
    package func lockSettlements(publishing rows: [[ColumnValue]]) throws {
        if rows.isEmpty { try lockSettlements() } else { try execute(.publish, rows) }
    }

    /// Logs an event as a duplicate if the log has it already, or if it came earlier in the batch. The payload never leaves the server.
    package func log(_ notifications: [NotificationEntry], at now: Timestamp) throws -> () throws -> [Int] {
        var events: Set<EventKey> = []
        let rows = notifications.map { $0.values(isFirst: events.insert(EventKey($0)).inserted) }
        let answer = try ask(.logNotifications, rows, bound(now))
        // If the answer was lost, the duplicates count as other notifications.
        return { answer?.rows?.map { $0.int(at: 0) } ?? [] }
    }

    package func evict(from ring: UnsignedRing) throws -> () throws -> Int {
        let answer = try send(
            """
            WITH ring AS MATERIALIZED (
              SELECT (SELECT value FROM counter WHERE name = \(ring.rowsCounter)) - \(sql: UnsignedRing.mostRows) AS rows,
                     (SELECT value FROM counter WHERE name = \(ring.bytesCounter)) - \(sql: UnsignedRing.mostBytes) AS bytes),
            oldest AS (
              SELECT id, \(dialect.payloadSize("payload")) AS size FROM notification_quarantine WHERE \(sql: Schema.tables.members(of: ring))
               ORDER BY id LIMIT (SELECT CASE WHEN bytes > 0 THEN NULL ELSE GREATEST(rows, 0) END FROM ring)),
            numbered AS (SELECT id, size, row_number() OVER w AS place, sum(size) OVER w - size AS before FROM oldest WINDOW w AS (ORDER BY id)),
            evicted AS (
              DELETE FROM notification_quarantine q USING numbered n, ring
               WHERE q.id = n.id AND (n.place <= ring.rows OR n.before < ring.bytes)
              RETURNING n.size),
            counts (name, change) AS (
              SELECT \(ring.rowsCounter), -COUNT(*) FROM evicted
              UNION ALL SELECT \(ring.bytesCounter), -COALESCE(SUM(size), 0)::bigint FROM evicted
              UNION ALL SELECT \(UnsignedRing.evictedCounter), COUNT(*) FROM evicted),
            counted AS (
              INSERT INTO counter AS c (name, value) SELECT name, change FROM counts WHERE change <> 0
                  ON CONFLICT (name) DO UPDATE SET value = c.value + excluded.value)
            SELECT COUNT(*) FROM evicted
            """
        )
        return { answer.rows?.first?.int(at: 0) ?? 0 }
    }
}

/// The tables hold clients that this process does not know, or no longer hold some that it knows.
struct OutdatedDirectory: Error {}

private struct EventKey: Hashable {
    let id: AppUserID
    let type: String
    let time: Timestamp

    init(_ logged: NotificationEntry) {
        id = AppUserID(app: logged.app, userID: logged.notification.userID)
        type = logged.notification.type
        time = logged.notification.event.occurredAt
    }
}

extension NotificationEntry {
    fileprivate func values(isFirst: @autoclosure () -> Bool) -> [ColumnValue] {
        let (told, isFirst) = (notification, outcome != .duplicate && isFirst())
        return bound(work.id, settlement, isFirst, app, told.tokenID, told.clientID, told.userID)
            + bound(told.type, told.event.occurredAt, outcome.rawValue)
    }
}

extension RowStatement {
    fileprivate static let publish = RowStatement(
        Announcement.columnNames,
        sqlite: "",
        postgres: """
            WITH tail AS MATERIALIZED (\(SettlementLock.lock.text))
            INSERT INTO credential_change (\(Announcement.columns))
            SELECT \(Announcement.columns) FROM tail CROSS JOIN @places ORDER BY n.place
            """
    )

    private static let (event, settlement) = (NotificationEntry.eventColumns, NotificationEntry.settlementColumns)
    fileprivate static let logNotifications = RowStatement(
        ["id", "settlement", "is_first", "app", "jti", "client_id", "user_id", "type", "event_time", "outcome"],
        shared: ["now"],
        sqlite: "",
        postgres: """
            WITH gone AS (DELETE FROM notification_queue WHERE id = ANY($1) RETURNING id, payload, received_at),
            told AS MATERIALIZED (SELECT n.*, gone.payload, gone.received_at FROM @rows JOIN gone ON gone.id = n.id),
            fresh AS (
              INSERT INTO notification_log (\(event), payload, \(settlement))
              SELECT \(event), payload, received_at, @now, outcome
                FROM told WHERE is_first ORDER BY event_time, user_id COLLATE "C", app COLLATE "C", type COLLATE "C"
                  ON CONFLICT (event_time, user_id, app, type) WHERE outcome <> 'duplicate' DO NOTHING
              RETURNING event_time, user_id, app, type),
            repeated AS (
              SELECT told.* FROM told LEFT JOIN fresh f
                  ON told.is_first AND f.event_time = told.event_time AND f.user_id = told.user_id AND f.app = told.app
                     AND f.type = told.type
               WHERE f.user_id IS NULL),
            kept AS (
              INSERT INTO notification_log (\(event), \(settlement))
              SELECT \(event), received_at, @now, 'duplicate' FROM repeated ORDER BY settlement)
            SELECT settlement FROM repeated
            """
    )
}
