// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

/// Whatever bytes arrive, the daemon lives on, and no user's state changes.
struct GarbledAnswerTests {
    private static let seed = setting("GARBLING_SEED", UInt64.random(in: 0..<1_000_000))
    private static let answers = setting("GARBLED_ANSWERS", 10_000)
    private static let users = 300
    /// Makes answered checks due again. A day goes by each time.
    private static let nextDay = "UPDATE credential SET due_at = 0, answered_at = answered_at - 200000000"

    /// All of Apple's answers come from `garbling`. The sign-ins come from the simulator.
    private func with(timeout: String, _ body: (Site, GarblingApple) async throws -> Void) async throws {
        let tables = [
            // Nothing slows the daemon down, because there is no outage to spare Apple in.
            "refresh": "max_requests_per_second = 1000000000\nmax_concurrent_requests = 64\ntimeout = \"\(timeout)\"",
            // Some answers are intact, with rejections among them. siwatch holds these as always.
            "breaker": "window = 10000\nmax_rejections = 9999\nmax_rejected_percent = 99",
        ]
        try await Site.with(listen: "127.0.0.1:0", tables) { site in
            let garbling = try await GarblingApple(seed: Self.seed)
            try site.folder.edit(site.apple.url, garbling.url)
            try await body(site, garbling)
        }
    }

    @Test(.timeLimit(.minutes(10))) func tenThousandGarbledAnswersHarmNobody() async throws {
        try await with(timeout: "250ms") { site, garbling in
            let comment: Comment = "GARBLING_SEED=\(Self.seed)"
            try await site.daemon { daemon in
                try await site.settle(try await site.apple.signIn(Self.users))
                while garbling.count < Self.answers, daemon.exitStatus == nil {
                    try await site.backend.execute("\(Self.nextDay) WHERE claimed_by IS NULL")
                    try await site.backend.first(of: "SELECT COUNT(*) FROM credential WHERE due_at = 0", within: .seconds(1)) { $0 == 0 }
                }
                try #require(daemon.exitStatus == nil, "\(comment), after \(garbling.lastAnswers)")
                for page in ["healthz", "readyz"] { try await OperationsPages(of: daemon).expect(page, is: "ok\n") }
                let authorized = "SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'"
                #expect(try await site.backend.int(authorized) == Self.users, comment)
                #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_change WHERE source = 'refresh'") == 0, comment)

                // siwatch takes sound answers as if nothing had happened. It asks again about credentials in flight, or with a time-out.
                garbling.comeToItsSenses()
                let now = Int64(Date.now.timeIntervalSince1970 * 1000)
                // The answers name no user, so they verify none.
                let unheard = "SELECT COUNT(*) FROM credential WHERE ifnull(answered_at, 0) < \(now)"
                while try await site.backend.int(unheard) > 0 {
                    try #require(daemon.exitStatus == nil, comment)
                    try await site.backend.execute("\(Self.nextDay) WHERE claimed_by IS NULL AND ifnull(answered_at, 0) < \(now)")
                    try await site.backend.first(of: unheard, within: .seconds(5)) { $0 == 0 }
                }
            }
        }
    }

    /// Each process fetches Apple's keys once, and at most once a minute.
    @Test(.timeLimit(.minutes(10))) func garbledKeySetsHarmNoProcess() async throws {
        // Longer than above, because a request that times out before it is sent does not count.
        try await with(timeout: "5s") { site, garbling in
            for count in 1...25 {
                // siwatch would use a readable set for the next minute.
                try await site.backend.execute("DELETE FROM signing_key")
                let (status, output) = try await site.folder.run("run", "--once")
                #expect(status == 0, "GARBLING_SEED=\(Self.seed), after \(garbling.lastAnswers.last ?? ""): \(output)")
                // The server may count an answer after the end of the process that gave up on it.
                let end = ContinuousClock.now + .seconds(60)
                try await eventually { garbling.count >= count || .now > end }
                #expect(garbling.count == count)
            }
        }
    }
}
