// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

/// Whether a daemon runs, as backends and scripts find out.
struct HeartbeatTests {
    @Test(arguments: SiteDatabase.allCases)
    func theHeartbeatIsOfNow(_ database: SiteDatabase) async throws {
        try await Site.with(on: database, ["operations": "socket = \"siwatch.sock\""]) { site in
            let now = database == .file ? "CAST(strftime('%s', 'now') AS INTEGER)" : "extract(epoch FROM now())"
            let isAlive = "SELECT CASE WHEN alive_at > (\(now) - 60) * 1000 THEN 1 ELSE 0 END FROM heartbeat"
            #expect(try await site.backend.int(isAlive) == 0)
            #expect(try await site.folder.siwatch("status").status == 2)
            try await site.daemon { _ in
                try await site.backend.until(isAlive, is: 1)
                #expect(try await site.folder.siwatch("status", "--json").status == 0)
            }
            #expect(try await site.folder.siwatch("status", "--json").status == 2)
        }
    }

    /// The process stands still, as on a halted machine. It holds its lock all the same, so a minute without a beat tells.
    @Test func aFrozenDaemonGivesNoSignOfLife() async throws {
        try await Site.with { site in
            try await site.daemon { daemon in
                try await site.backend.until("SELECT COUNT(*) FROM heartbeat WHERE alive_at > 0", is: 1)
                try await daemon.freeze()
                defer { daemon.signal(SIGCONT) }
                try await site.backend.execute("UPDATE counter SET value = value - 61000 WHERE name = 'alive_at'")
                #expect(try await site.folder.siwatch("status").status == 1, "it has just begun, and nobody can ask it")
                let begin = [FileAttributeKey.modificationDate: Date.now.addingTimeInterval(-62)]
                try FileManager.default.setAttributes(begin, ofItemAtPath: site.folder.databasePath + ".lock")
                let (status, output) = try await site.folder.siwatch("status")
                #expect(status == 2)
                #expect(output[1] == "health: down" && output[2].hasPrefix("its last sign of life here: 1 min "), "\(output)")
            }
        }
    }
}
