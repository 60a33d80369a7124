// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation

/// The two programs, the database between them, and the table that shows what goes on there.
struct Stage {
    let site: Site
    let screen: Screen
    private let daemon: ChildProcess
    private let start: ContinuousClock.Instant

    init(_ site: Site, _ daemon: ChildProcess, _ screen: Screen, since start: ContinuousClock.Instant) {
        (self.site, self.daemon, self.screen, self.start) = (site, daemon, screen, start)
        say("The simulated Apple listens on \(site.apple.url), and siwatch is ready.")
    }

    /// Tells the viewer what happens now.
    func say(_ text: String) {
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        screen.print("\(String(format: "%5.1f", seconds)) s  \(text)")
    }

    /// Shows the table while it moves, until a condition holds or the time is over.
    func watch(for limit: Duration, until isDone: () async throws -> Bool = { false }) async throws {
        let end = ContinuousClock.now + limit
        repeat {
            for (name, process) in processes where process.exitStatus != nil { throw HarnessError("\(name) has ended") }
            let answers = try await site.apple.counters().counters.requests[.token] ?? [:]
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

    /// Stops both, whatever has gone before.
    func stop() async {
        _ = await stopDaemon()
        await site.apple.stop()
    }

    /// Writes down what siwatch has logged.
    func saveLog(to file: URL) throws {
        try daemon.output.map { $0 + "\n" }.joined().write(to: file, atomically: true, encoding: .utf8)
    }

    /// Which program ended unasked, and its last words; nil if none did.
    func deathNotice() async -> HarnessError? {
        // A lost connection is felt sooner than the end of the process behind it.
        try? await Task.sleep(for: .milliseconds(300))
        for (name, process) in processes where process.exitStatus != nil {
            let code = await process.exit()
            let words = process.output.suffix(15).map { "\n  \($0)" }.joined()
            return HarnessError("\(name) has ended by itself with exit code \(code). Its last words:\(words)")
        }
        return nil
    }
}
