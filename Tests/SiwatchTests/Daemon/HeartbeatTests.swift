// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

/// Whether a daemon runs, as backends and scripts find out.
struct HeartbeatTests {
    @Test(.site(onEach: SiteDatabase.allCases, ["operations": "socket = \"siwatch.sock\""])) func theHeartbeatIsOfNow() async throws {
        let now = site.schema == nil ? "CAST(strftime('%s', 'now') AS INTEGER)" : "extract(epoch FROM now())"
        let isAlive = "SELECT CASE WHEN alive_at > (\(now) - 60) * 1000 THEN 1 ELSE 0 END FROM heartbeat"
        #expect(try await site.backend.int(isAlive) == 0)
        try await site.folder.expect("status", 2)
        try await site.daemon { _ in
            try await site.backend.until(isAlive, is: 1)
            try await site.folder.expect("status --json", 0)
        }
        try await site.folder.expect("status --json", 2)
    }

    /// The process stands still, as on a halted machine. It holds its lock all the same, so a minute without a beat tells.
    @Test(.daemon) func aFrozenDaemonGivesNoSignOfLife() async throws {
        try await site.backend.until("SELECT COUNT(*) FROM heartbeat WHERE alive_at > 0", is: 1)
        try await daemon.freeze()
        defer { daemon.signal(SIGCONT) }
        try await site.backend.execute("UPDATE counter SET value = value - 61000 WHERE name = 'alive_at'")
        #expect(try await site.folder.siwatch("status").status == 1, "it has just begun, and nobody can ask it")
        let begin = [FileAttributeKey.modificationDate: Date.now.addingTimeInterval(-62)]
        try FileManager.default.setAttributes(begin, ofItemAtPath: site.folder.databasePath + ".lock")
        let output = try await site.folder.expect("status", 2)
        #expect(output[1] == "health: down" && output[2].hasPrefix("its last sign of life here: 1 min "), "\(output)")
    }
}

struct PrivateMemoryTests {
    /// The kernel closes parts of /proc of such a daemon, but none that the metrics of the process come from.
    @Test(.site(listen: "127.0.0.1:0"), .enabled(if: Servant.canBeRun))
    func noOtherProcessOfItsUserReadsItAndTheMetricsStay() async throws {
        try Servant.take(over: site.folder)
        let daemon = try Servant.start("run", in: site.folder)
        defer { daemon.signal(SIGKILL) }
        #expect(await daemon.line(containing: "siwatch is ready") != nil)
        let folder = "/proc/\(daemon.identifier)"
        for file in ["environ", "auxv", "mem"] {
            let reader = try Servant.start(program: "/bin/dd", ["if=\(folder)/\(file)", "of=/dev/null", "count=1"])
            #expect(await reader.exit() != 0 && reader.output.joined().contains("Permission denied"), "\(reader.output)")
        }
        let limits = try #require(FileManager.default.contents(atPath: "\(folder)/limits"))
        #expect(String(decoding: limits, as: UTF8.self).contains(#/Max core file size +0 +0 /#))

        let scrape = try await OperationsPages(of: daemon).get("metrics")
        for metric in ["cpu_seconds_total", "max_fds", "open_fds", "resident_memory_bytes", "start_time_seconds", "virtual_memory_bytes"] {
            #expect(scrape.contains("\nprocess_\(metric) "), "\(metric)")
        }
        await daemon.end(by: SIGTERM)
    }
}

/// Somebody who can write into the database writes a signing key there, and signs events with it.
@Suite(.timeLimit(.minutes(10))) struct PlantedKeyTests {
    /// The row is one that a siwatch wrote, for another database and another Apple.
    @Test(.site(onEach: SiteDatabase.allCases, listen: "127.0.0.1:0")) func anEventSignedWithAPlantedKeyDeletesNobody() async throws {
        // With keys of its own: Apple's, and the sealing key.
        try await Site.with(apple: .process, ["encryption": "key_file = \"siwatch.key\""]) { elsewhere in
            let signIns = try await elsewhere.apple.signIn(1)
            try await elsewhere.daemon { _ in
                try await elsewhere.backend.first(of: "SELECT COUNT(*) FROM signing_key", within: .seconds(60)) { $0 > 0 }
            }
            try await site.daemon { _ in try await site.settle(signIns) }

            let forged = try await elsewhere.apple.notify(DeleteAccounts(), users: [signIns[0].userID])
            let planted = try await elsewhere.backend.rows("SELECT * FROM signing_key")
            for row in planted {
                let names = row.columnNames.joined(separator: ", ")
                let marks = row.columnNames.map { _ in "?" }.joined(separator: ", ")
                try await site.backend.execute("INSERT INTO signing_key (\(names)) VALUES (\(marks))", Array(row.databaseValues))
            }
            try await site.backend.insert(notifications: forged.map(\.body))

            try await site.daemon { daemon in
                // siwatch has looked at the event, and waits for its key.
                try await site.backend.until("SELECT COUNT(*) FROM notification_queue WHERE due_at > 0 AND attempts = 0", is: 1)
                #expect(await daemon.line(containing: "not as siwatch wrote them") != nil)
                let count = "\nsiwatch_signing_key_changes_total{change=\"disbelieved\"} \(planted.count)\n"
                try await OperationsPages(of: daemon).expect("metrics", shows: count)
            }
            #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'") == 1)
        }
    }
}
