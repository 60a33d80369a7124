// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

/// Several daemons, as processes of their own, on one schema of a server.
struct SeveralDaemonsTests {
    /// What `status` says of each: its process, and whether it asks Apple.
    private func replicas(_ folder: WatchedFolder) async throws -> [(process: pid_t, asksApple: Bool)] {
        try await folder.run("status").output.compactMap { line in
            guard let match = line.firstMatch(of: #/^replica \S+ (\d+), /#), let process = pid_t(match.1) else { return nil }
            return (process, line.contains("asks Apple for example"))
        }
    }

    private func owner(_ folder: WatchedFolder) async throws -> pid_t {
        let end = ContinuousClock.now + .seconds(30)
        while .now < end {
            if let owner = try await replicas(folder).first(where: \.asksApple) { return owner.process }
        }
        throw HarnessError("nobody asks Apple")
    }

    /// A kill, a stop that thaws too late, and an orderly end: somebody else goes on each time, and nobody is asked about twice.
    @Test(.timeLimit(.minutes(3)), arguments: [SIGKILL, SIGSTOP, SIGTERM])
    func oneTakesOverFromTheOther(signal: Int32) async throws {
        try await Site.with(on: .server) { site in
            let second = try site.folder.copy()
            defer { second.remove() }
            let daemons = [try await site.folder.startDaemon(), try await second.startDaemon()]
            defer { for daemon in daemons { daemon.signal(SIGKILL) } }
            let first = try await owner(site.folder)
            #expect(try await replicas(second).count { $0.asksApple } == 1)
            #expect(try await replicas(second).count == 2)

            try await site.settle(try await site.apple.signIn(40))
            let codes = try await site.apple.signInByCode(10)
            try await site.tell(codesOf: codes)
            try await site.backend.until("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'", is: 50)

            let struck = try #require(daemons.first { $0.identifier == first })
            struck.signal(signal)
            let more = try await site.apple.signInByCode(10)
            try await site.tell(codesOf: more)
            try await site.backend.until("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'", is: 60)
            #expect(try await owner(site.folder) != first)
            struck.signal(SIGCONT)
            let events = try await site.apple.notify("consent-revocations", users: more[0..<5].map(\.userID))
            try await site.tell(events)
            try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 5)
            #expect(try await site.audit().wrong == [])
            // A code is good once: one that was sent twice would be an error of ours.
            #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log WHERE outcome = 'rejected'") == 0)
        }
    }

    /// What one of them would reject for good the other would serve.
    @Test func oneThatKnowsOtherClientsDoesNotStartBeside() async throws {
        try await Site.with(on: .server) { site in
            let second = try site.folder.copy()
            defer { second.remove() }
            try second.edit("client_ids = [", "client_ids = [\"com.example.new\", ")
            try await site.daemon { _ in
                let (status, output) = try await second.run("run")
                #expect(status == 69 && output.last?.contains("with other apps, clients or canaries; stop all") == true, "\(output)")
            }
            try await second.withDaemon { _ in }
        }
    }
}
