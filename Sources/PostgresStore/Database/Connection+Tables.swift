// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
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
             WHERE id = ANY (ARRAY(SELECT id FROM notification_queue WHERE \(sql: Tables.anyNotification) AND \(sql: Tables.postponed)
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
        if try replicaIsAtWork() { throw AppRenameError.inUse }
        // The owner of the new name makes a lane for it.
        try send("DELETE FROM lane WHERE app = \(app)")
    }
}

extension Connection {
    /// Rolls back a failed transaction, so that the connection can be used again.
    func rollBack() throws {
        try flush()
        if isInTransaction { try change("ROLLBACK") }
    }

    /// Whether no pooler stands between. A pooler gives its clients process numbers of its own.
    func speaksWithTheServerItself() throws -> Bool {
        try fetchInt("SELECT pg_backend_pid()") == Int(PQbackendPID(handle))
    }

    func replicaIsAtWork() throws -> Bool { try exists("SELECT 1 FROM \(Schema.livingReplicas)") }

    /// The server's time.
    func time() throws -> Timestamp { try fetchOne("SELECT \(sql: Schema.now)")?.time(at: 0) ?? .earliest }

    var descriptor: Int32 { PQsocket(handle) }

    func notifications() throws -> [String] {
        try check(PQconsumeInput(handle))
        var channels: [String] = []
        while let notification = PQnotifies(handle) {
            channels.append(String(cString: notification.pointee.relname))
            PQfreemem(notification)
        }
        return channels
    }

    func runScript(_ sql: String) throws {
        guard PQexitPipelineMode(handle) == 1, PQsetnonblocking(handle, 0) == 0 else { throw PostgresError(connection: lastMessage) }
        defer {
            PQsetnonblocking(handle, 1)
            PQenterPipelineMode(handle)
        }
        let result = PQexec(handle, sql)
        defer { PQclear(result) }
        guard [PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY].contains(PQresultStatus(result)) else { throw PostgresError(result) }
    }
}

extension Connection {
    /// Sessions that hold a lock which keeps siwatch from its tables, for an operator to end: of administrators, and of other programs'
    /// migrations.
    func lockHolders(in address: PostgresAddress) throws -> [String] {
        try fetchAll(
            """
            SELECT DISTINCT 'session ' || a.pid || ' of ' || quote_ident(a.usename)
              FROM pg_locks l
              JOIN pg_stat_activity a ON a.pid = l.pid AND (a.usename, a.application_name) IS DISTINCT FROM (current_user, 'siwatch')
              JOIN (\(Schema.relations(of: address))) ON c.oid = l.relation
             WHERE l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
             ORDER BY 1
            """
        ).map { $0.text(at: 0) ?? "" }
    }
}
