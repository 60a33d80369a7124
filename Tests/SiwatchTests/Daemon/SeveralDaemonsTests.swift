// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialCore
import DaemonHarness
import Foundation
import GRDB
import Testing

@testable import siwatch

/// Several daemon processes on one schema of a server.
@Suite(.timeLimit(.minutes(10))) struct SeveralDaemonsTests {
    private static let asksApple = "asks Apple for example"

    /// The lines of `status` about replicas, by process.
    private func replicas(_ folder: WatchedFolder) async throws -> [pid_t: String] {
        let lines: [(pid_t, String)] = try await folder.siwatch("status").output.compactMap { line in
            guard let match = line.firstMatch(of: #/^  replica \S+ (\d+) /#), let process = pid_t(match.1) else { return nil }
            return (process, line)
        }
        return Dictionary(uniqueKeysWithValues: lines)
    }

    /// - Parameter lane: its name in `status`.
    private func owner(_ folder: WatchedFolder, _ lane: String = asksApple) async throws -> pid_t {
        let end = ContinuousClock.now + .seconds(30)
        while .now < end {
            if let owner = try await replicas(folder).first(where: { $0.value.contains(lane) }) { return owner.key }
        }
        throw HarnessError("nobody \(lane)")
    }

    /// A kill, a stop that thaws too late, and an orderly end. Each time another replica goes on, and no token gets two questions.
    @Test(.site(on: .server), arguments: [SIGKILL, SIGSTOP, SIGTERM]) func oneTakesOverFromTheOther(signal: Int32) async throws {
        let second = try site.folder.copy()
        defer { second.remove() }
        let daemons = [try await site.folder.startDaemon(), try await second.startDaemon()]
        defer { for daemon in daemons { daemon.signal(SIGKILL) } }
        let first = try await owner(site.folder)
        #expect(try await replicas(second).count { $0.value.contains(Self.asksApple) } == 1)
        #expect(try await replicas(second).count == 2)

        try await site.settle(try await site.apple.signIn(40))
        try await site.tell(codesOf: try await site.apple.signInByCode(10))
        try await site.backend.until("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'", is: 50)

        let struck = try #require(daemons.first { $0.identifier == first })
        struck.signal(signal)
        let more = try await site.apple.signInByCode(10)
        try await site.tell(codesOf: more)
        try await site.backend.until("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'", is: 60)
        #expect(try await owner(site.folder) != first)
        struck.signal(SIGCONT)
        try await site.tell(try await site.apple.notify(RevokeConsent(), users: more[0..<5].map(\.userID)))
        try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 5)
        #expect(try await site.audit().wrong == [])
        // A code is good once. Sending it twice would be a bug of ours.
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log WHERE outcome = 'rejected'") == 0)
    }

    /// A taken port ends a start, and `status` does not name a replica that never worked.
    @Test(.daemon(on: .server, listen: "127.0.0.1:0")) func aReplicaThatCannotStartLeaves() async throws {
        let second = try site.folder.copy()
        defer { second.remove() }
        let line = try #require(await daemon.line(containing: "Metrics and health are served"))
        let address = try #require(line.firstMatch(of: /127\.0\.0\.1:[0-9]+/)).output
        try second.edit("127.0.0.1:0", String(address))
        try await second.expect("run", 69, "cannot be listened on")
        #expect(try await replicas(site.folder).keys.map(\.self) == [daemon.identifier])
    }

    @Test(arguments: [(Duration.hours(-24), "1 d 0 h behind"), (.minutes(7), "7 min 0 s ahead of")])
    func aClockThatIsOffIsSaidWithItsDirection(skew: Duration, words: String) {
        #expect(FleetMembership.trouble(skew: skew) == "this host's clock is \(words) the database's")
    }

    /// A sum over all replicas counts nothing twice, and each lane has one owner.
    @Test(.site(on: .server, listen: "127.0.0.1:0")) func oneTellsWhatStandsInTheTables() async throws {
        let second = try site.folder.copy()
        defer { second.remove() }
        let daemons = [try await site.folder.startDaemon(), try await second.startDaemon()]
        defer { for daemon in daemons { daemon.signal(SIGKILL) } }
        var pages: [pid_t: OperationsPages] = [:]
        for daemon in daemons { pages[daemon.identifier] = try await OperationsPages(of: daemon) }
        try await site.settle(try await site.apple.signIn(3))

        func values(of series: String) async throws -> [String] {
            var values: [String] = []
            for page in pages.values {
                let lines = try await page.get("metrics").split(separator: "\n")
                values += lines.filter { $0.hasPrefix(series + " ") }.map { String($0.dropFirst(series.count + 1)) }
            }
            return values.sorted()
        }
        let housekeeper = try await owner(site.folder, "keeps house")
        _ = try await pages[housekeeper]?.get("metrics", within: .seconds(30)) { $0.contains("lane_owned{lane=\"maintenance\"} 1") }
        for lane in ["example", "maintenance"] { #expect(try await values(of: "siwatch_lane_owned{lane=\"\(lane)\"}") == ["0", "1"]) }
        let authorized = "siwatch_credentials{app=\"example\",state=\"authorized\"}"
        #expect(try await values(of: authorized) == ["3"])
        #expect(try await values(of: "siwatch_queue_depth{queue=\"grant\"}") == ["0"])

        // A replica with figures that may be out of date reports none.
        try #require(daemons.first { $0.identifier == housekeeper }).signal(SIGKILL)
        pages[housekeeper] = nil
        _ = try await pages.values.first?.get("metrics", within: .seconds(30)) { $0.contains("lane_owned{lane=\"maintenance\"} 1") }
        #expect(try await values(of: authorized) == ["3"])
    }

    /// Each would reject for good the work that the other serves.
    @Test(.site(on: .server)) func oneThatKnowsOtherClientsDoesNotStartBeside() async throws {
        let second = try site.folder.copy()
        defer { second.remove() }
        try second.edit("client_ids = [", "client_ids = [\"com.example.new\", ")
        try await site.daemon { _ in
            let (status, output) = try await second.run("run")
            let sentence = "with other apps, clients, canaries or rules; stop all"
            #expect(status == 69 && output.last?.contains(sentence) == true, "\(output)")
        }
        try await second.withDaemon { _ in }

        // A replica that lost its server is about to come back, and was there first.
        let first = try await site.folder.startDaemon()
        await first.end(by: SIGKILL)
        try await site.backend.execute("UPDATE replica SET seen_at = seen_at - 4000")
        try await second.expect("run", 69)
        try await site.backend.execute("UPDATE replica SET seen_at = seen_at - 30000")
        try await second.withDaemon { _ in }
    }
}
