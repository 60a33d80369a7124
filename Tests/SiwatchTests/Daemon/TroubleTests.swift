// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

struct TroubleTests {
    /// I10 and I11: not ready while the store can commit nothing, and ready again by itself.
    @Test(.daemon(listen: "127.0.0.1:0")) func aLockedDatabaseIsNotReadyAndHeals() async throws {
        try await pages.expect("readyz", is: "ok\n")

        var configuration = GRDB.Configuration()
        configuration.allowsUnsafeTransactions = true
        configuration.busyMode = .timeout(10)
        let hog = try DatabaseQueue(path: site.folder.databasePath, configuration: configuration)
        // Due in a moment, so that the daemon meets it behind the lock. If the daemon took it before the lock, insert another.
        var isBehindTheLock = false
        while !isBehindTheLock {
            try Task.checkCancellation()
            isBehindTheLock = try await hog.writeWithoutTransaction { db in
                try db.execute(
                    sql: """
                        INSERT INTO notification_queue (payload, due_at)
                        VALUES ('{}', CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + 1000);
                        BEGIN IMMEDIATE;
                        """
                )
                let waiting = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM notification_queue WHERE claimed_by IS NULL")
                if waiting != 1 { try db.execute(sql: "ROLLBACK") }
                return waiting == 1
            }
        }
        let reason = "the database is locked by another program; no progress: notifications"
        try await pages.expect("readyz", shows: "backends cannot insert: process ", reason)
        // A new process would find the database just as locked.
        try await pages.expect("healthz", is: "ok\n")
        try await hog.writeWithoutTransaction { db in try db.execute(sql: "COMMIT") }
        try hog.close()
        try await site.backend.until("SELECT COUNT(*) FROM notification_queue", is: 0)
        try await site.backend.until("SELECT EXISTS (SELECT 1 FROM notification_quarantine)", is: 1)
        try await pages.expect("readyz", is: "ok\n")
    }

    /// A start asks Apple for the time before it takes a sign-in. If no answer comes, it goes by the wall clock.
    @Test(.site(["refresh": "timeout = \"5s\""])) func aStartTakesNoSignInBeforeItHasAskedApple() async throws {
        try await site.apple.script(.hang().at(.keys))
        try await site.backend.insert(try await site.apple.signIn(1))
        try await site.backend.insert(notifications: ["no notification"])
        try await site.daemon { daemon in
            try await site.backend.until("SELECT COUNT(*) FROM notification_quarantine", is: 1)
            let isUntouched = try await site.backend.int("SELECT COUNT(*) FROM grant_queue WHERE attempts = 0") == 1
            // On a machine under load the question may be over by now.
            #expect(isUntouched || daemon.output.contains { $0.contains("signing_keys_failed") })
            try await site.backend.until("SELECT COUNT(*) FROM grant_log", is: 1)
        }
    }

    /// Without its lock, two siwatch could work on the file, and neither would know.
    @Test(.daemon(listen: "127.0.0.1:0")) func aDatabaseThatIsMovedAwayOrLosesItsLockIsNotReady() async throws {
        try await pages.expect("readyz", is: "ok\n")
        let (path, away) = (site.folder.databasePath, site.folder.databasePath + ".moved")
        try FileManager.default.moveItem(atPath: path, toPath: away)
        try await pages.expect("readyz", shows: "siwatch.sqlite is gone, and siwatch has its file still open\n")
        #expect(await daemon.line(containing: "database_displaced") != nil)
        // Its figures come from the tables, and it speaks without them.
        let said = try await pages.expect("status.json", shows: "siwatch is not ready: ", "is gone, and siwatch")
        let document = try StatusDocument(said)
        #expect(document.health == "down", "\(said)")
        #expect(document.findings.contains { $0.sentence.hasPrefix("siwatch is not ready: ") && $0.runbook == "siwatchnotready" })
        try FileManager.default.moveItem(atPath: away, toPath: path)
        try await pages.expect("readyz", is: "ok\n")
        try FileManager.default.removeItem(atPath: path + ".lock")
        try await pages.expect("readyz", shows: "siwatch.sqlite.lock was removed or replaced")
    }

