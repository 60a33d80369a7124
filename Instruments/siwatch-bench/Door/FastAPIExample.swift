// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// The endpoint that a team would write: Examples/fastapi inserts each body into `notification_queue`, on a database of its own.
enum FastAPIExample {
    static func answersPerSecond(to bodies: [String], _ connections: Int) async throws -> Limit.Reading {
        let folder = try WatchedFolder(named: "siwatch-bench")
        defer { folder.remove() }
        return try await Site.with(folder) { site in
            let server = try ChildProcess(
                URL(filePath: "/usr/bin/env"),
                ["python3", "-m", "uvicorn", "--app-dir", "Examples/fastapi", "app_sql:app", "--port", "0", "--no-access-log"],
                environment: [
                    "APP": "example",
                    "CLIENT_ID": Workplace.clientID,
                    "DATABASE_URL": "sqlite+aiosqlite:///file:\(site.folder.databasePath)?mode=rw&uri=true",
                ]
            )
            guard let line = await server.line(containing: "running on http"), let port = line.firstMatch(of: /:([0-9]+)/) else {
                return .unknown(
                    "needs fastapi, uvicorn, sqlalchemy[asyncio] and aiosqlite of the Python Package Index, as performance.md says"
                )
            }
            let posting = PostingConnections(port: UInt16(port.1) ?? 0, path: "/apple/notifications", count: connections)
            let rate = try await posting.answersPerSecond(to: bodies)
            server.signal(SIGTERM)
            await server.exit()
            return .perSecond(rate)
        }
    }
}
