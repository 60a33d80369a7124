// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Testing

/// Other sessions change or lock tables while a daemon works. The daemon waits, and nothing is lost.
@Suite(.timeLimit(.minutes(10))) struct ServerTroubleTests {
    /// Half of the people sign in before the trouble. `trouble` inserts the sign-ins of the others, and siwatch has to settle all.
    private func live(through trouble: (_ others: [SignIn]) async throws -> Void) async throws {
        let signIns = try await site.apple.signIn(40)
        try await site.settle(Array(signIns[..<20]))
        try await trouble(Array(signIns[20...]))
        try await site.backend.until("SELECT COUNT(*) FROM grant_log", is: 40)
        #expect(try await site.audit().wrong == [])
    }

    /// Another session, which locks a table until its transaction ends.
    private func lock(_ table: String, while body: () async throws -> Void) async throws {
        let hog = try site.anotherBackend()
        try await hog.execute("BEGIN; LOCK TABLE \(table) IN ACCESS EXCLUSIVE MODE")
        try await body()
        try await hog.execute("COMMIT")
        try hog.close()
    }

    /// The waiting sessions of this site alone, because all tests share the server.
    private static let waiters = """
        FROM pg_stat_activity WHERE application_name = 'siwatch' AND wait_event_type = 'Lock'
         AND pid IN (SELECT pid FROM pg_locks WHERE NOT granted AND relation IN ('credential'::regclass, 'grant_queue'::regclass))
        """

    @Test(.daemon(on: .server), arguments: ["credential", "grant_queue"])
    func aTableThatSomebodyLocksIsWaitedFor(_ table: String) async throws {
        try await live { others in
            try await lock(table) {
                // A settlement waits, or a claim.
                if table == "credential" { try await site.tell(others) }
                // A waiting session gives way after ten seconds, and comes back.
                #expect(await daemon.line(containing: "lock timeout") != nil)
            }
            if table == "grant_queue" { try await site.tell(others) }
        }
    }

    @Test(.daemon(on: .server)) func aStatementThatSomebodyCancelsIsRepeatedAndATableThatIsAwayIsWaitedFor() async throws {
        try await live { others in
            try await lock("credential") {
                try await site.tell(Array(others[..<10]))
                // A session that has just given way by itself does not get the cancellation. Cancel the next one then.
                while daemon.exitStatus == nil, !daemon.output.contains(where: { $0.contains("due to user request") }) {
                    try await site.backend.first(of: "SELECT COUNT(*) \(Self.waiters)", within: .seconds(5)) { $0 > 0 }
                    try await site.backend.execute("SELECT pg_cancel_backend(pid) \(Self.waiters)")
                    try Task.checkCancellation()
                }
                #expect(await daemon.line(containing: "due to user request") != nil)
            }
            try await site.backend.execute("ALTER TABLE grant_log RENAME TO elsewhere")
            try await site.tell(Array(others[10...]))
            #expect(await daemon.line(containing: "42P01") != nil)
            try await site.backend.execute("ALTER TABLE elsewhere RENAME TO grant_log")
        }
    }

    /// siwatch starts no work on the remaining tables.
    @Test(.site(on: .server)) func aTableThatIsGoneIsNamed() async throws {
        try await site.backend.execute("DROP TABLE grant_log CASCADE")
        for command in ["doctor --before-start", "run", "migrate", "status"] {
            try await site.folder.expect(command, 78, " lacks grant_log, ")
        }
    }
}
