// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import Testing

/// `siwatch revocations list`, for those who audit deletions.
@Suite(.timeLimit(.minutes(10))) struct RevocationListTests {
    @Test(.site(onEach: SiteDatabase.allCases)) func eachDeletionHasItsOutcomeAndAForgottenUserAPseudonym() async throws {
        try await site.folder.expect("revocations list", 0, "\nNo request to revoke is known of that time.\n")
        let signIns = try await site.apple.signIn(2)
        let (user, other) = (signIns[0].userID, signIns[1].userID)
        try await site.daemon { _ in
            try await site.settle(signIns)
            for user in [user, "=nobody,\"x\""] { try await site.backend.insert(revocationsOf: [user], at: "com.example.app") }
            try await site.backend.until(["revocation_log WHERE outcome = 'proved'": 1, "revocation_log WHERE outcome = 'no_token'": 1])
            try await site.folder.succeed("pause", "example")
            try await site.backend.insert(revocationsOf: [other], at: "com.example.app")
            try await site.backend.until("SELECT COUNT(*) FROM revocation_queue WHERE opened_at IS NOT NULL", is: 1)
        }
        let counts = "\n3 requests to revoke: no_token 1, proved 1, waiting 1\n"
        try await site.folder.expect("revocations list", 0, counts, "\(user)  proved, com.example.app\n")

        let csv = try await site.folder.expect("revocations list --csv --app example", 0)
        #expect(csv.first == "request,app,client_id,user_id,requested_at,outcome,reason,settled_at,revoke_at,after_at" && csv.count == 4)
        let (time, client) = ("2[0-9T:.-]+Z", "com.example.app")
        for row in [
            "1,example,\(client),\(user),\(time),proved,,\(time),\(time),\(time)",
            "2,example,\(client),\"'=nobody,\"\"x\"\"\",\(time),no_token,,\(time),,", "3,example,\(client),\(other),\(time),waiting,,,,",
        ] { #expect(try csv.contains { try $0.wholeMatch(of: Regex(row)) != nil }, "\(row): \(csv)") }

        let token = try #require(signIns[0].refreshToken)
        try await site.folder.expect("forget \(user)", 0)
        try await site.folder.expect("revocations list --json", 0, "\"user_id\" : \"forgotten:", not: user, token)
        let report = try await site.folder.json("revocations list --json --since 2020-01-01T00:00:00Z")
        let listed = try #require(report["revocations"] as? [[String: Any]])
        #expect(report["schema"] as? Int == 1 && listed.compactMap { $0["request"] as? Int } == [1, 2, 3])
        try await site.folder.expect("revocations list --until 2020-01-01T00:00:00Z", 0, "\nNo request to revoke is known of that time.\n")
        try await site.folder.expect("revocations list --app exmaple", 1)
        try await site.folder.expect("revocations list --json --csv", 64)
    }
}
