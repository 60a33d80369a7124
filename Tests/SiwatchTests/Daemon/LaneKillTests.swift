// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

/// I1, I5 and I8 when the daemon dies among codes and revocations. `make test-kills` runs it at its full length.
struct LaneKillTests {
    private static let kills = setting("SIWATCH_TEST_KILLS", 5)
    private static let codes = kills * 64
    private static let revocations = kills * 32
    /// Rows for each kill: enough that some are in flight.
    private static let wave = 32

    @Test(.timeLimit(.minutes(kills > 5 ? 1440 : 10))) func aKilledDaemonLosesAnswersAndNothingElse() async throws {
        let tables = ["refresh": "max_requests_per_second = 1000", "revocations": "max_per_hour = 100000", "log": "level = \"trace\""]
        try await Site.with(tables) { site in
            try await site.apple.script(.delay(.milliseconds(15)))
            var codes: [String] = []
            var asked: Set<String> = []
            var logs: [String] = []
            for round in 1...Self.kills {
                let daemon = try await site.folder.startDaemon()
                for _ in 0..<(Self.codes / Self.kills / Self.wave) {
                    codes += try await signIn(Self.wave, site)
                    let leaving = try await site.backend.rows(
                        "SELECT user_id FROM user_state WHERE state = 'authorized' ORDER BY random() LIMIT \(Self.wave)"
                    ).map { $0[0] as String }.filter { !asked.contains($0) }.prefix(Self.revocations * round / Self.kills - asked.count)
                    try await site.backend.insert(revocationsOf: Array(leaving), at: SimulatedApple.clientIDs[0])
                    asked.formUnion(leaving)
                }
                let settled = "SELECT (SELECT COUNT(*) FROM grant_log) + (SELECT COUNT(*) FROM revocation_log)"
                let goal = try await site.backend.int(settled) + Int.random(in: 1...Self.wave)
                try await site.backend.first(of: settled, within: .seconds(20)) { $0 >= goal }
                await daemon.end(by: SIGKILL)
                logs += daemon.output
            }
            let last = try await site.daemon { _ in try await site.backend.until(["grant_queue": 0, "revocation_queue": 0]) }
            logs += last.output

            // Every row is in a log, and the lost answers are counted.
            let settled = try await site.backend.rows("SELECT outcome, reason, COUNT(*) FROM grant_log GROUP BY 1, 2")
            let outcomes = Dictionary(uniqueKeysWithValues: settled.map { ($0[1] as String? ?? $0[0], $0[2] as Int) })
            #expect(Set(outcomes.keys).isSubset(of: ["applied", "answer_lost"]))
            #expect(outcomes.values.reduce(0, +) == codes.count)
            #expect(try await site.apple.send(ReadCounters()).codes.redeemed == codes.count)
            #expect(try await site.backend.int("SELECT COUNT(DISTINCT user_id) FROM revocation_log") == asked.count)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM revocation") == 0)
            let receipts = try await site.backend.rows("SELECT outcome, reason FROM revocation_log").map {
                "\($0[0] as String) \($0[1] as String? ?? "")"
            }
            #expect(Set(receipts).isSubset(of: ["proved ", "already_invalid "]))

            // Every user that siwatch shows as signed in is, and only users who asked for it are signed out.
            let users = try await site.apple.send(ListUsers()).users
            let truth = Dictionary(uniqueKeysWithValues: users.map { ($0.userID, $0.credentials.first?.state) })
            let shown = try await site.backend.rows("SELECT user_id, state, reason FROM user_state")
            #expect(shown.count == outcomes["applied"])
            for row in shown {
                let (user, state, reason): (String, String, String) = (row[0], row[1], row[2])
                #expect(state == truth[user]??.rawValue)
                #expect(reason == (asked.contains(user) ? "revoked_by_app" : "granted"))
            }

            #expect(codes.allSatisfy { Array($0.utf8).holdsSimulatedToken })
            #expect(try site.folder.filesWithTokens() == [])
            #expect(!logs.contains { Array($0.utf8).holdsSimulatedToken })
            #expect(try await site.backend.rows("PRAGMA integrity_check").map { $0[0] as String } == ["ok"])
        }
    }

    /// - Returns: the codes.
    private func signIn(_ count: Int, _ site: Site) async throws -> [String] {
        let codes = try await site.apple.signInByCode(count).compactMap(\.code)
        // The backend leaves the user to Apple.
        try await site.backend.insert(codes: codes.map { CodeRow(clientID: SimulatedApple.clientIDs[0], code: $0) })
        return codes
    }
}

/// I4, I5 and I6 when the daemon dies between Apple's answers and its own commits.
struct RefreshKillTests {
    private static let users = 600
    private static let kills = 6
    private static let concurrency = 64
    private static let rate = 1000
    /// The most that a killed process leaves: requests under way, and a twelfth of a second's work, claimed ahead.
    private static let mostInFlight = concurrency + rate / 12

    @Test(.timeLimit(.minutes(10))) func aKilledDaemonAsksAgainOnlyWhatWasInFlightAndAfterItsLease() async throws {
        // Leases of more than ten minutes, so that siwatch asks about no token again within ten. A slow machine needs that time.
        let refresh = """
            interval = "10m"
            timeout = "5m"
            max_requests_per_second = \(Self.rate)
            max_concurrent_requests = \(Self.concurrency)
            """
        try await Site.with(["refresh": refresh]) { site in
            // One request gets no answer at all, so that at least one is in flight at the first kill.
            try await site.apple.script(.hang(count: 1).at(.token))
            try await site.apple.script(.delay(.milliseconds(100)))
            // First checks, spread over half a minute.
            try await site.backend.insert(try await site.apple.signIn(Self.users))

            let verified = "SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL"
            for _ in 1...Self.kills {
                let daemon = try await site.folder.startDaemon()
                let goal = try await site.backend.int(verified) + Int.random(in: 1...Self.users / Self.kills / 2)
                try await site.backend.first(of: verified, within: .seconds(20)) { $0 >= goal }
                await daemon.end(by: SIGKILL)
            }
            let lost = "SELECT COUNT(*) FROM credential WHERE verified_at IS NULL"
            try await site.daemon { _ in
                try await site.backend.until(lost + " AND claimed_by IS NULL", is: 0)
                // Requests in flight at a kill keep their lease, whatever the new process does with the old one's claims.
                let inFlight = try await site.backend.rows("SELECT COUNT(*) FROM credential WHERE verified_at IS NULL GROUP BY claimed_by")
                #expect(!inFlight.isEmpty && inFlight.allSatisfy { ($0[0] as Int) <= Self.mostInFlight }, "\(inFlight)")
                #expect(try await site.apple.send(ReadCounters()).shortestRefreshGap == nil)

                // Ends their leases.
                try await site.backend.execute("UPDATE credential SET due_at = 1 WHERE verified_at IS NULL")
                try await site.backend.until(lost, is: 0)
            }
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'") == Self.users)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential WHERE claimed_by IS NOT NULL") == 0)
            #expect(try await site.backend.rows("PRAGMA integrity_check").map { $0[0] as String } == ["ok"])
        }
    }
}
