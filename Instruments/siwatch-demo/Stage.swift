// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import AsyncHTTPClient
import DaemonHarness
import Foundation
import SiwatchClient

/// The two programs, the app's backend, and the table of figures.
struct Stage {
    let site: Site
    let screen: Screen
    let backend: AppBackend
    let siwatch: SiwatchClient
    private let http: HTTPClient
    private let daemon: ChildProcess
    /// As Apple sees it: without the backend's token.
    private let door: Door
    private let start: ContinuousClock.Instant

    init(_ site: Site, _ backend: AppBackend, _ daemon: ChildProcess, _ screen: Screen, since start: ContinuousClock.Instant) async throws {
        var door = try await Door(of: daemon, in: site.folder)
        var pool = HTTPClient.Configuration()
        pool.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = Script.concurrentSignIns
        http = HTTPClient(configuration: pool)
        siwatch = try SiwatchClient(url: door.url, token: door.token ?? "", http: http)
        door.token = nil
        (self.site, self.backend, self.daemon, self.door, self.screen, self.start) = (site, backend, daemon, door, screen, start)
        say("The simulated Apple listens on \(site.apple.url), and siwatch on \(door.url).")
    }

    func say(_ text: String) {
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        screen.print("\(String(format: "%5.1f", seconds)) s  \(text)")
    }

    func post(_ bodies: [String], expecting status: Int) async throws {
        try await withThrowingTaskGroup { group in
            for body in bodies {
                group.addTask { [door] in
                    let answer = try await door.post("/apple/notifications", bytes: Data(body.utf8))
                    guard answer.status == status else { throw HarnessError("siwatch answered \(answer.status): \(answer.text)") }
                }
            }
            try await group.waitForAll()
        }
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

    private var processes: [(String, ChildProcess)] {
        [("siwatch", daemon)] + [site.apple.process].compactMap(\.self).map { ("siwatch-simulator", $0) }
    }

    func stopDaemon() async -> Int32 {
        try? await http.shutdown()
        daemon.signal(SIGTERM)
        return await daemon.exit()
    }

    func stop() async {
        _ = await stopDaemon()
        await site.apple.stop()
    }

    func saveLog(to file: URL) throws { try daemon.output.map { $0 + "\n" }.joined().write(to: file, atomically: true, encoding: .utf8) }

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
