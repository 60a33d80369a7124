// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq

/// COPY, in PostgreSQL's binary format. A pipeline knows none, so it rests meanwhile, and each call waits.
extension Connection {
    /// What stands before the first row: eleven bytes that say what it is, no flags, and nothing more of a head.
    private static let head: [UInt8] = Array("PGCOPY\n".utf8) + [0xff, 0x0d, 0x0a, 0x00] + [0, 0, 0, 0, 0, 0, 0, 0]
    /// What stands in the place of a row after the last.
    private static let end: [UInt8] = [0xff, 0xff]

    func beginCopyIn(_ sql: String) throws {
        try beginCopy(sql, PGRES_COPY_IN)
        try copyIn(Self.head)
    }

    func copyIn(_ bytes: [UInt8]) throws {
        let isTaken = bytes.withUnsafeBytes { PQputCopyData(handle, $0.baseAddress?.assumingMemoryBound(to: CChar.self), Int32($0.count)) }
        if isTaken != 1 { try failCopy() }
    }

    func endCopyIn() throws {
        try copyIn(Self.end)
        if PQputCopyEnd(handle, nil) != 1 { try failCopy() }
        try endCopy()
    }

    /// The server has ended it before its time, and says why, or the connection is lost.
    private func failCopy() throws -> Never {
        let reason = lastMessage
        try endCopy()
        throw PostgresError(connection: reason)
    }

    func beginCopyOut(_ sql: String) throws {
        try beginCopy(sql, PGRES_COPY_OUT)
    }

    /// - Parameter row: is handed the bytes of the next.
    /// - Returns: false after the last.
    func copyOut(_ row: (UnsafeRawBufferPointer) -> Void) throws -> Bool {
        while true {
            var buffer: UnsafeMutablePointer<CChar>?
            let count = PQgetCopyData(handle, &buffer, 0)
            defer { PQfreemem(buffer) }
            switch count {
            case 1...:
                var bytes = UnsafeRawBufferPointer(start: buffer, count: Int(count))
                // The server sends a row at a time, the head with the first and the end by itself.
                if bytes.starts(with: Self.head.prefix(11)) { bytes = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(Self.head.count)) }
                if bytes.isEmpty || bytes.elementsEqual(Self.end) { continue }
                row(bytes)
                return true
            case -1:
                try endCopy()
                return false
            default: try failCopy()
            }
        }
    }

    private func beginCopy(_ sql: String, _ expected: ExecStatusType) throws {
        try flush()
        guard PQexitPipelineMode(handle) == 1, PQsetnonblocking(handle, 0) == 0 else { throw PostgresError(connection: lastMessage) }
        let result = PQexec(handle, sql)
        defer { PQclear(result) }
        guard PQresultStatus(result) == expected else {
            try resumePipeline()
            throw PostgresError(result)
        }
    }

    /// - Throws: `PostgresError` where a row was refused.
    private func endCopy() throws {
        var failure: PostgresError?
        while let result = PQgetResult(handle) {
            if PQresultStatus(result) != PGRES_COMMAND_OK { failure = failure ?? PostgresError(result) }
            PQclear(result)
        }
        try resumePipeline()
        if let failure { throw failure }
    }

    private func resumePipeline() throws {
        guard PQsetnonblocking(handle, 1) == 0, PQenterPipelineMode(handle) == 1 else { throw PostgresError(connection: lastMessage) }
    }
}
