// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
package import CredentialTables

extension Connection: TableConnection {
    package var dialect: Dialect { .postgres }

    package func fetchAll(_ sql: SQL) throws -> [PostgresRow] { try Array(rows(sql)) }

    @discardableResult
    package func change(_ sql: SQL) throws -> Int { try rows(sql).changed }

    package func execute(_ sql: SQL) throws { try send(sql) }

    package func execute(_ statement: RowStatement, _ rows: [[ColumnValue]], _ shared: [ColumnValue]) throws {
        _ = try ask(statement, rows, shared)
    }

    package func ask(_ sql: SQL) throws -> Answer { try send(sql) }

    package func ask(_ statement: RowStatement, _ rows: [[ColumnValue]], _ shared: [ColumnValue]) throws -> Answer? {
        let sql = statement.sql(.postgres)
        guard !rows.isEmpty, !sql.isEmpty else { return nil }
        var arrays = RowArrays(of: rows[0])
        for row in rows { arrays.append(row) }
        return try send(sql, arrays.parameters + shared.map { Parameter($0) })
    }

    package func forEachRow(of answer: Answer?, _ body: (_ place: Int, _ row: PostgresRow) throws -> Void) throws {
        guard let answer else { return }
        for row in try rows(of: answer) { try body(row.place, row) }
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

    package func releaseNotifications() throws {
        try send(
            """
            UPDATE notification_queue SET due_at = 0
             WHERE id = ANY (ARRAY(SELECT id FROM notification_queue WHERE \(sql: Tables.anyNotification) AND due_at > 0 AND claimed_by IS NULL
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
        let isInUse = try rows("SELECT EXISTS (SELECT 1 FROM replica WHERE seen_at > \(sql: Schema.now) - \(ReplicaStatus.presence))")
            .isTrue
        guard !isInUse else { throw AppRenameError.inUse }
        // The owner of the new name makes a lane for it.
        try send("DELETE FROM lane WHERE app = \(app)")
    }
}
