// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

/// I1, I5 and I8 when the daemon dies among codes and revocations. `make test-kills` runs it at its full length.
struct LaneKillTests {
    private static let kills = ProcessInfo.processInfo.environment["SIWATCH_TEST_KILLS"].flatMap(Int.init) ?? 6
    private static let codes = kills * 64
    private static let revocations = kills * 32
    /// Rows for each kill: enough that some are in flight.
    private static let wave = 32

    @Test(.timeLimit(.minutes(kills > 6 ? 1440 : 10))) func aKilledDaemonLosesAnswersAndNothingElse() async throws {
        let tables = [
            "refresh": "max_requests_per_second = 1000", "revocations": "max_per_hour = 100000", "log": "level = \"trace\"",
        ]
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
                daemon.signal(SIGKILL)
                #expect(await daemon.exit() == 128 + SIGKILL)
                logs += daemon.output
            }
            let last = try await site.daemon { _ in
                try await site.backend.until("SELECT COUNT(*) FROM grant_queue", is: 0)
                try await site.backend.until("SELECT COUNT(*) FROM revocation_queue", is: 0)
            }
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
            let truth = Dictionary(
                uniqueKeysWithValues: try await site.apple.send(ListUsers()).users.map { ($0.userID, $0.credentials.first?.state) }
            )
            let shown = try await site.backend.rows("SELECT user_id, state, reason FROM user_state")
            #expect(shown.count == outcomes["applied"])
            for row in shown {
                let (user, state, reason): (String, String, String) = (row[0], row[1], row[2])
                #expect(state == truth[user]??.rawValue)
                #expect(reason == (asked.contains(user) ? "revoked_by_app" : "granted"))
            }

            // No code and no token is stored in clear.
            #expect(codes.allSatisfy { Array($0.utf8).holdsSimulatedToken })
            #expect(try site.folder.filesWithTokens() == [])
            #expect(!logs.contains { Array($0.utf8).holdsSimulatedToken })
            #expect(try await site.backend.rows("PRAGMA integrity_check").map { $0[0] as String } == ["ok"])
        }
    }

    /// - Returns: the codes.
    private func signIn(_ count: Int, _ site: Site) async throws -> [String] {
        let signIns = try await site.apple.signInByCode(count)
        // The backend leaves the user to Apple.
        try await site.backend.insert(
            codes: signIns.compactMap { $0.code }.map { CodeRow(clientID: SimulatedApple.clientIDs[0], code: $0) }
        )
        return signIns.compactMap(\.code)
    }
}
