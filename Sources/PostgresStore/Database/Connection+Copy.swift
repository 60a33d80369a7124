// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq

/// COPY in PostgreSQL's binary format. A pipeline cannot copy, so the connection leaves it meanwhile, and each call waits.
extension Connection {
    /// The bytes before the first row: a signature of eleven bytes, no flags, and no header extension.
    private static let head: [UInt8] = Array("PGCOPY\n".utf8) + [0xff, 0x0d, 0x0a, 0x00] + [0, 0, 0, 0, 0, 0, 0, 0]
    /// The bytes in place of a row after the last.
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

    /// The server has ended the copy early and says why, or the connection is lost.
    private func failCopy() throws -> Never {
        let reason = lastMessage
        try endCopy()
        throw PostgresError(connection: reason)
    }

    func beginCopyOut(_ sql: String) throws {
        try beginCopy(sql, PGRES_COPY_OUT)
    }

    /// - Parameter row: gets the bytes of the next row.
    /// - Returns: false after the last.
    func copyOut(_ row: (UnsafeRawBufferPointer) -> Void) throws -> Bool {
        while true {
            var buffer: UnsafeMutablePointer<CChar>?
            let count = PQgetCopyData(handle, &buffer, 0)
            defer { PQfreemem(buffer) }
            switch count {
            case 1...:
                var bytes = UnsafeRawBufferPointer(start: buffer, count: Int(count))
                // The server sends one row at a time. The head comes with the first row, and the end by itself.
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

    /// - Throws: `PostgresError` if the server refused a row.
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
