// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// The two programs, the database between them, and the table that shows what goes on there.
final class Stage {
    let apple: SimulatedApple
    let backend: Backend
    var ledger = Ledger()

    private let daemon: ChildProcess
    private let screen: Screen
    private let start: ContinuousClock.Instant

    init(in folder: WatchedFolder, screen: Screen, start: ContinuousClock.Instant) async throws {
        self.screen = screen
        self.start = start
        apple = try await SimulatedApple(in: folder.url, clientIDs: [Script.app, Script.web])
        do {
            let refresh = """
                interval = "\(Script.interval.milliseconds)ms"
                max_requests_per_second = \(Script.requestsPerSecond)
                """
            // Of a crowd that a minute holds, more leave than of any that a day does.
            let breaker = "settle = \"1s\"\nmax_rejections = 150"
            try folder.configure(
                apple: apple,
                clientIDs: [Script.app, Script.web],
                ["refresh": refresh, "breaker": breaker]
            )
            daemon = try await folder.startDaemon()
        } catch {
            await apple.stop()
            throw error
        }
        do {
            backend = try Backend(databasePath: folder.databasePath)
        } catch {
            daemon.signal(SIGTERM)
            await daemon.exit()
            await apple.stop()
            throw error
        }
        say("The simulated Apple listens on \(apple.url), and siwatch is ready.")
    }

    /// Tells the viewer what happens now.
    func say(_ text: String) {
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        screen.print("\(String(format: "%5.1f", seconds)) s  \(text)")
    }

    // MARK: Looking on

    /// Shows the table while it moves.
    func watch(for duration: Duration) async throws {
        try await watch(for: duration) { false }
    }

    /// Shows the table while it moves, until a condition holds or the time is over.
    func watch(for limit: Duration, until isDone: () async throws -> Bool) async throws {
        let end = ContinuousClock.now + limit
        repeat {
            for (name, process) in processes where process.exitStatus != nil { throw HarnessError("\(name) has ended") }
            screen.show(Board(tally: try await Tally(backend), answers: try await apple.counters().tokenAnswers))
            if try await isDone() { return }
            try await Task.sleep(for: .milliseconds(150))
        } while ContinuousClock.now < end
    }

    /// Shows the table until siwatch has settled all that it was told.
    func watchUntilSettled() async throws {
        try await watch(for: .seconds(30)) { try await Tally(backend).total(.queue) == 0 }
    }

    // MARK: The end

    private var processes: [(String, ChildProcess)] { [("siwatch", daemon), ("apple-simulator", apple.process)] }

    /// - Returns: the exit code.
    func stopDaemon() async -> Int32 {
        daemon.signal(SIGTERM)
        return await daemon.exit()
    }

    /// - Returns: the exit code.
    func stopApple() async -> Int32 {
        apple.process.signal(SIGTERM)
        return await apple.process.exit()
    }

    /// Stops in haste, whatever has gone before.
    func stop() async {
        try? backend.close()
        _ = await stopDaemon()
        _ = await stopApple()
    }

    /// Writes down what siwatch has logged.
    func saveLog(to file: URL) throws {
        try daemon.output.map { $0 + "\n" }.joined().write(to: file, atomically: true, encoding: .utf8)
    }

    /// Which program ended unasked, and its last words; nil if none did.
    func deathNotice() async -> String? {
        // A lost connection is felt sooner than the end of the process behind it.
        try? await Task.sleep(for: .milliseconds(300))
        for (name, process) in processes where process.exitStatus != nil {
            let code = await process.exit()
            let words = process.output.suffix(15).map { "  \($0)" }
            return (["\(name) has ended by itself with exit code \(code). Its last words:"] + words).joined(separator: "\n")
        }
        return nil
    }
}