    /// A clean-up script takes the log for a left-over. Connections that are open go on sharing it, new ones begin another.
    @Test(.site(listen: "127.0.0.1:0")) func aLogThatIsRemovedIsNotReadyAndNothingSettledIsLost() async throws {
        let path = site.folder.databasePath
        try await site.daemon { daemon in
            try await site.settle(try await site.apple.signIn(2))
            for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: path + suffix) }
            let words = "siwatch.sqlite-wal was removed or replaced while siwatch has it open"
            try await OperationsPages(of: daemon).expect("readyz", shows: words)
            #expect(await daemon.line(containing: "database_displaced") != nil)
            try site.folder.write("no notification", to: "notification")
            #expect(try await site.folder.run("enqueue", site.folder.path("notification")).status == 0)
            // The backend of this site shares siwatch's log.
            try await site.settle(try await site.apple.signIn(3))
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: site.folder.url.path)
        #expect(names.contains { $0.hasPrefix("siwatch.sqlite-wal.displaced-") }, "\(names)")
        try await site.daemon { _ in
            // This process still has the old log open.
            let output = try await site.folder.run("status").output
            #expect(output.contains { $0.contains(/^  authorized +5$/) }, "\(output)")
        }
    }

    /// A member of the group may truncate it, and a siwatch at work ends by SIGBUS without a word.
    @Test(.site) func sharedMemoryThatWasCutOffIsSaid() async throws {
        let killed = try await site.folder.startDaemon()
        try await site.settle(try await site.apple.signIn(1))
        await killed.end(by: SIGKILL)
        // The backend of the site has mapped the memory, and would end as well.
        let folder = try site.folder.copy()
        defer { folder.remove() }
        let memory = folder.databasePath + "-shm"
        #expect(try await !folder.siwatch("doctor", "--before-start").output.joined().contains("SIGBUS"), "a kill is no such thing")
        for size in [0, 100] as [off_t] {
            try Data(count: Int(size)).write(to: URL(filePath: memory))
            let words = "\(memory) was cut off, to \(size) bytes, by a user who may write it: a siwatch at work ends by SIGBUS"
            try await folder.expect("doctor --before-start", 0, "warning  database.path: \(words)")
            try Data(count: Int(size)).write(to: URL(filePath: memory))
            let daemon = try await folder.startDaemon()
            #expect(daemon.output.first { $0.contains("shared_memory_cut") }?.contains(words) == true, "\(daemon.output)")
            await daemon.end(by: SIGKILL)
        }
        let daemon = try await folder.withDaemon { $0 }
        #expect(!daemon.output.joined().contains("shared_memory_cut"))
    }

    /// A lane changes its owner within seconds, so only an old fleet without one is in trouble.
    @Test(.daemon(on: .server(nil))) func aLaneWithoutAnOwnerIsTold() async throws {
        try await site.backend.until("SELECT COUNT(*) FROM lane WHERE until > 0 AND owner <> 'nobody'", is: 2)
        try await site.backend.execute("UPDATE replica SET started_at = 1")
        let before = try await site.folder.siwatch("status").output.joined()
        #expect(!before.contains("no siwatch owns"), "\(before)")
        try await site.backend.execute("UPDATE lane SET owner = 'nobody', until = 9000000000000000")
        try await site.folder.expect("status", says: "no siwatch owns the lane example", "no siwatch owns the lane maintenance")
    }

    /// Backends cannot make the log of the database, which is gone after siwatch's end.
    @Test(.site) func aFolderWhereBackendsCannotMakeFilesIsTold() async throws {
        try #require(chmod(site.folder.url.path, 0o750) == 0)
        for command in ["doctor --before-start", "status"] {
            try await site.folder.expect(command, says: "can insert only while siwatch runs", "chmod 2770")
        }
        try #require(chmod(site.folder.url.path, 0o2770) == 0)
        try await site.folder.expect("status", 2, not: "only while siwatch runs")
    }

    /// The queues are empty and the loops turn, and nobody can insert.
    @Test(.daemon(listen: "127.0.0.1:0")) func aDatabaseThatIsClosedToItsGroupIsNotReady() async throws {
        let folder = site.folder
        let doors: [(String, mode_t, String)] = [
            (folder.databasePath, 0o640, "g+rw"), (folder.databasePath + "-shm", 0o600, "g+rw"), (folder.url.path, 0o700, "2770"),
        ]
        for (round, (path, mode, change)) in doors.enumerated() {
            try await pages.expect("readyz", is: "ok\n")
            try #require(chmod(path, mode) == 0)
            let words = "backends cannot insert: \(path) has mode 0\(String(mode, radix: 8)), so that backends"
            let body = try await pages.expect("readyz", shows: words)
            #expect(body.hasPrefix(words), "\(body)")
            #expect(try await pages.get("readyz/tables") == body)
            #expect(try await pages.get("readyz/door") == "ok\n", "the HTTP door inserts by siwatch's own rights")
            #expect(try await pages.get("metrics").contains("\nsiwatch_store_writable 0\n"))
            try await eventually { daemon.output.count { $0.contains("inserts_blocked") } > round }
            try await folder.expect("doctor --before-start", 0, String(body.dropLast()))
            try await folder.expect("status", 2, String(body.dropLast()))
            // The command in the message, as its owner runs it.
            let command = try #require(body.firstMatch(of: /; sudo -u \S+ (chmod \S+ \S+) lets them/)).1
            #expect(command.hasPrefix("chmod \(change) "))
            #expect(await (try ChildProcess.shell(String(command))).exit() == 0)
            try await pages.expect("readyz", is: "ok\n")
            try await eventually { daemon.output.count { $0.contains("inserts_possible") } > round }
        }
    }

    /// Apple resets every connection and only codes are sent: each lane counts.
    @Test(.site(listen: "127.0.0.1:0")) func whatAppleLastSaidIsShownForEveryLane() async throws {
        try await site.apple.script(.reset().at(.token))
        try await site.daemon { daemon in
            try await site.backend.insert(codes: try await site.apple.signInByCode(4).compactMap(CodeRow.init))
            let said = try await OperationsPages(of: daemon).expect("status.json", shows: "\"absences\" : [\n      {")
            let document = try StatusDocument(said)
            #expect(document.daemon?.answers.contains { $0.lane == "codes" && $0.kind == "reset" } == true, "\(said)")
            #expect(document.findings.contains { $0.runbook == "siwatchappleerrors" && $0.sentence.contains("reset") }, "\(said)")
            #expect(document.daemon?.warnings.contains { $0.event == "apple_unreachable" } == true)
        }
    }

    /// A member of the group can write any number into the file.
    @Test(.daemon(listen: "127.0.0.1:0"), arguments: [Int64.max, Int64.min])
    func noNumberInTheTablesEndsTheDaemon(_ number: Int64) async throws {
        try await site.settle(try await site.apple.signIn(2))
        try await site.backend.execute("INSERT OR REPLACE INTO credential_count SELECT app, 'revoked', 1 FROM credential_count")
        for change in [
            "credential_count SET count = \(number)", "app SET pending = \(number), admitted = 1, missed = \(number)",
            "app SET never_accepted = \(number), foreign_tokens = \(number), revocations_held = \(number)",
        ] {
            // A column may refuse the number.
            try? await site.backend.execute("UPDATE \(change)")
            // The figures of a second ago still stand.
            for page in ["", "status.json", "metrics", ""] { _ = try await pages.get(page, within: .seconds(2)) { _ in false } }
        }
        #expect(try await pages.get("healthz") == "ok\n")
    }

    /// A container's log driver blocks. The daemon goes on, and stops on request.
    @Test(.site) func aLogThatNobodyReadsHoldsUpNothing() async throws {
        let log = site.folder.path("log")
        try #require(mkfifo(log, 0o600) == 0)
        let reader = open(log, O_RDWR | O_NONBLOCK)
        try #require(reader >= 0)
        defer { close(reader) }
        let page = [UInt8](repeating: UInt8(ascii: "x"), count: 4096)
        while write(reader, page, page.count) > 0 {}

        let siwatch = try ChildProcess.program("siwatch").path
        let daemon = try ChildProcess.shell(#"exec "$0" run --config "$1" 2<>"$2""#, siwatch, site.folder.configurationPath, log)
        defer { daemon.signal(SIGKILL) }
        try await site.settle(try await site.apple.signIn(3))
        await daemon.end(by: SIGTERM)
    }

    /// At this level each sign-in logs a line.
    @Test(.site(["log": "level = \"debug\""])) func aLogThatCannotBeWrittenStopsNothing() async throws {
        try await site.backend.insert(try await site.apple.signIn(10))
        let siwatch = try ChildProcess.program("siwatch").path
        let process = try ChildProcess.shell(#"exec "$0" run --once --config "$1" 2>/dev/full"#, siwatch, site.folder.configurationPath)
        #expect(await process.exit() == 0)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'") == 10)
    }
}
