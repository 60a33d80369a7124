// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import DaemonHarness
import Foundation
import GRDBSQLite

/// The commits of a settlement alone: the cost without verifying, deciding, logging and Swift.
///
/// It works on copies of siwatch's database, so it knows siwatch's private tables.
struct BareSettlement {
    /// A database with a full queue. The benchmark changes only copies of it.
    let queued: URL
    let users: [String]

    enum Extent: CaseIterable {
        /// The minimum: claim, upsert and delete in one transaction.
        case least
        /// Every row and every commit of siwatch. The claim is durable before the work begins, and every row stays.
        case everything
    }

    private static let batch = 500

    func limit(_ extent: Extent) throws -> Limit {
        let rate = try settlementsPerSecond(extent)
        return switch extent {
        case .least: Limit("bare SQLite, claim + upsert + delete, \(Self.batch) a commit", .perSecond(rate))
        case .everything: Limit("bare SQLite, all that siwatch writes, \(Self.batch) a commit", .perSecond(rate))
        }
    }

    private func settlementsPerSecond(_ extent: Extent) throws -> Double {
        let copy = queued.appendingPathExtension("copy")
        try FileManager.default.copyItem(at: queued, to: copy)
        defer { for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: copy.path + suffix) } }
        // Writing the copy to disk must not count.
        let file = try FileHandle(forUpdating: copy)
        try file.synchronize()
        try file.close()

        let statements = try Statements(BareConnection(path: copy.path), extent)
        let start = ContinuousClock.now
        var settled = 0
        while let ids = try statements.claim(Self.batch) {
            try Task.checkCancellation()
            try statements.settle(ids.map { (id: $0, user: users[Int($0) - 1]) })
            settled += ids.count
        }
        let time = ContinuousClock.now - start
        guard settled == users.count else { throw HarnessError("bare SQLite settled \(settled) of \(users.count)") }
        return Double(settled) / time.inSeconds
    }
}

/// siwatch's statements for a consent-revoked, except the reads for its decision.
private struct Statements {
    private let connection: BareConnection
    private let extent: BareSettlement.Extent
    private let claim, mark, credential, userEvent, change, log, delete: BareStatement
    private let now = Int64(Date.now.timeIntervalSince1970 * 1000)

