// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import Testing

/// What `siwatch status` warns of, and `siwatch doctor` beside it.
@Suite(.timeLimit(.minutes(10))) struct StatusWarningTests {
    @Test(.site(onEach: SiteDatabase.allCases)) func statusNamesClientsThatHaveTokensOnly() async throws {
        try await site.apple.script(.error("invalid_grant"))
        func unproven() async throws -> [String] {
            try await site.folder.siwatch("status").output.filter { $0.contains("Apple has accepted no token of") }
        }
        #expect(try await unproven().isEmpty, "there is nothing to ask about")
        try await site.backend.insert(try await site.apple.signIn(1, clientID: "com.example.web"))
        try await site.folder.expect("run --once", 0)
        let lines = try await unproven()
        #expect(lines.count == 1 && lines[0].contains("com.example.web within an interval (none yet)"), "\(lines)")
    }

    @Test(.site(listen: "127.0.0.1:0", ["refresh": "interval = \"1s\"\nmax_requests_per_second = 1"]))
    func aRoundThatDoesNotFitIsSaidEverywhere() async throws {
        let signIns = try await site.apple.signIn(3)
        let round = "a check of all 3 tokens takes 3 s at 1 a second, and each is to be checked every 1 s"
        let words = "\(round); max_requests_per_second = 4 would do"
        func warnings() async throws -> [String] {
            var lines: [String] = []
            for command in ["doctor --before-start", "status"] {
                lines += try await site.folder.siwatch(line: command).output.filter { $0.hasSuffix("example: \(words)") }
            }
            return lines
        }
        #expect(try await warnings().isEmpty)
        // siwatch does not ask about sign-ins without a token.
        var others = try await site.apple.signIn(3)
        for index in others.indices { others[index].refreshToken = nil }
        try await site.daemon { [others] _ in try await site.settle(signIns + others) }
        #expect(try await warnings().count == 2)
        let daemon = try await site.daemon { daemon in
            let line = try #require(await daemon.line(containing: #""event":"checks_do_not_fit""#))
            #expect(line.contains(#""app":"example""#) && line.contains("max_requests_per_second = 4 would do"), "\(line)")
            #expect(try await OperationsPages(of: daemon).get("metrics").contains("siwatch_refresh_round_ratio{app=\"example\"} 3\n"))
        }
        #expect(daemon.output.filter { $0.contains("checks_do_not_fit") }.count == 1)
    }

    @Test(.site) func aCanaryWithoutATokenIsWarnedOf() async throws {
        let user = try await site.apple.signIn(1)[0]
        try site.folder.edit("client_ids", "canaries = [\"\(user.userID)\", \"nobody\"]\nclient_ids")
        let words = "has no token that Apple could be asked about"
        func warnings(_ command: String) async throws -> [String] {
            let (status, output) = try await site.folder.siwatch(line: command)
            // No siwatch runs.
            #expect(status == (command == "status" ? 2 : 0), "\(output)")
            return output.filter { $0.contains(words) }
        }
        for command in ["doctor --before-start", "status"] { #expect(try await warnings(command).count == 2) }
        try await site.daemon { _ in
            try await site.backend.insert([user])
            // siwatch asks about a canary long before its daily check.
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 1)
        }
        for command in ["doctor --before-start", "status"] {
            let left = try await warnings(command)
            #expect(left.count == 1 && left[0].contains("nobody"), "\(left)")
        }
        let daemon = try await site.daemon { _ in }
        #expect(daemon.output.filter { $0.contains("canary_unknown") }.count == 1)
        #expect(!daemon.output.joined().contains(user.userID), "no sub in the log")
    }

    /// The app has moved to another team, or the configured team is wrong. The output names the asking team.
    @Test(.site(onEach: SiteDatabase.allCases)) func tokensOfAnotherTeamAreNamed() async throws {
        let words = "has accepted 2 tokens from team \(SimulatedApple.teamID), and the configuration names NEWTEAM001"
        func said(by command: String) async throws -> Bool {
            let (status, output) = try await site.folder.siwatch(line: command)
            // Mostly no siwatch runs.
            #expect(status == 0 || command == "status" && [1, 2].contains(status), "\(output)")
            return output.joined(separator: " ").contains(words)
        }
        try await site.daemon { daemon in
            try await site.settle(try await site.apple.signIn(2))
            try await site.backend.execute("UPDATE credential SET due_at = 1 WHERE verified_at IS NULL")
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 2)
            #expect(!daemon.output.contains { $0.contains("team_changed") })
            try site.folder.edit(SimulatedApple.teamID, "NEWTEAM001")
            daemon.signal(SIGHUP)
            #expect(await daemon.line(containing: #""event":"team_changed""#) != nil)
        }
        for command in ["doctor --before-start", "status"] { #expect(try await said(by: command), "\(command)") }
        let daemon = try await site.daemon { _ in }
        let line = daemon.output.first { $0.contains("team_changed") }
        #expect(line?.contains("from \(SimulatedApple.teamID), and not from NEWTEAM001") == true, "\(daemon.output)")
        try site.folder.edit("NEWTEAM001", SimulatedApple.teamID)
        for command in ["doctor --before-start", "status"] { #expect(try await !said(by: command), "\(command)") }
    }

    /// `status` names the client even after all its codes have left the queue, and each waiting row names it, until Apple accepts it again.
    @Test(.site(onEach: SiteDatabase.allCases)) func aClientThatAppleRefusesIsNamed() async throws {
        func code(_ user: String, livesFor seconds: Int64) async throws {
            let time = Moment.now(aheadBy: .seconds(seconds - 300))
            try await site.backend.insert(codes: [CodeRow(clientID: "com.example.app", code: "c-\(user)", userID: user, grantedAt: time)])
        }
        func refusals() async throws -> [String] {
            try await site.folder.siwatch("status").output.filter { $0.contains("Apple refuses the client") }
        }
        let signIns = try await site.apple.signIn(2)
        let (user, leaving) = (signIns[0].userID, signIns[1].userID)
        let refused = "SELECT COUNT(*) FROM client WHERE refused_at IS NOT NULL"
        try await site.apple.script(.error("invalid_client"))
        try await site.daemon { _ in
            try await site.settle(signIns)
            try await site.backend.until(refused, is: 1)
            try await code("first", livesFor: 15)
            try await site.backend.until("SELECT COUNT(*) FROM grant_queue WHERE detail IS NOT NULL", is: 1)
            // Its deadline comes before the pause ends.
            try await code("second", livesFor: 5)
            try await site.backend.insert(revocationsOf: [leaving], at: "com.example.app")
            try await site.backend.until("SELECT COUNT(*) FROM revocation", is: 1)
            let ended = "SELECT COUNT(*) FROM grant_log WHERE reason = 'invalid_client' AND detail = 'invalid_client'"
            try await site.backend.until(ended, is: 2)
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
        // Free the claims that a stop has left behind.
        try await site.backend.execute("UPDATE credential SET due_at = 1, attempts = 0, claimed_by = NULL WHERE due_at IS NOT NULL")
        try await site.backend.execute("UPDATE revocation SET attempts = 0, claimed_by = NULL")
        let words = "Apple refuses the client since 2"
        let found = try await refusals()
        #expect(found.count == 1 && found[0].hasPrefix("example: Apple refuses the client com.example.app since 2"), "\(found)")
        #expect(found.first?.contains("(invalid_client); waiting: 2 due checks, 1 revocation") == true, "\(found)")
        try await code("third", livesFor: 300)
        #expect(try await refusals().first?.contains("waiting: 1 code, 2 due checks, 1 revocation") == true)
        let third = try await site.folder.siwatch("explain", "third").output.joined(separator: "\n")
        #expect(third.contains(/brings a code, which waits until 2.*: Apple refuses the client since 2.* \(invalid_client\)/), "\(third)")
        try await site.folder.expect("explain second", says: "never looked at the code in its five minutes: invalid_client")
        try await site.folder.expect("explain \(user)", says: "the check of 1970-01-01T00:00:00.001Z waits; \(words)")
        for option in ["", " --receipts"] { try await site.folder.expect("explain \(leaving)\(option)", says: "that waits: \(words)") }
        for command in ["status", "explain third"] {
            try await site.folder.expect("\(command) --json", says: "\"word\" : \"invalid_client\"")
        }
        try await site.apple.send(ClearFaults())
        try await site.daemon { _ in try await site.backend.until(refused, is: 0) }
        #expect(try await refusals() == [])
    }

    @Test(.site) func theStatusSaysOfARowFromTheFutureThatItIsDatedAhead() async throws {
        try await site.backend.insert(revocationsOf: ["u"], at: "com.example.app", requestedAt: Moment.now(aheadBy: .seconds(3600)))
        let page = try await site.folder.siwatch("status").output
        #expect(page.contains { $0.contains(/^  revocation +1 waiting, the oldest dated ahead$/) }, "\(page)")
    }

    /// A backend mixed up two users' tokens. siwatch verifies neither and names both. The right token mends it.
    @Test(.site(onEach: SiteDatabase.allCases)) func tokensOfOtherUsersAreNamed() async throws {
        var users = try await site.apple.signIn(3)
        let own = users.map(\.refreshToken)
        (users[0].refreshToken, users[1].refreshToken) = (own[1], own[0])
        try await site.daemon { _ in
            try await site.settle(users)
            // At once, like the first check of every client.
            try await site.backend.execute("UPDATE credential SET due_at = 1 WHERE answered_at IS NULL AND claimed_by IS NULL")
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 1)
            try await site.backend.until("SELECT foreign_tokens FROM app", is: 2)
            let words = "example: Apple accepts 2 tokens as those of other users; siwatch rejected example lists them"
            try await site.folder.expect("status", says: "\n\(words)\n")
            try await site.folder.expect("explain \(users[0].userID)", says: "Apple accepts the token as another user's")
            let all = "\nApple accepts 2 tokens of example as those of other users:\n"
            let listed = try await site.folder.expect("rejected example", says: all)
            for user in users { #expect(listed.contains { $0.hasPrefix(user.userID) } == (user.userID != users[2].userID)) }
            // The right token, with a sign-in a moment later.
            users[0].refreshToken = own[0]
            users[0].grantedAt = users[0].grantedAt + .milliseconds(1)
            try await site.settle([users[0]])
            #expect(try await site.backend.int("SELECT foreign_tokens FROM app") == 1)
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'") == 3)
    }

    /// A backend that may only tell sign-ins can undo what Apple has signed.
    @Test(.site, arguments: [(3, "note"), (11, "degraded")])
    func signInsThatNothingProvesAreToldWithTheirShare(_ users: Int, _ severity: String) async throws {
        let people = try await site.apple.signIn(users)
        let news = try await site.apple.notify(RevokeConsent(), users: people.map(\.userID))
        try await site.backend.insert(people)
        try await site.backend.insert(notifications: news.map(\.body))
        try await site.folder.complete("run", "--once")
        let ended = "SELECT client_id, user_id FROM credential_state WHERE reason = 'consent_revoked'"
        try await site.backend.execute("INSERT INTO grant_queue (client_id, user_id) \(ended)")
        try await site.folder.complete("run", "--once")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'") == users)
        // An app of whose tokens Apple has never accepted one has none that could prove a sign-in.
        try await site.backend.execute("UPDATE client SET valid_at = 1700000000000")
        let output = try await site.folder.siwatch("status", "--json").output.joined()
        let back = "\(users) (100 %) signed in again, and no token proves it"
        let sentence = "example: Apple has ended the sign-ins of \(users) users; \(back)"
        #expect(try StatusDocument(output).findings.first { $0.sentence == sentence }?.severity == severity, "\(output)")
    }
}
