// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// The whole demonstration: sets the stage, plays the story, stops, judges and cleans up.
struct Show {
    var keepsFolder: Bool

    /// - Returns: whether every figure is right.
    func run() async throws -> Bool {
        let screen = Screen()
        let start = ContinuousClock.now
        let folder = try WatchedFolder(named: "siwatch-demo")
        var isKept = keepsFolder
        defer { if !isKept { folder.remove() } }
        screen.print(Words.opening(folder: folder.url.path, isKept: keepsFolder))

        let stage = try await Stage(in: folder, screen: screen, start: start)
        let figures: [Figure]
        do {
            figures = try await play(on: stage, folder: folder, screen: screen)
        } catch {
            let notice = Task.isCancelled ? nil : await stage.deathNotice()
            await stage.stop()
            screen.clear()
            if Task.isCancelled {
                screen.print("", "Interrupted. Both programs are stopped\(keepsFolder ? "." : " and the folder is removed.")")
                return false
            }
            guard let notice else { throw error }
            throw HarnessError(notice)
        }

        let isRight = figures.allSatisfy(\.isRight)
        screen.print(Words.verdict(figures, after: ContinuousClock.now - start))
        // The database shows more of what went wrong than a summary can.
        if !isRight { isKept = true }
        if isKept {
            try stage.saveLog(to: folder.url.appending(path: Words.logFile))
            screen.print(Words.afterwards(folder: folder))
        }
        return isRight
    }

    private func play(on stage: Stage, folder: WatchedFolder, screen: Screen) async throws -> [Figure] {
        var story = Story(stage: stage)
        try await story.play()

        let truth = try await stage.apple.everybody()
        try await stage.watch(for: .seconds(60)) {
            try await Judgement(of: Observation(stage.backend), against: truth, stage.ledger).isRight
        }
        stage.say("That was all. Both programs are told to stop (SIGTERM).")
        screen.clear()

        // What counts is what a stopped siwatch leaves on the disk. Apple outlives it, to say what it was asked.
        let daemonCode = await stage.stopDaemon()
        let finalTruth = try await stage.apple.everybody()
        let counters = try await stage.apple.counters()
        let appleCode = await stage.stopApple()

        let observation = try await Observation(stage.backend)
        let judgement = Judgement(of: observation, against: finalTruth, stage.ledger)
        let readable = try ReadableTokens.count(stage.ledger.refreshTokens, in: folder.url)
        try stage.backend.close()
        let figures =
            judgement.figures + [
                judgement.latestChecks,
                .least("ms between two checks of a token, at least", Script.interval.milliseconds, counters.shortestGap),
                .equal("refresh tokens readable in the files", 0, readable),
                .equal("exit code of siwatch", 0, Int(daemonCode)),
                .equal("exit code of apple-simulator", 0, Int(appleCode)),
            ]
        screen.print(Words.table(figures) + judgement.disagreements.prefix(10) + Words.timing(judgement))
        return figures
    }
}
