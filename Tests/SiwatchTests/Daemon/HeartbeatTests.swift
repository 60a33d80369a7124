// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Testing

/// Whether a daemon runs, as backends and scripts find out.
struct HeartbeatTests {
    @Test(arguments: SiteDatabase.allCases)
    func theHeartbeatIsOfNow(_ database: SiteDatabase) async throws {
        try await Site.with(on: database) { site in
            let now = database == .file ? "CAST(strftime('%s', 'now') AS INTEGER)" : "extract(epoch FROM now())"
            let isAlive = "SELECT CASE WHEN alive_at > (\(now) - 60) * 1000 THEN 1 ELSE 0 END FROM heartbeat"
            #expect(try await site.backend.int(isAlive) == 0)
            #expect(try await site.folder.run("status").status == 3)
            try await site.daemon { _ in
                try await site.backend.until(isAlive, is: 1)
                #expect(try await site.folder.run("status", "--json").status == 0)
            }
            #expect(try await site.folder.run("status", "--json").status == 3)
        }
    }
}
