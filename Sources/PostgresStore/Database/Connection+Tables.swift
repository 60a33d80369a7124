// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import CredentialTables

extension Connection: TableConnection {
    package var dialect: Dialect { .postgres }

    package func fetchAll(_ sql: String, _ values: [ColumnValue]) throws -> [PostgresRow] {
        try Array(rows(of: send(sql, values.map { Parameter($0) })))
    }

    package func change(_ sql: String, _ values: [ColumnValue]) throws -> Int {
        try rows(of: send(sql, values.map { Parameter($0) })).changed
    }

    package func execute(_ sql: String, _ values: [ColumnValue]) throws {
        try send(sql, values.map { Parameter($0) })
    }

    package func inSavepoint<Value>(_ body: () throws -> Value) throws -> Value {
        try send("SAVEPOINT request")
        do {
            let value = try body()
            try flush()
            return value
        } catch let error as PostgresError where error.sqlState.hasPrefix("23") {
            try send("ROLLBACK TO SAVEPOINT request")
            throw StoreError(error)
        }
    }

    package func users(_ ids: [AppUserID], in directory: ClientDirectory) throws -> [AppUserID: UserRecord] {
        let table = UserTable(connection: self, directory: directory)
        return try table.users(table.sendLock(ids))
    }

    package func save(_ users: [UserRecord], tallies: [String: UserRecord.Tally], in directory: ClientDirectory) throws {
        let table = UserTable(connection: self, directory: directory)
        try table.sendSave(users)
        try lockSettlements()
        try add(tallies, in: directory)
    }

    package func bringForward(_ slots: [RecheckSlot], of app: Int64) throws {
        guard !slots.isEmpty else { return }
        var rows = RowArrays()
        for slot in slots { rows.append(slot.userID, slot.client, slot.dueAt, slot.formerDueAt) }
        let answer = try send(
            """
            WITH free AS (
              SELECT c.user_id, c.client, c.pending_since IS NOT NULL AS was_pending, n.due_at
                FROM unnest($1, $2, $3, $4) AS n (user_id, client, due_at, was_due_at)
                JOIN credential c ON c.user_id = n.user_id AND c.client = n.client
               WHERE c.claimed_by IS NULL AND c.due_at IS NOT DISTINCT FROM n.was_due_at
               ORDER BY c.user_id, c.client FOR UPDATE OF c),
            moved AS (
              UPDATE credential c SET due_at = free.due_at, pending_since = NULL, pending_asked_at = NULL, pending_key = NULL
                FROM free WHERE c.user_id = free.user_id AND c.client = free.client)
            SELECT COUNT(*) FROM free WHERE was_pending
            """,
            rows.parameters
        )
        let pending = try self.rows(of: answer).integer
        guard pending > 0 else { return }
        try lockSettlements()
        try send("UPDATE app SET pending = pending - $2 WHERE id = $1", app, pending)
    }

    package func releaseNotifications() throws {
        try send(
            """
            UPDATE notification_queue SET due_at = 0
             WHERE id = ANY (ARRAY(SELECT id FROM notification_queue WHERE \(Tables.anyNotification) AND due_at > 0 AND claimed_by IS NULL
                                    ORDER BY id FOR UPDATE SKIP LOCKED))
            """
        )
    }

    package func beginRename(of app: String) throws {
        // No time limits, because the logs may be long.
        longestSilence = nil
        try send("SET LOCAL statement_timeout = 0")
        try lockSettlements()
        // A replica that starts waits here before it registers its apps. Then it finds this app under its new name.
        try send("LOCK TABLE replica IN SHARE MODE")
        let isInUse = try rows(
            "SELECT EXISTS (SELECT 1 FROM replica WHERE seen_at > \(Schema.now) - $1)",
            ReplicaStatus.presence
        ).isTrue
        guard !isInUse else { throw AppRenameError.inUse }
        // The owner of the new name makes a lane for it.
        try send("DELETE FROM lane WHERE app = $1", app)
    }
}
