// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import ArgumentParser
import DaemonHarness
import Foundation

/// Shows siwatch at work against a simulated Apple, and checks every figure.
@main
struct Demo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "siwatch-demo",
        abstract: "Watch siwatch at work against a simulated Apple on this machine.",
        discussion: """
            It starts both, lets people sign in, revoke, delete their accounts and switch off mail, and compares what siwatch says in \
            the end with what they did. Exit code: 0 if every figure is right, 1 if not.
            """
    )

    @Flag(help: "Leave the scratch folder, and say how to look into it.") var keep = false

    func run() async throws {
        // The reader of our output may leave before the end, and the demo still has a folder to remove.
        signal(SIGPIPE, SIG_IGN)
        let keepsFolder = keep
        guard try await interruptible({ try await Self.show(keepsFolder: keepsFolder) }) else { throw ExitCode.failure }
    }

    /// - Returns: whether every figure is right.
    private static func show(keepsFolder: Bool) async throws -> Bool {
        let screen = Screen()
        let start = ContinuousClock.now
        let folder = try WatchedFolder(named: "siwatch-demo")
        var isKept = keepsFolder
        defer { if !isKept { folder.remove() } }
        screen.print(Words.opening(folder: folder.url.path, isKept: keepsFolder))

        var tables = [
            "refresh": """
            interval = "\(Script.interval.milliseconds)ms"
            max_requests_per_second = \(Script.requestsPerSecond)
            """,
            // The demo squeezes a day into seconds, so more people leave at once than in any real app.
            "breaker": "settle = \"1s\"\nmax_rejections = 150",
            "revocations": "max_percent_per_hour = 100",
        ]
        let backend = AppBackend()
        let receiver = HookReceiver()
        receiver.answer(backend.take)
        return try await receiver.serve { port in
            tables.merge(try Door.table(in: folder)) { $1 }
            tables.merge(try Hook.table(in: folder, port: port)) { $1 }
            return try await Site.with(folder, apple: .process, tables) { site in
                let stage = try await Stage(site, backend, try await folder.startDaemon(), screen, since: start)
                guard let figures = try await perform(on: stage, keepsFolder: keepsFolder) else { return false }
                let isRight = figures.allSatisfy(\.isRight)
                screen.print(Words.verdict(figures, after: ContinuousClock.now - start))
                // The database shows more about an error than a summary can.
                if !isRight { isKept = true }
                if isKept {
                    try stage.saveLog(to: folder.url.appending(path: Words.logFile))
                    screen.print(Words.afterwards(folder: folder))
                }
                return isRight
            }
        }
    }

    /// Plays the story, and stops both programs in any case.
    ///
    /// - Returns: nil if somebody interrupts it.
    private static func perform(on stage: Stage, keepsFolder: Bool) async throws -> [Audit.Figure]? {
        do {
            return try await play(on: stage)
        } catch {
            let notice = Task.isCancelled ? nil : await stage.deathNotice()
            await stage.stop()
            stage.screen.clear()
            guard Task.isCancelled else { throw notice ?? error }
            stage.screen.print("", "Interrupted. Both programs are stopped\(keepsFolder ? "." : " and the folder is removed.")")
            return nil
        }
    }

    private static func play(on stage: Stage) async throws -> [Audit.Figure] {
        var story = Story(stage: stage)
        try await story.play()
        try await stage.watch(for: .seconds(60)) {
            let audit = try await stage.site.audit()
            return audit.wrong.isEmpty && stage.backend.usersWithSession == audit.expectedAuthorized
        }
        stage.say("That was all. Both programs are told to stop (SIGTERM).")
        stage.screen.clear()

        // The figures count what a stopped siwatch left on disk. Apple runs longer, to report the requests that it got.
        let daemonCode = await stage.stopDaemon()
        let audit = try await stage.site.audit()
        let gap = try await stage.site.apple.send(ReadCounters()).shortestRefreshGap ?? 0
        let appleCode = await stage.site.apple.stop()
        let readable = try stage.site.folder.files(with: stage.site.ledger.codes).values.reduce(Set()) { $0.union($1) }
        let figures =
            audit.figures + [
                audit.latestChecks,
                Audit.Figure("people whose session goes on", audit.expectedAuthorized, stage.backend.usersWithSession),
                Audit.Figure("webhooks with a wrong signature", 0, stage.backend.badWebhooks),
                Audit.Figure("ms between two checks of a token, at least", least: Script.interval.milliseconds, Int(gap)),
                Audit.Figure("codes readable in the files", 0, readable.count),
                Audit.Figure("exit code of siwatch", 0, Int(daemonCode)),
                Audit.Figure("exit code of siwatch-simulator", 0, Int(appleCode)),
            ]
        stage.screen.print(Words.table(figures) + audit.disagreements.prefix(10) + Words.timing(audit))
        return figures
    }
}
