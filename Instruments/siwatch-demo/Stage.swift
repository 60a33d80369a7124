// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation

/// The two programs, their database, and the table of figures.
struct Stage {
    let site: Site
    let screen: Screen
    private let daemon: ChildProcess
    private let start: ContinuousClock.Instant

    init(_ site: Site, _ daemon: ChildProcess, _ screen: Screen, since start: ContinuousClock.Instant) {
        (self.site, self.daemon, self.screen, self.start) = (site, daemon, screen, start)
        say("The simulated Apple listens on \(site.apple.url), and siwatch is ready.")
    }

    /// Tells the viewer the next step.
    func say(_ text: String) {
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        screen.print("\(String(format: "%5.1f", seconds)) s  \(text)")
    }

    /// Redraws the table until a condition holds or the time is over.
    func watch(for limit: Duration, until isDone: () async throws -> Bool = { false }) async throws {
        let end = ContinuousClock.now + limit
        repeat {
            for (name, process) in processes where process.exitStatus != nil { throw HarnessError("\(name) has ended") }
            let answers = try await site.apple.send(ReadCounters()).requests[.token] ?? [:]
            screen.show(Board(tally: try await Tally(of: site.backend), answers: (answers["200"] ?? 0, answers["400"] ?? 0)))
            if try await isDone() { return }
            try await Task.sleep(for: .milliseconds(150))
        } while ContinuousClock.now < end
    }

    // MARK: The end

    private var processes: [(String, ChildProcess)] { [("siwatch", daemon), ("apple-simulator", site.apple.process)] }

    /// - Returns: the exit code.
    func stopDaemon() async -> Int32 {
        daemon.signal(SIGTERM)
        return await daemon.exit()
    }

    /// Stops both programs, in any situation.
    func stop() async {
        _ = await stopDaemon()
        await site.apple.stop()
    }

    /// Writes siwatch's log to a file.
    func saveLog(to file: URL) throws {
        try daemon.output.map { $0 + "\n" }.joined().write(to: file, atomically: true, encoding: .utf8)
    }

    /// The program that ended unasked, and its last lines; nil if none did.
    func deathNotice() async -> HarnessError? {
        // A lost connection shows earlier than the end of its process.
        try? await Task.sleep(for: .milliseconds(300))
        for (name, process) in processes where process.exitStatus != nil {
            let code = await process.exit()
            let words = process.output.suffix(15).map { "\n  \($0)" }.joined()
            return HarnessError("\(name) has ended by itself with exit code \(code). Its last words:\(words)")
        }
        return nil
    }
}
