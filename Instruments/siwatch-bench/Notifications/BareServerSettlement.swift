// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
import CredentialCore
import DaemonHarness
import Foundation

/// The minimum of a settlement, by the calls of a C program on libpq. It claims, upserts and deletes, many rows to a statement and all in
/// one transaction. It verifies, decides and logs nothing. Swift only makes the calls, so the time is the server's and libpq's.
///
/// It works on a copy of siwatch's schema, so it knows siwatch's private tables.
struct BareServerSettlement {
    let schema: ServerSchema
    let users: [String]

    static let batch = 500

    func settlementsPerSecond() throws -> Double {
        let connection = try BareServerConnection(schema)
        try connection.prepare(
            "claim",
            "SELECT id, payload FROM notification_queue WHERE due_at = 0 ORDER BY due_at, id LIMIT \(Self.batch) FOR UPDATE SKIP LOCKED"
        )
        try connection.prepare(
            "upsert",
            """
            INSERT INTO credential (user_id, client, app, state, reason, changed_at)
            SELECT n.user_id, client.id, client.app, 'revoked', 'consent_revoked', $2::bigint
              FROM unnest($1::text[]) AS n (user_id), client WHERE client.client_id = '\(Workplace.clientID)'
                ON CONFLICT (user_id, client) DO UPDATE
               SET state = excluded.state, reason = excluded.reason, changed_at = excluded.changed_at,
                   sealed_token = NULL, due_at = NULL
            """
        )
        try connection.prepare("delete", "DELETE FROM notification_queue WHERE id = ANY($1::bigint[])")
        let now = "\(Int64(Date.now.timeIntervalSince1970 * 1000))"
        let start = ContinuousClock.now
        var settled = 0
        while settled < users.count {
            try Task.checkCancellation()
            var ids: [Int64] = []
            var bytes = 0
            try connection.execute("BEGIN")
            try connection.run("claim") { row in
                ids.append(row.integer(at: 0))
                bytes += row.length(at: 1)
            }
            guard !ids.isEmpty, bytes > 0 else { throw HarnessError("bare libpq settled \(settled) of \(users.count)") }
            let batch = users[settled..<settled + ids.count]
            try connection.run("upsert", ["{\(batch.joined(separator: ","))}", now])
            try connection.run("delete", ["{\(ids.map(String.init).joined(separator: ","))}"])
            try connection.execute("COMMIT")
            settled += ids.count
        }
        return Double(settled) / (ContinuousClock.now - start).inSeconds
    }
}

/// A connection by libpq, without a library around it. Only one thread may use it.
final class BareServerConnection {
    private let handle: OpaquePointer

    init(_ schema: ServerSchema) throws {
        guard let handle = PQconnectdb("\(schema.address) options='-c search_path=\(schema.name)'") else {
            throw HarnessError("libpq has no memory")
        }
        self.handle = handle
        guard PQstatus(handle) == CONNECTION_OK else { throw HarnessError(String(cString: PQerrorMessage(handle))) }
    }

    deinit { PQfinish(handle) }
    func execute(_ sql: String) throws { PQclear(try checked(PQexec(handle, sql))) }
    func prepare(_ name: String, _ sql: String) throws { PQclear(try checked(PQprepare(handle, name, sql, 0, nil))) }

    /// Runs a prepared statement, and hands each row to `eachRow`. The answer is in binary.
    func run(_ name: String, _ values: [String] = [], eachRow: (BareServerRow) -> Void = { _ in }) throws {
        let texts = values.map { strdup($0) }
        defer { for text in texts { free(text) } }
        let result = try checked(PQexecPrepared(handle, name, Int32(texts.count), texts.map { UnsafePointer($0) }, nil, nil, 1))
        defer { PQclear(result) }
        for index in 0..<PQntuples(result) { eachRow(BareServerRow(result: result, index: index)) }
    }

    private func checked(_ result: OpaquePointer?) throws -> OpaquePointer? {
        guard [PGRES_COMMAND_OK, PGRES_TUPLES_OK].contains(PQresultStatus(result)) else {
            defer { PQclear(result) }
            throw HarnessError(String(cString: PQresultErrorMessage(result)))
        }
        return result
    }
}

struct BareServerRow {
    fileprivate let result: OpaquePointer?
    fileprivate let index: Int32

    func integer(at column: Int32) -> Int64 {
        UnsafeRawPointer(PQgetvalue(result, index, column)).loadUnaligned(as: Int64.self).byteSwapped
    }

    func length(at column: Int32) -> Int { Int(PQgetlength(result, index, column)) }
}
