// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

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
                daemon.signal(SIGKILL)
                #expect(await daemon.exit() == 128 + SIGKILL)
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
