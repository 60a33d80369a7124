// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialCore
import DaemonHarness
import Foundation
import GRDB
import SQLiteStore
import Testing

@testable import siwatch

/// Commands beside a running daemon and without one.
@Suite(.timeLimit(.minutes(10))) struct CommandTests {
    /// A requested recheck takes long, and a command that pauses an app does not wait for it.
    @Test(.site(onEach: SiteDatabase.allCases)) func aCommandReadsItsAnswerAsSoonAsThereIsOne() async throws {
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(1)) }
        let path = site.folder.configurationPath
        let configuration = try Configuration(parsing: String(contentsOfFile: path, encoding: .utf8), from: path)
        // A process has begun a long request, and has died.
        try await configuration.withStore(appends: true) { store in
            let now = Timestamp(milliseconds: Int64(Date.now.timeIntervalSince1970 * 1000))
            store.trust(try configuration.sealer(of: store), since: now, nil)
            _ = try await store.submit(.recheckApp("example"), at: now)
            _ = try await store.handleNextRequest(under: configuration.refresh.recheckRules(of: configuration.clientIDs), at: now)
        }
        try await site.folder.expect("pause example", 0)
        let open = "SELECT COUNT(*) FROM operator_request WHERE answer IS NOT NULL AND position IS NOT NULL"
        #expect(try await site.backend.int(open) == 1)
        // Without a daemon, a recheck runs in its own process.
        try await site.folder.expect("recheck --app example", 0)
        #expect(try await site.backend.int(open) == 0)
    }

    /// After a command has said that it did nothing, nothing may happen.
    @Test(.site) func aDaemonThatDoesNotAnswerIsUnavailable() async throws {
        try await site.daemon { daemon in
            try await daemon.freeze()
            let (status, output) = try await site.folder.siwatch("pause", "example")
            daemon.signal(SIGCONT)
            // The daemon may have been stopped while it held the lock on the database.
            #expect(status == 69, "\(output)")
            #expect(try await site.backend.int("SELECT COUNT(*) FROM operator_request") == 0)
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM app WHERE paused_at IS NOT NULL") == 0)
    }

    @Test(.site) func aCommandOutlivesTheDaemonItAsked() async throws {
        let daemon = try await site.folder.startDaemon()
        try await daemon.freeze()
        // The daemon may have been stopped while it held the lock on the database. Then the command could not leave its request.
        while (try? await site.backend.execute("DELETE FROM operator_request")) == nil {
            daemon.signal(SIGCONT)
            try await daemon.freeze()
        }
        let command = try site.folder.start("pause", "example")
        try await site.backend.until("SELECT COUNT(*) FROM operator_request", is: 1)
        daemon.signal(SIGKILL)
        #expect(await command.exit() == 0, "\(command.output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM app WHERE paused_at IS NOT NULL") == 1)
        await daemon.exit()
    }

    // MARK: The quarantine

    @Test(.site(onEach: SiteDatabase.allCases)) func theQuarantineIsShownHarmlesslyAndEmptied() async throws {
        let hostile = site.folder.path("hostile")
        try Data("\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}".utf8 + [0xff, 0x00, 0x0d]).write(to: URL(filePath: hostile))
        try await site.daemon { _ in
            for count in 1...3 {
                try await site.folder.expect("enqueue \(hostile)", 0)
                try await site.backend.until("SELECT COUNT(*) FROM notification_quarantine", is: count)
            }
            for arguments in ["", " 1", " 1 --json", " --json"] {
                let scalars = try await site.folder.expect("quarantine list\(arguments)", 0).joined().unicodeScalars
                #expect(scalars.allSatisfy { $0.value >= 0x20 && !(0x7f...0x9f).contains($0.value) && $0.value != 0x202e })
            }
            let page = try await site.folder.siwatch("quarantine", "list", "--limit", "1", "--before", "3").output
            #expect(page.contains { $0.contains("malformed") } && page.last == "Older ones: --before 2")
            let last = try await site.folder.siwatch("quarantine", "list", "--limit", "1", "--before", "2").output
            #expect(last.last?.contains("malformed") == true, "the last page names no other")

            #expect(try await site.folder.siwatch("quarantine", "retry", "1").output == ["1 notification waits again."])
            try await site.backend.until("SELECT COUNT(*) FROM notification_quarantine WHERE id = 4", is: 1)
            try await site.folder.expect("quarantine retry 1 --received-at 2026-01-01T00:00:00Z", 1, "there is no row 1")
            #expect(try await site.folder.siwatch("quarantine", "drop", "--reason", "expired").output == ["0 notifications are gone."])
            try await site.folder.expect("quarantine drop 2", 0)
        }
        try await site.folder.expect("quarantine retry 3 --received-at 2026-01-01T00:00:00Z", 0)
        #expect(try await site.backend.int("SELECT received_at FROM notification_queue") == 1_767_225_600_000)
        #expect(try await site.folder.siwatch("quarantine", "drop", "--all").output == ["1 notification is gone."])
        #expect(try await site.folder.siwatch("quarantine", "list").output == ["The quarantine is empty."])
        try await site.folder.expect("quarantine list 4", 1)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func whatIsEnqueuedIsTakenLikeABackends() async throws {
        let signIns = try await site.apple.signIn(1)
        let body = try await site.apple.notify(RevokeConsent(), users: [signIns[0].userID])[0].body
        let file = site.folder.path("body.json")
        try Data((body + "\n").utf8).write(to: URL(filePath: file))
        #expect(try await site.folder.siwatch("enqueue", file).output == ["Row 1 of notification_queue."])
        try await site.daemon { _ in
            try await site.settle(signIns)
            try await site.folder.expect("enqueue \(file)", 0)
            try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 2)
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM notification_quarantine") == 0)

        try Data(count: 65_537).write(to: URL(filePath: file))
        for body in ["/dev/null", file] { try await site.folder.expect("enqueue \(body)", 64) }
        for absent in [file + ".none", site.folder.url.path] { try await site.folder.expect("enqueue \(absent)", 1) }
    }

    // MARK: The file

    @Test(.site(listen: "127.0.0.1:0")) func aBackupCanBeUsedAndOldCopiesMakeRoomAndTheLastOneIsKnown() async throws {
        let copy = site.folder.path("backup.sqlite")
        let folder = site.folder.url.appending(path: "copies")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        let names = [
            "siwatch-20200101T000000Z.sqlite", "siwatch-20210101T000000Z.sqlite", "siwatch.sqlite", "notes",
            // Of runs that were cut short before drafts had names of their own.
            "siwatch-20300101T000000Z.sqlite", "siwatch-20310101T000000Z.sqlite",
        ]
        let database = try SQLiteStore.openForReading(DatabaseFile(path: site.folder.databasePath))
        for name in names[..<2] { try await database.backUp(to: folder.appending(path: name).path) }
        try database.close()
        for name in names[2..<5] { try Data().write(to: folder.appending(path: name)) }
        let whole = try Data(contentsOf: folder.appending(path: names[0]))
        try whole.prefix(whole.count / 2).write(to: folder.appending(path: names[5]))
        try whole.prefix(4096).write(to: folder.appending(path: "siwatch-20190101T000000Z.sqlite.partial"))
        try await site.daemon { daemon in
            let pages = try await OperationsPages(of: daemon)
            let metric = "siwatch_backup_last_success_timestamp_seconds"
            #expect(try await pages.get("metrics").contains("\n\(metric) 0\n"))
            #expect(try await site.folder.siwatch("status").output.contains { $0.contains(/^  last backup +never$/) })
            let removed = "\n\(folder.path)/\(names[0]): removed.\n"
            let output = try await site.folder.expect("backup --keep 2 \(folder.path)", 0, "bytes, verified.\n", removed)
            let broken = names[4...].map { "\(folder.path)/\($0): no whole copy, so it does not count." }
            #expect(output.filter { $0.hasSuffix("removed.") }.count == 1 && Set(broken).isSubset(of: output), "\(output)")
            #expect(try await pages.get("metrics").contains(try Regex("(?m)^\(metric) 1[0-9]{9}")))
            #expect(try await site.folder.siwatch("status").output.contains { $0.hasPrefix("  last backup") && $0.hasSuffix(" ago") })
            try await site.settle(try await site.apple.signIn(5))
            try await site.folder.expect("backup \(copy)", 0, "keep it apart")
            try await site.folder.expect("backup \(copy)", 1, "exists already")
            for place in ["/nowhere/backup.sqlite", "/dev/full"] { try await site.folder.expect("backup \(place)", 1) }
        }
        #expect(try site.folder.mode(of: "backup.sqlite") == 0o600)
        let backend = try Backend(databasePath: copy)
        #expect(try await backend.int("SELECT COUNT(*) FROM credential_state") == 5)
        #expect(try await backend.rows("PRAGMA integrity_check").map { $0[0] as String } == ["ok"])
        try backend.close()
        let left = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        #expect(left.count == 6 && Set(names.dropFirst()).isSubset(of: left), "\(left)")
        try await site.folder.expect("backup --keep 0 \(folder.path)", 64)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aCopyByAnotherProgramIsNoted() async throws {
        func lines() async throws -> [String] { try await site.folder.siwatch("status").output.filter { $0.hasPrefix("  last backup ") } }
        #expect(try await lines().map { $0.hasSuffix(" never") } == (site.schema == nil ? [true] : []))
        try await site.folder.succeed("backup", "--note")
        #expect(try await lines().first?.hasSuffix(" ago") == true)
        for command in ["backup --note file", "backup"] { try await site.folder.expect(command, 64) }
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func anAppIsRenamedWhileNothingRunsAndTheConfigurationHasToAgree() async throws {
        try await site.daemon { _ in
            try await site.settle(try await site.apple.signIn(1))
            try await site.folder.expect("rename app example renamed", 69)
        }
        try await site.folder.expect("rename app example renamed", 0, "name = \"renamed\"")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state WHERE app = 'renamed'") == 1)
        try await site.folder.expect("run", 78)
        try site.folder.edit("name = \"example\"", "name = \"renamed\"")
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(1)) }
        try await site.folder.expect("rename app example other", 1)
        #expect(try await site.folder.siwatch("rename", "app", "renamed", "").status == 64)
    }

    // MARK: Watching

    @Test(.site(onEach: SiteDatabase.allCases)) func statusGoesOnUntilItIsInterrupted() async throws {
        try await site.daemon { _ in
            try await site.settle(try await site.apple.signIn(5))
            let watch = try site.folder.start("status", "--watch")
            try await eventually { watch.output.count { $0.hasPrefix("health: ") } > 1 }
            watch.signal(SIGINT)
            #expect(await watch.exit() == 128 + SIGINT)
            #expect(!watch.output.joined().contains("\u{1b}"))
            #expect(watch.output.contains { $0.contains(/^  authorized +5$/) })
        }
        let report = try await site.folder.json("status --json")
        #expect(report["schema"] as? Int == 1 && report["is_running"] as? Bool == false)
    }

    // MARK: Bad input

    @Test(arguments: [
        ["explain"], ["recheck"], ["recheck", "user", "--app", "example"], ["pause"], ["quarantine", "retry"], ["quarantine", "drop"],
        ["quarantine", "drop", "1", "--all"], ["quarantine", "list", "--limit", "0"], ["quarantine", "list", "--reason", "boredom"],
        ["quarantine", "retry", "1", "--received-at", "yesterday"], ["quarantine", "retry", "1", "--received-at", "1767225600"],
        ["quarantine", "list", "one"], ["breaker", "confirm"], ["breaker", "reset"],
        ["enqueue"], ["backup"], ["import", "users.csv", "--json"], ["import", "--undo", "1", "--json"], ["rename", "app", "one"],
        ["status", "--watch", "--json"], ["status", "--line", "--json"],
        ["secret", "new", "password"], ["rename", "client", "one", "two"], ["run", "--no-such-option"], ["dance"],
    ])
    func wrongUsageIs64(arguments: [String]) async throws {
        let command = try await CommandCall.siwatch(arguments)
        #expect(command.status == 64, "\(command.output)")
    }

    @Test(.site) func nothingIsMadeWhereThereIsNoDatabase() async throws {
        let other = try site.folder.configuration(of: "none.sqlite")
        for arguments in [
            ["explain", "user"], ["recheck", "user"], ["pause", "example"], ["quarantine", "list"], ["quarantine", "drop", "--all"],
            ["enqueue", other], ["backup", other + ".copy"], ["rename", "app", "example", "new"], ["status"],
        ] {
            let said = try await CommandCall.siwatch(arguments + ["--config", other])
            examine(said, "\(arguments)", 78, ["siwatch migrate creates it"], at: #_sourceLocation)
        }
        let files = try FileManager.default.contentsOfDirectory(atPath: site.folder.url.path)
        #expect(!files.contains { $0.hasPrefix("none.sqlite") } && !files.contains("other.toml.copy"))
    }

    @Test(.site) func anOutputThatCannotBeWrittenIsAFailure() async throws {
        let program = try ChildProcess.program("siwatch").path
        let shell = try ChildProcess.shell("\(program) status --config \(site.folder.configurationPath) > /dev/full")
        #expect(await shell.exit() == 1)
        #expect(shell.output.joined().contains("No space left on device"))
    }

    // MARK: Help

    @Test(arguments: ["bash", "zsh", "fish"]) func shellsCanCompleteEveryCommand(shell: String) async throws {
        let command = try await CommandCall.siwatch(["--generate-completion-script", shell])
        #expect(command.status == 0)
        let text = command.output.joined(separator: "\n")
        for word in ["quarantine", "retry", "received-at", "bad_signature", "recheck", "rename", "forget", "export"] {
            #expect(text.contains(word), "\(word)")
        }
        #expect(!text.contains("parse-toml"), "hidden")
    }
}
