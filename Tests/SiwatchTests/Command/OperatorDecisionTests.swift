// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

/// What operators decide: about pauses, about rejections and the breaker, and about the revocation limit.
@Suite(.timeLimit(.minutes(10))) struct OperatorDecisionTests {
    @Test(.site(onEach: SiteDatabase.allCases)) func aPauseHoldsAcrossRestartsAndIsSeen() async throws {
        let folder = site.folder
        try await site.daemon { daemon in
            try await folder.expect("pause example", 0)
            // On a server the command does it itself.
            if site.schema == nil {
                #expect(await daemon.line(containing: "An operator's request was answered")?.contains("example") == true)
            }
            try await site.settle(try await site.apple.signIn(3))
        }
        try await folder.expect("status", says: "app example, paused since 2")
        try await site.daemon { _ in try await folder.expect("status", says: "app example, paused since 2") }
        #expect(try await folder.expect("resume example", 0) == ["example goes on."])
        #expect(try await folder.siwatch("resume", "example").output == ["example was not paused."])
        try await folder.expect("status", 2, not: "paused")
    }

    @Test(.site) func aPauseByHandEndsWithoutADaemon() async throws {
        let paused = "SELECT COUNT(*) FROM app WHERE paused_at IS NOT NULL"
        try await site.folder.complete("run", "--once")
        try await site.backend.execute("UPDATE app SET paused_at = 1700000000000")
        try await site.folder.complete("run", "--once")
        #expect(try await site.backend.int(paused) == 0)
        try await site.backend.execute("UPDATE app SET paused_at = 1700000000000")
        let output = try await site.folder.siwatch("resume", "example").output
        #expect(output == ["what siwatch has not written does not count: 1 of the kind pause, rows 1", "example was not paused."])
    }

    @Test(.daemon(onEach: SiteDatabase.allCases, ["refresh": "interval = \"1s\""]))
    func aRecheckBringsBackWhomAppleRejectedByMistake() async throws {
        let users = try await site.apple.signIn(3)
        try await site.settle(users)
        try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 3)
        try await site.apple.script(.error("invalid_grant"))
        try await site.backend.until("SELECT pending FROM app", is: 3)
        let status = try await site.folder.siwatch("status").output
        #expect(status.contains("example: 3 rejections wait to be believed"), "\(status)")
        #expect(!status.contains { $0.contains("accepted no token of com.example.web") }, "it has none")
        try await site.folder.expect("explain \(users[0].userID)", says: "which is not believed yet", "authorized")
        let output = try await site.folder.expect("breaker confirm example", 0)
        #expect(output == ["The breaker of example was closed. The rejections of 3 users are believed now."])
        try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE reason = 'token_rejected'", is: 3)
        try await site.apple.send(ClearFaults())

        // siwatch asks once per interval and credential, so at the first request some answers may be too recent.
        let back = "SELECT COUNT(*) FROM credential_change WHERE to_state = 'authorized' AND source = 'refresh'"
        let end = ContinuousClock.now + .seconds(60)
        try await eventually {
            #expect(try await site.folder.siwatch("recheck", "--app", "example").status == 0)
            return try await site.backend.int(back) >= 3 || .now > end
        }
        #expect(try await site.backend.int(back) == 3)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'") == 3)
    }

    /// More users leave than the breaker believes. An operator asks one of them, and confirms once.
    @Test(.daemon(onEach: SiteDatabase.allCases, ["refresh": "interval = \"1h\"", "breaker": "max_rejections = 22"]))
    func aMassWithdrawalThatIsRealIsConfirmedOnce() async throws {
        let users = try await site.apple.signIn(30)
        try await site.settle(users)
        try await site.backend.execute("UPDATE credential SET due_at = 1")
        try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 30)
        #expect(try await site.folder.siwatch("rejected", "example").output == ["There is no such token of example."])
        try await site.folder.expect("rejected another", 1)

        site.note(try await site.apple.notify(RevokeConsent(), users: users[0..<26].map(\.userID)))
        try await site.backend.execute("UPDATE credential SET due_at = 1, answered_at = answered_at - 7200000")
        try await eventually { try await site.folder.siwatch("status").output.joined().contains("breaker example: open since") }
        try await site.backend.execute("UPDATE credential SET answered_at = answered_at - 7200000")
        let list = try await site.folder.siwatch("rejected", "example").output
        let rejected = list.dropFirst(3).count
        #expect(list[0] == "Apple rejects \(rejected) tokens of example, which siwatch does not believe:", "\(list)")
        #expect((23...26).contains(rejected), "\(list)")
        for line in list.dropFirst(3) { #expect(users[0..<26].contains { line.hasPrefix($0.userID) }, "\(line)") }
        let (code, output) = try await site.folder.siwatch("breaker", "confirm", "example")
        // A probe may have found another one since.
        let words = (rejected...26).map { number in
            "The breaker of example is closed. Apple is asked again about \(number) users, an hour after its last answer at the "
                + "soonest, and is believed if it rejects them once more."
        }
        #expect(code == 0 && words.contains(output.joined()), "\(output)")
        // Those that a probe has asked about since wait for an hour. It passes.
        let soon = Int64(Date().timeIntervalSince1970 * 1000) + 600_000
        try await site.backend.execute("UPDATE credential SET due_at = 1 WHERE answer = 'rejected' AND due_at > \(soon)")
        let ended = "SELECT COUNT(*) FROM credential_state WHERE reason = 'token_rejected'"
        try await site.backend.first(of: ended, within: .seconds(120)) { $0 >= rejected }
        #expect(try await site.backend.int(ended) >= rejected)
        let status = try await site.folder.siwatch("status").output
        #expect(!status.contains { $0.contains("tokens within an hour") }, "\(status)")
    }

    @Test(.site(onEach: SiteDatabase.allCases), arguments: [true, false])
    func theBreakerIsShownAndThereIsNothingToConfirm(isRunning: Bool) async throws {
        func look() async throws {
            let closed = try await site.folder.siwatch("status").output
            #expect(closed.contains { $0.contains(/^  breaker +closed, 0 of the last 0 answers are rejections$/) }, "\(closed)")
            try await site.folder.expect("breaker confirm example", 64)
            try await site.folder.expect("breaker confirm another", 1)
            #expect(try await site.folder.expect("breaker reset example", 0) == ["The breaker of example was closed; it begins anew."])
            let lists = #""blamedClients": ["com.example.web"], "clearedClients": [], "rejectedCanaries": []"#
            try await leaveBreaker(#"{"openedAt": 1767225600000, \#(lists), "window": ""}"#)
            let words = "a client's rejections are believed once Apple accepts it again: Apple blames the configuration of com.example.web"
            let open = "\nbreaker example: open since 2026-01-01T00:00:00.000Z, \(words)\n"
            let status = try await site.folder.expect("status", says: open)
            #expect(status.contains { $0.contains(/^  breaker +open$/) }, "\(status)")
            // A siwatch that works alone on a file knows that it has not opened the breaker.
            if !isRunning || site.schema != nil {
                try await site.folder.expect("breaker confirm example", says: "The breaker of example is closed.")
            }
            try await site.folder.expect("breaker confirm example", 64)
        }
        if isRunning { try await site.daemon { _ in try await look() } } else { try await look() }
    }

    /// Leaves a breaker as another process has written it.
    private func leaveBreaker(_ state: String) async throws {
        try await site.backend.execute("DELETE FROM breaker")
        try await site.backend.execute("INSERT INTO breaker (app, state) SELECT id, '\(state)' FROM app")
    }

    /// A breaker that another release or a person has written.
    @Test(.site(onEach: SiteDatabase.allCases)) func aBreakerThatCannotBeReadIsOpenAndHasNoTimeOfItsOwn() async throws {
        try await leaveBreaker("rubbish")
        let words = "example: open, because its state cannot be read: no rejection is believed"
        #expect(try await site.folder.siwatch("status").output.contains("breaker \(words)"))
        try await site.folder.expect("status --json", says: "\"breakers\"", "\"is_open\" : true", not: "\"opened_at\" : 1")
        try await site.daemon { _ in
            // The daemon has found it unreadable at its start.
            try await site.folder.expect("status", says: "breaker example: open since 20")
        }
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aUserIsRecheckedOnceAnHour() async throws {
        let user = try await site.apple.signIn(1)
        try await site.daemon { _ in
            try await site.settle(user)
            // siwatch tries a client that Apple has not accepted yet at once, with its first user.
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 1)
            try await site.backend.execute("UPDATE credential SET answered_at = answered_at - 3600000, verified_at = NULL")
            try await site.folder.expect("recheck \(user[0].userID)", 0)
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 1)
            try await site.folder.expect("recheck \(user[0].userID)", 1, "too recently")
        }
        for name in [user[0].userID, "nobody"] { try await site.folder.expect("recheck \(name)", 1) }
    }

    /// An import of old tokens, of another client's tokens, and of truncated ones. siwatch revokes no user, and names all of them.
    @Test(.site(onEach: SiteDatabase.allCases, ["refresh": "interval = \"2s\"", "breaker": "max_rejections = 400"]))
    func tokensThatAppleNeverAcceptedAreListed() async throws {
        var users = try await site.apple.signIn(7)
        users[4].refreshToken = users[0].refreshToken.map { String($0.dropLast(9)) }
        users[5].refreshToken = "r-old-and-dead"
        users[6].refreshToken = users[1].refreshToken.map { $0 + "%3D" }
        try await site.daemon { _ in
            try await site.backend.insert(users)
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 4)
            // A repetition, and the settle time after it.
            try await site.backend.until("SELECT never_accepted FROM app WHERE name = 'example'", is: 3)
        }
        try await site.backend.expect(["credential_state WHERE state = 'authorized'": 7, "credential_change WHERE source = 'refresh'": 0])
        let output = try await site.folder.expect("rejected example", 0)
        #expect(output[0] == "Apple rejects 3 tokens of example that it has never accepted:", "\(output)")
        for user in users[4...] { #expect(output.contains { $0.hasPrefix(user.userID) }) }
        try await site.folder.expect("rejected example --json", says: users[5].userID, "token_granted_at", not: "r-old")
        try await site.folder.expect("status", says: "example: Apple rejects 3 tokens that it has never accepted")
        try await site.folder.expect("explain \(users[5].userID)", says: "Apple rejects the token and has never accepted it")
        try await site.folder.expect("rejected exmaple", 1)
    }

    // MARK: The revocation limit

    /// A backend that was taken over costs the users up to the bound, and no more.
    @Test(.site(onEach: SiteDatabase.allCases, ["revocations": "max_per_hour = 1"]))
    func anOperatorDecidesAboutAMassOfRequests() async throws {
        let signIns = try await site.apple.signIn(3)
        let held = "SELECT COUNT(*) FROM revocation_outcome WHERE outcome = 'held'"
        func insert(_ users: ArraySlice<SignIn>) async throws {
            try await site.backend.insert(revocationsOf: users.map(\.userID), at: "com.example.app")
        }
        try await site.folder.expect("revocations confirm example 1", 64)
        try await site.daemon { daemon in
            try await site.settle(signIns)
            try await insert(signIns[0..<2])
            try await site.backend.until(held, is: 1)
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE outcome = 'proved'", is: 1)
            let holds = "and holds 1 request; siwatch revocations confirm example 1"
            try await site.folder.expect("status", says: "example: the revocation limit is reached since 2", holds)
            // Two hands settle the two requests, in either order.
            let user = try await site.backend.rows("SELECT user_id FROM revocation_queue WHERE held_at IS NOT NULL")[0][0] as String
            try await site.folder.expect("explain \(user) --receipts", says: "so it waits for an operator: see siwatch status")
            let done = "1 request is carried out from now on. The revocation limit of example holds none any more, unless more has come."
            try await site.folder.expect("revocations confirm example 1", 0, "\n\(done)\n")
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE outcome = 'proved'", is: 2)
            // The confirmed request does not count, so the next one is the first of an hour.
            try await insert(signIns[2...])
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE outcome = 'proved'", is: 3)
            try await insert(signIns[2...])
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE outcome = 'no_token'", is: 1)
            #expect(daemon.output.contains { $0.contains("Too many requests to revoke in an hour") })
        }
    }

    @Test(.site(onEach: SiteDatabase.allCases, ["revocations": "max_per_hour = 1"])) func droppedRequestsRevokeNobody() async throws {
        let signIns = try await site.apple.signIn(3)
        try await site.daemon { _ in
            try await site.settle(signIns)
            for user in signIns { try await site.backend.insert(revocationsOf: [user.userID], at: "com.example.app") }
            try await site.backend.until("SELECT COUNT(*) FROM revocation_outcome WHERE outcome IN ('held', 'proved')", is: 3)
        }
        try await site.folder.expect("status", says: "and holds 2 requests")
        try await site.folder.expect("revocations drop example", 0, "\n2 requests are rejected. ")
        try await site.backend.until(["revocation_outcome WHERE reason = 'dropped'": 2, "user_state WHERE state = 'authorized'": 2])
        let dropped = "an operator has dropped this one, so nothing was revoked"
        try await site.folder.expect("explain \(signIns[2].userID) --receipts", says: dropped)
    }
}
