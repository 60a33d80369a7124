// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import DaemonHarness
import Foundation
import Testing

struct ReloadTests {
    @Test(.site(["refresh": "interval = \"1s\""])) func aKeyThatReplacesAWrongOneIsTriedAtOnce() async throws {
        let file = site.folder.url.appending(path: SimulatedApple.keyFile)
        let right = try Data(contentsOf: file)
        try Data(P256.Signing.PrivateKey().pemRepresentation.utf8).write(to: file)
        try await site.daemon { daemon in
            try await site.settle(try await site.apple.signIn(3))
            #expect(await daemon.line(containing: #""event":"app_paused""#) != nil)
            try right.write(to: file)
            daemon.signal(SIGHUP)
            #expect(await daemon.line(containing: #""event":"reloaded""#) != nil)
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 3)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'") == 3)
        }
    }

    /// Atomic: the daemon does not take over the good half of a bad file. Nor does the parser's end harm it, whatever its cause: it is the
    /// same process, and no parser process is left.
    @Test(.daemon(listen: "127.0.0.1:0", ["log": "level = \"info\"", "queues": "poll_interval = \"1s\""]))
    func aBrokenConfigurationLeavesTheOldOneAtWorkUntilAGoodOneComes() async throws {
        let sound = try String(contentsOfFile: site.folder.configurationPath, encoding: .utf8)
        try site.folder.edit("level = \"info\"", "level = \"debug\"")
        try site.folder.edit(SimulatedApple.teamID, "short")
        try site.folder.edit(SimulatedApple.keyFile, "missing.p8")
        daemon.signal(SIGHUP)
        daemon.signal(SIGHUP)
        #expect(await daemon.line(containing: #""event":"reload_failed""#)?.contains("app[0].team_id") == true)
        try await site.settle(try await site.apple.signIn(1))
        #expect(try await pages.get("metrics").contains("siwatch_config_last_reload_successful 0\n"))
        #expect(try await pages.get("readyz") == "ok\n")

        try Self.endless.write(toFile: site.folder.configurationPath, atomically: true, encoding: .utf8)
        let (status, output) = try await site.folder.run("doctor", "--before-start")
        #expect(status == 78 && output.count == 1 && output.first?.contains("was not done after 5 s") == true, "\(output)")
        daemon.signal(SIGHUP)
        #expect(await daemon.line(containing: "its parser died of it")?.contains(#""event":"reload_failed""#) == true)
        #expect(!daemon.output.contains { $0.contains("credential_changed") })

        try sound.replacing("level = \"info\"", with: "level = \"debug\"")
            .write(toFile: site.folder.configurationPath, atomically: true, encoding: .utf8)
        try site.folder.edit("poll_interval = \"1s\"", "poll_interval = \"2s\"\n[revocations]\nmax_per_hour = 7")
        daemon.signal(SIGHUP)
        let line = await daemon.line(containing: #""event":"reload_needs_restart""#)
        #expect(line?.contains(#""reason":"queues.poll_interval, revocations.max_per_hour""#) == true)
        #expect(await daemon.line(containing: #""event":"reloaded""#) != nil)
        try await site.settle(try await site.apple.signIn(1))
        // At debug level only.
        #expect(await daemon.line(containing: #""event":"credential_changed""#) != nil)
        #expect(try await pages.get("metrics").contains("siwatch_config_last_reload_successful 1\n"))
        #expect(try await pages.get("healthz") == "ok\n")
        #expect(children(of: daemon) == [])
    }

    @Test(.daemon(onEach: SiteDatabase.allCases, listen: "127.0.0.1:0", ["operations": "socket = \"siwatch.sock\""]))
    func aFailedReloadIsAFinding() async throws {
        // siwatch works with the key that it has read, and a start would end at once.
        let (key, away) = (site.folder.url.appending(path: "siwatch.key"), site.folder.url.appending(path: "away"))
        try FileManager.default.moveItem(at: key, to: away)
        daemon.signal(SIGHUP)
        try await pages.expect("", shows: "was not taken over: encryption.key_file: \(key.path) is missing", "health: degraded")
        try FileManager.default.moveItem(at: away, to: key)
        try site.folder.edit("[apple]", "[refresh]\ninterval = \"soon\"\n[apple]")
        daemon.signal(SIGHUP)
        let said = try await pages.expect("status.json", shows: "refresh.interval")
        let document = try StatusDocument(said)
        #expect(document.health == "degraded" && document.findings.first?.runbook == "siwatchfinding", "\(said)")
        try site.folder.edit("interval = \"soon\"", "interval = \"48h\"")
        daemon.signal(SIGHUP)
        try await pages.expect("status.json", shows: "new values of refresh.interval wait for a restart", "\"health\" : \"healthy\"")
    }

    @Test func aSignalInTheParserEndsTheCommandWithASentence() async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        try Self.endless.write(toFile: folder.configurationPath, atomically: true, encoding: .utf8)
        let command = try folder.start("doctor", "--before-start")
        // Siwatch handles SIGXCPU while it parses, and at no other time.
        try await eventually {
            let status = try String(contentsOfFile: "/proc/\(command.identifier)/status", encoding: .utf8)
            let caught = status.firstMatch(of: /SigCgt:\s*([0-9a-f]+)/).flatMap { UInt64($0.1, radix: 16) } ?? 0
            return caught & 1 << (UInt64(SIGXCPU) - 1) != 0
        }
        command.signal(SIGSEGV)
        #expect(await command.exit() == 78)
        #expect(command.output.count == 1 && command.output[0].contains("its parser died of it"), "\(command.output)")
    }

    /// A string that does not end takes the longer the more quotation marks are escaped in it.
    private static let endless = "\"" + String(repeating: "\\\"", count: 125_000)

    private func children(of daemon: ChildProcess) -> [String] {
        let tasks = "/proc/\(daemon.identifier)/task"
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: tasks)) ?? []
        return threads.compactMap { try? String(contentsOfFile: "\(tasks)/\($0)/children", encoding: .utf8) }.filter { !$0.isEmpty }
    }
}