    init(_ connection: BareConnection, _ extent: BareSettlement.Extent) throws {
        (self.connection, self.extent) = (connection, extent)
        try connection.execute("PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY")
        if extent == .everything { try connection.execute("PRAGMA secure_delete = ON") }
        claim = try connection.prepare("SELECT id, payload FROM notification_queue WHERE due_at = 0 ORDER BY id LIMIT ?1")
        mark = try connection.prepare(
            "INSERT INTO counter (name, value) VALUES ('bare', ?1) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )
        credential = try connection.prepare(
            """
            INSERT INTO credential (user_id, client, app, state, reason, changed_at)
            SELECT ?1, id, app, 'revoked', 'consent_revoked', ?2 FROM client WHERE client_id = '\(Workplace.clientID)'
                ON CONFLICT (user_id, client) DO UPDATE
               SET state = excluded.state, reason = excluded.reason, changed_at = excluded.changed_at,
                   sealed_token = NULL, due_at = NULL
            """
        )
        userEvent = try connection.prepare(
            """
            INSERT INTO user_event (user_id, app, consent_revoked_at) SELECT ?1, id, ?2 FROM app WHERE TRUE
                ON CONFLICT (user_id, app) DO UPDATE SET consent_revoked_at = excluded.consent_revoked_at
            """
        )
        change = try connection.prepare(
            """
            INSERT INTO credential_change (app, client_id, user_id, source, notification_jti, recorded_at,
                                           kind, from_state, to_state, reason, occurred_at)
            VALUES ('example', '\(Workplace.clientID)', ?1, 'notification', 'AAAAAAAAAAAAAAAAAAAAAA', ?2,
                    'state', 'authorized', 'revoked', 'consent_revoked', ?2)
            """
        )
        log = try connection.prepare(
            """
            INSERT INTO notification_log (app, jti, client_id, user_id, type, event_time, payload, received_at, settled_at, outcome)
            SELECT 'example', 'AAAAAAAAAAAAAAAAAAAAAA', '\(Workplace.clientID)', ?1, 'consent-revoked', ?2, payload, received_at, ?2,
                   'applied'
              FROM notification_queue WHERE id = ?3
            """
        )
        delete = try connection.prepare("DELETE FROM notification_queue WHERE id = ?1")
    }

    /// Leaves the transaction open if all the work is to be one transaction.
    ///
    /// - Returns: nil if the queue has nothing more to claim.
    func claim(_ count: Int) throws -> [Int64]? {
        var ids: [Int64] = []
        var bytes = 0
        try connection.execute("BEGIN IMMEDIATE")
        try claim.run(.integer(Int64(count))) { row in
            ids.append(row.integer(at: 0))
            bytes += row.length(at: 1)
        }
        try mark.run(.integer(ids.last ?? 0))
        if extent == .everything || ids.isEmpty { try connection.execute("COMMIT") }
        return ids.isEmpty || bytes == 0 ? nil : ids
    }

    func settle(_ claimed: [(id: Int64, user: String)]) throws {
        if extent == .everything { try connection.execute("BEGIN IMMEDIATE") }
        for (id, user) in claimed {
            try credential.run(.text(user), .integer(now))
            if extent == .everything {
                try userEvent.run(.text(user), .integer(now))
                try change.run(.text(user), .integer(now))
                try log.run(.text(user), .integer(now), .integer(id))
            }
            try delete.run(.integer(id))
        }
        try connection.execute("COMMIT")
    }
}

/// A connection by SQLite's C interface, without a library around it.
final class BareConnection {
    private let handle: OpaquePointer

    init(path: String) throws {
        var handle: OpaquePointer?
        let status = sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE, nil)
        guard status == SQLITE_OK, let handle else { throw HarnessError("SQLite cannot open the copy: \(status)") }
        self.handle = handle
    }

    deinit { sqlite3_close_v2(handle) }

    func execute(_ sql: String) throws {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw HarnessError("\(sql): \(lastError)") }
    }

    func prepare(_ sql: String) throws -> BareStatement {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK, let statement else {
            throw HarnessError("\(sql): \(lastError)")
        }
        return BareStatement(statement, of: self)
    }

    var lastError: String { String(cString: sqlite3_errmsg(handle)) }
}

final class BareStatement {
    private let handle: OpaquePointer
    private let connection: BareConnection

    enum Value {
        case integer(Int64)
        case text(String)
    }

    fileprivate init(_ handle: OpaquePointer, of connection: BareConnection) { (self.handle, self.connection) = (handle, connection) }
    deinit { sqlite3_finalize(handle) }

    /// Runs to the end, and hands each row to `eachRow`.
    func run(_ values: Value..., eachRow: (BareStatement) -> Void = { _ in }) throws {
        for (index, value) in zip(Int32(1)..., values) {
            switch value {
            case .integer(let integer): sqlite3_bind_int64(handle, index, integer)
            case .text(let text): sqlite3_bind_text(handle, index, text, -1, Self.copied)
            }
        }
        defer { sqlite3_reset(handle) }
        while true {
            switch sqlite3_step(handle) {
            case SQLITE_ROW: eachRow(self)
            case SQLITE_DONE: return
            default: throw HarnessError("\(String(cString: sqlite3_sql(handle))): \(connection.lastError)")
            }
        }
    }

    func integer(at index: Int32) -> Int64 { sqlite3_column_int64(handle, index) }

    /// The length of a text in bytes. SQLite must read the text for it.
    func length(at index: Int32) -> Int { Int(sqlite3_column_bytes(handle, index)) }

    /// SQLITE_TRANSIENT, a macro that Swift cannot import.
    private static let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
}
