// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
import CredentialTables

extension Connection {
    /// Rolls back a failed transaction, so that the connection can be used again.
    func rollBack() throws {
        try flush()
        if isInTransaction { try change("ROLLBACK") }
    }

    /// Whether no pooler stands between. A pooler gives its clients process numbers of its own.
    func speaksWithTheServerItself() throws -> Bool {
        try rows("SELECT pg_backend_pid()").integer == Int(PQbackendPID(handle))
    }

    /// The descriptor, for callers that wait for several.
    var descriptor: Int32 { PQsocket(handle) }

    /// The channels of notifications since the last look.
    func notifications() throws -> [String] {
        try check(PQconsumeInput(handle))
        var channels: [String] = []
        while let notification = PQnotifies(handle) {
            channels.append(String(cString: notification.pointee.relname))
            PQfreemem(notification)
        }
        return channels
    }

    /// Runs a script of siwatch's own.
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
