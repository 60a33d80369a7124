// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import SQLiteStore
import Testing

/// Every command beside a running daemon and without one.
@Suite(.timeLimit(.minutes(10))) struct CommandTests {
    // MARK: Requests

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
            #expect(try await site.folder.siwatch("breaker", "confirm", "example").output == ["The breaker of example is closed."])
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

    /// A requested recheck takes long, and a command that pauses an app does not wait for it.
    @Test(.site(onEach: SiteDatabase.allCases)) func aCommandReadsItsAnswerAsSoonAsThereIsOne() async throws {
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(1)) }
        let (request, now) = (#"{"recheckApp":{"_0":"example"}}"#, Int64(Date.now.timeIntervalSince1970 * 1000))
        try await site.backend.execute("INSERT INTO operator_request (request, requested_at) VALUES ('\(request)', \(now))")
        try await site.folder.expect("pause example", 0)
        let open = "SELECT COUNT(*) FROM operator_request WHERE answer IS NOT NULL AND position IS NOT NULL"
        #expect(try await site.backend.int(open) == 1)
        // Without a daemon, a recheck runs in its own process.
        try await site.folder.expect("recheck --app example", 0)
        #expect(try await site.backend.int(open) == 0)
    }

    /// After a command has said that it did nothing, nothing may happen.
    @Test(.site) func aDaemonThatDoesNotAnswerIsUnavailable() async throws {
        try await site.daemon { daemon in
            try await daemon.freeze()
            let (status, output) = try await site.folder.siwatch("pause", "example")
            daemon.signal(SIGCONT)
            // The daemon may have been stopped while it held the lock on the database.
            #expect(status == 69, "\(output)")
            #expect(try await site.backend.int("SELECT COUNT(*) FROM operator_request") == 0)
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM app WHERE paused_at IS NOT NULL") == 0)
    }

    @Test(.site) func aCommandOutlivesTheDaemonItAsked() async throws {
        let daemon = try await site.folder.startDaemon()
        try await daemon.freeze()
        // The daemon may have been stopped while it held the lock on the database. Then the command could not leave its request.
        while (try? await site.backend.execute("DELETE FROM operator_request")) == nil {
            daemon.signal(SIGCONT)
            try await daemon.freeze()
        }
        let command = try site.folder.start("pause", "example")
        try await site.backend.until("SELECT COUNT(*) FROM operator_request", is: 1)
        daemon.signal(SIGKILL)
        #expect(await command.exit() == 0, "\(command.output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM app WHERE paused_at IS NOT NULL") == 1)
        await daemon.exit()
    }

    // MARK: Explain

    @Test(.site(onEach: SiteDatabase.allCases)) func explainTellsAllInTheOrderOfTime() async throws {
        let signIns = try await site.apple.signIn(2)
        let user = signIns[0].userID
        let token = try #require(signIns[0].refreshToken)
        let daemon = try await site.daemon { _ in
            try await site.settle(signIns)
            try await site.tell(site.apple.notify(RevokeConsent(), users: [user]))
            try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 1)
            #expect(try await site.folder.siwatch("explain", user).status == 0)
        }
        let output = try await site.folder.expect("explain \(user) --jws", 0, #"{"payload":"ey"#, not: token, signIns[1].userID)
        let order = ["sign-in", "nothing → authorized", "consent-revoked", "authorized → revoked", "In example: revoked since 2"]
        expectOrder(of: order, in: output)
        try await site.folder.expect("explain \(user)", 0, "revoked since", not: "payload")

        let name = try #require(output[0].firstMatch(of: /, ([0-9a-f]{12}) in the log/)).1
        #expect(daemon.output.contains { $0.contains("state_to") && $0.contains(name) })

        let report = try await site.folder.json("explain \(user) --json")
        #expect(report["schema"] as? Int == 1 && report["user_id"] as? String == user)
        #expect((report["notifications"] as? [[String: Any]])?.first?["jti"] != nil)
        #expect(!"\(report)".contains(token))

        for arguments in ["nobody", "\(user) --client com.example.web"] { try await site.folder.expect("explain \(arguments)", 1) }
        // Without the sealing key the command prints all but that name.
        try FileManager.default.removeItem(at: site.folder.url.appending(path: "siwatch.key"))
        try await site.folder.expect("explain \(user)", 0, "revoked since")
    }

    private func expectOrder(of texts: [String], in output: [String], at location: SourceLocation = #_sourceLocation) {
        let all = output.joined(separator: "\n")
        let places = texts.compactMap { all.range(of: $0)?.lowerBound }
        #expect(places.count == texts.count && places == places.sorted(), "\(all)", sourceLocation: location)
    }

    @Test(.site) func waitingSignInsSayWhatTheyWaitFor() async throws {
        func explain(_ user: String, _ words: String) async throws { try await site.folder.expect("explain \(user)", says: words) }
        func explanation(_ user: String) async throws -> String {
            try await site.folder.siwatch("explain", user).output.joined(separator: "\n")
        }
        let hour: Int64 = 3_600_000
        let now = Int64(Date.now.timeIntervalSince1970 * 1000)
        func grant(_ user: String, client: String = "com.example.app", code: String? = nil, at time: Int64) async throws {
            let columns = "client_id, user_id, authorization_code, granted_at"
            try await site.backend.execute("INSERT INTO grant_queue (\(columns)) VALUES (?, ?, ?, ?)", [client, user, code, time])
        }
        try await grant("nameless", client: "com.example.elsewhere", at: now - hour)
        try await explain("nameless", "which begins once siwatch has looked at it")
        try await grant("coded", code: "c", at: now)
        try await explain("coded", "com.example.app: brings a code, which waits for its turn until 2")
        try await grant("lost", client: "com.example.elsewhere", code: "c", at: now)
        try await explain("lost", "for an app of the configuration to name this client, and is then rejected")
        try await site.backend.execute("DELETE FROM grant_queue WHERE user_id = 'lost'")
        try await grant("late", code: "c", at: now - hour)
        try await explain("late", "brings a code whose five minutes were over at 2")
        try await grant("refused", code: "c", at: now)
        let refusal = "failures = 7, waits_since = granted_at, detail = 'invalid_client'"
        try await site.backend.execute("UPDATE grant_queue SET \(refusal) WHERE user_id = 'refused'")
        try await explain("refused", "Apple refused the client (invalid_client), and it is tried again until 2")
        try await site.backend.execute("DELETE FROM grant_queue WHERE user_id = 'refused'")
        let ask = "INSERT INTO revocation_queue (client_id, user_id) VALUES ('com.example.app', 'leaving')"
        try await site.backend.execute(ask)
        try await explain("leaving", "com.example.app, request 1: waits for its turn")
        let putOff = "SELECT COUNT(*) FROM grant_queue WHERE waits_since IS NOT NULL AND claimed_by IS NULL"
        try await site.daemon { _ in
            try await site.backend.until("SELECT COUNT(*) FROM grant_log WHERE reason IS NOT NULL", is: 2)
            // By then siwatch has had an answer of Apple, so it trusts the clock.
            try await site.settle(try await site.apple.signIn(1))
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 1)
            try await site.backend.execute("UPDATE grant_queue SET due_at = 1 WHERE due_at > 0")
            try await grant("nameless", client: "com.example.ahead", at: now + hour)
            try await grant("early", at: now + hour)
            try await grant("never", at: now + 400 * 24 * hour)
            try await site.backend.until(putOff, is: 4)
        }
        try await grant("next", at: now)
        try await grant("coming", code: "c", at: now)
        try await site.backend.execute(ask)

        let unnamed = /com\.example\.elsewhere: waits for an app of the configuration to name this client, until 2.*Z, and/
        let nameless = try await explanation("nameless")
        #expect(nameless.contains(unnamed), "\(nameless)")
        let ahead = /dated ahead of the clock and waits until (2.*Z)$/.anchorsMatchLineEndings()
        let takenAt = try await explanation("early").firstMatch(of: ahead)?.1 ?? ""
        let expected = ISO8601DateFormatter().string(from: Date(timeIntervalSince1970: Double(now + hour - 3_000) / 1000))
        #expect(takenAt.prefix(19) == expected.prefix(19))
        try await explain("never", "Z, and is then given up as in_future")
        try await explain("coded", "com.example.app: rejected (")
        let late = "com.example.app: rejected (code_expired, code is older than five minutes, or Apple does not know it)"
        try await explain("late", late)
        try await explain("leaving", "com.example.app: no_token, no token was held that could be revoked, settled 2")
        try await explain("next", "com.example.app: waits for its turn")
        try await site.folder.expect("explain early --json", says: "\"reason\" : \"time\"", "\"until\" : \(now + hour - 3_000)")

        let wait = "a week for an app of the configuration to name their client: com.example.ahead 1"
        try await site.folder.expect("status", says: "\n2 sign-ins wait \(wait), com.example.elsewhere 1\n")
        try await site.folder.expect("status", says: "\n2 sign-ins wait for their time, dated ahead of the clock\n")
        try await site.folder.expect("status", says: "\n1 sign-in waits for Apple to exchange their code, the oldest for ")
        try await site.folder.expect("status", says: "\n1 request to revoke waits, with 0 tokens at work, the oldest for ")

        // The configuration names the client by now, and no siwatch has started with it.
        try site.folder.configure(apple: site.apple, clientIDs: ["com.example.app", "com.example.elsewhere"])
        try await explain("nameless", "com.example.elsewhere: waits for siwatch's next start")
        let next = "\n1 sign-in waits for siwatch's next start, which takes their clients in\n"
        try await site.folder.expect("status", says: "\n1 sign-in waits \(wait)\n", next)
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

    // MARK: Receipts

    @Test(.site(onEach: SiteDatabase.allCases)) func aReceiptShowsWhatAppleAnswered() async throws {
        let signIns = try await site.apple.signIn(2)
        let (user, other) = (signIns[0].userID, signIns[1].userID)
        let token = try #require(signIns[0].refreshToken)
        try await site.folder.expect("explain --receipts \(user)", 1)
        try await site.daemon { _ in
            try await site.settle(signIns)
            for outcome in ["proved", "no_token"] {
                try await site.backend.insert(revocationsOf: [user], at: "com.example.app")
                try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE outcome = '\(outcome)'", is: 1)
            }
            try await site.folder.expect("pause example", 0)
            try await site.backend.insert(revocationsOf: [other], at: "com.example.app")
            try await site.backend.until("SELECT COUNT(*) FROM revocation_queue WHERE opened_at IS NOT NULL", is: 1)
        }
        let order = [
            "revocation    com.example.app: proved, Apple accepted the token, was asked to revoke it, and accepts it no more, settled 2",
            "request 1, the token of the sign-in of 2", "signed for with the key ABC123DEFG",
            "is it accepted?        200, accepted, dated 2", "revoke it              200, dated 2",
            "is it accepted still?  invalid_grant, dated 2", "no_token, no token was held that could be revoked, settled 2",
            "request 2",
        ]
        expectOrder(of: order, in: try await site.folder.expect("explain --receipts \(user)", 0, not: token, other))
        let why = "because the app asked for it then, and Apple accepted the token, was asked"
        try await site.folder.expect("explain \(user)", says: why)

        let report = try await site.folder.json("explain --receipts \(user) --app example --json")
        let receipts = try #require(report["revocations"] as? [[String: Any]])
        #expect(report["schema"] as? Int == 1 && receipts.map { $0["outcome"] as? String } == ["proved", "no_token"])
        #expect((receipts[0]["after"] as? [String: Any])?["answer"] as? String == "invalid_grant")
        #expect((receipts[0]["revocation"] as? [String: Any])?["date"] as? Int64 != nil && !"\(report)".contains(token))

        let turn = "Apple is to be asked whether it accepts it; that waits for its turn"
        let pause = "com.example.app, request 3: its tokens wait for siwatch resume example"
        try await site.folder.expect("explain --receipts \(other)", says: pause, turn)
        try await site.folder.expect("explain \(other)", says: " is being revoked: Apple is to be asked")
        try await site.folder.expect("status", says: "\n1 request to revoke waits, with 1 token at work, the oldest for ")

        for arguments in ["nobody", "\(user) --app exmaple"] { try await site.folder.expect("explain --receipts \(arguments)", 1) }
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

    // MARK: The quarantine

    @Test(.site(onEach: SiteDatabase.allCases)) func theQuarantineIsShownHarmlesslyAndEmptied() async throws {
        let hostile = site.folder.path("hostile")
        try Data("\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}".utf8 + [0xff, 0x00, 0x0d]).write(to: URL(filePath: hostile))
        try await site.daemon { _ in
            for count in 1...3 {
                try await site.folder.expect("enqueue \(hostile)", 0)
                try await site.backend.until("SELECT COUNT(*) FROM notification_quarantine", is: count)
            }
            for arguments in ["", " 1", " 1 --json", " --json"] {
                let scalars = try await site.folder.expect("quarantine list\(arguments)", 0).joined().unicodeScalars
                #expect(scalars.allSatisfy { $0.value >= 0x20 && !(0x7f...0x9f).contains($0.value) && $0.value != 0x202e })
            }
            let page = try await site.folder.siwatch("quarantine", "list", "--limit", "1", "--before", "3").output
            #expect(page.contains { $0.contains("malformed") } && page.last == "Older ones: --before 2")
            let last = try await site.folder.siwatch("quarantine", "list", "--limit", "1", "--before", "2").output
            #expect(last.last?.contains("malformed") == true, "the last page names no other")

            #expect(try await site.folder.siwatch("quarantine", "retry", "1").output == ["1 notification waits again."])
            try await site.backend.until("SELECT COUNT(*) FROM notification_quarantine WHERE id = 4", is: 1)
            try await site.folder.expect("quarantine retry 1 --received-at 2026-01-01T00:00:00Z", 1, "there is no row 1")
            #expect(try await site.folder.siwatch("quarantine", "drop", "--reason", "expired").output == ["0 notifications are gone."])
            try await site.folder.expect("quarantine drop 2", 0)
        }
        try await site.folder.expect("quarantine retry 3 --received-at 2026-01-01T00:00:00Z", 0)
        #expect(try await site.backend.int("SELECT received_at FROM notification_queue") == 1_767_225_600_000)
        #expect(try await site.folder.siwatch("quarantine", "drop", "--all").output == ["1 notification is gone."])
        #expect(try await site.folder.siwatch("quarantine", "list").output == ["The quarantine is empty."])
        try await site.folder.expect("quarantine list 4", 1)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func whatIsEnqueuedIsTakenLikeABackends() async throws {
        let signIns = try await site.apple.signIn(1)
        let body = try await site.apple.notify(RevokeConsent(), users: [signIns[0].userID])[0].body
        let file = site.folder.path("body.json")
        try Data((body + "\n").utf8).write(to: URL(filePath: file))
        #expect(try await site.folder.siwatch("enqueue", file).output == ["Row 1 of notification_queue."])
        try await site.daemon { _ in
            try await site.settle(signIns)
            try await site.folder.expect("enqueue \(file)", 0)
            try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 2)
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM notification_quarantine") == 0)

        try Data(count: 65_537).write(to: URL(filePath: file))
        for body in ["/dev/null", file] { try await site.folder.expect("enqueue \(body)", 64) }
        for absent in [file + ".none", site.folder.url.path] { try await site.folder.expect("enqueue \(absent)", 1) }
    }

    // MARK: The file

    @Test(.site(listen: "127.0.0.1:0")) func aBackupCanBeUsedAndOldCopiesMakeRoomAndTheLastOneIsKnown() async throws {
        let copy = site.folder.path("backup.sqlite")
        let folder = site.folder.url.appending(path: "copies")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        let names = [
            "siwatch-20200101T000000Z.sqlite", "siwatch-20210101T000000Z.sqlite", "siwatch.sqlite", "notes",
            // Of runs that were cut short before drafts had names of their own.
            "siwatch-20300101T000000Z.sqlite", "siwatch-20310101T000000Z.sqlite",
        ]
        let database = try SQLiteStore.openForReading(DatabaseFile(path: site.folder.databasePath))
        for name in names[..<2] { try await database.backUp(to: folder.appending(path: name).path) }
        try database.close()
        for name in names[2..<5] { try Data().write(to: folder.appending(path: name)) }
        let whole = try Data(contentsOf: folder.appending(path: names[0]))
        try whole.prefix(whole.count / 2).write(to: folder.appending(path: names[5]))
        try whole.prefix(4096).write(to: folder.appending(path: "siwatch-20190101T000000Z.sqlite.partial"))
        try await site.daemon { daemon in
            let pages = try await OperationsPages(of: daemon)
            let metric = "siwatch_backup_last_success_timestamp_seconds"
            #expect(try await pages.get("metrics").contains("\n\(metric) 0\n"))
            #expect(try await site.folder.siwatch("status").output.contains { $0.contains(/^  last backup +never$/) })
            let removed = "\n\(folder.path)/\(names[0]): removed.\n"
            let output = try await site.folder.expect("backup --keep 2 \(folder.path)", 0, "bytes, verified.\n", removed)
            let broken = names[4...].map { "\(folder.path)/\($0): no whole copy, so it does not count." }
            #expect(output.filter { $0.hasSuffix("removed.") }.count == 1 && Set(broken).isSubset(of: output), "\(output)")
            #expect(try await pages.get("metrics").contains(try Regex("(?m)^\(metric) 1[0-9]{9}")))
            #expect(try await site.folder.siwatch("status").output.contains { $0.hasPrefix("  last backup") && $0.hasSuffix(" ago") })
            try await site.settle(try await site.apple.signIn(5))
            try await site.folder.expect("backup \(copy)", 0, "keep it apart")
            try await site.folder.expect("backup \(copy)", 1, "exists already")
            for place in ["/nowhere/backup.sqlite", "/dev/full"] { try await site.folder.expect("backup \(place)", 1) }
        }
        #expect(try site.folder.mode(of: "backup.sqlite") == 0o600)
        let backend = try Backend(databasePath: copy)
        #expect(try await backend.int("SELECT COUNT(*) FROM credential_state") == 5)
        #expect(try await backend.rows("PRAGMA integrity_check").map { $0[0] as String } == ["ok"])
        try backend.close()
        let left = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        #expect(left.count == 6 && Set(names.dropFirst()).isSubset(of: left), "\(left)")
        try await site.folder.expect("backup --keep 0 \(folder.path)", 64)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aCopyByAnotherProgramIsNoted() async throws {
        func lines() async throws -> [String] { try await site.folder.siwatch("status").output.filter { $0.hasPrefix("  last backup ") } }
        #expect(try await lines().map { $0.hasSuffix(" never") } == (site.schema == nil ? [true] : []))
        try await site.folder.succeed("backup", "--note")
        #expect(try await lines().first?.hasSuffix(" ago") == true)
        for command in ["backup --note file", "backup"] { try await site.folder.expect(command, 64) }
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func anAppIsRenamedWhileNothingRunsAndTheConfigurationHasToAgree() async throws {
        try await site.daemon { _ in
            try await site.settle(try await site.apple.signIn(1))
            try await site.folder.expect("rename app example renamed", 69)
        }
        try await site.folder.expect("rename app example renamed", 0, "name = \"renamed\"")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state WHERE app = 'renamed'") == 1)
        try await site.folder.expect("run", 78)
        try site.folder.edit("name = \"example\"", "name = \"renamed\"")
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(1)) }
        try await site.folder.expect("rename app example other", 1)
        #expect(try await site.folder.siwatch("rename", "app", "renamed", "").status == 64)
    }

    // MARK: Watching

    @Test(.site(onEach: SiteDatabase.allCases)) func statusGoesOnUntilItIsInterrupted() async throws {
        try await site.daemon { _ in
            try await site.settle(try await site.apple.signIn(5))
            let watch = try site.folder.start("status", "--watch")
            try await eventually { watch.output.count { $0.hasPrefix("health: ") } > 1 }
            watch.signal(SIGINT)
            #expect(await watch.exit() == 128 + SIGINT)
            #expect(!watch.output.joined().contains("\u{1b}"))
            #expect(watch.output.contains { $0.contains(/^  authorized +5$/) })
        }
        let report = try await site.folder.json("status --json")
        #expect(report["schema"] as? Int == 1 && report["is_running"] as? Bool == false)
    }

    // MARK: Bad input

    @Test(arguments: [
        ["explain"], ["recheck"], ["recheck", "user", "--app", "example"], ["pause"], ["quarantine", "retry"], ["quarantine", "drop"],
        ["quarantine", "drop", "1", "--all"], ["quarantine", "list", "--limit", "0"], ["quarantine", "list", "--reason", "boredom"],
        ["quarantine", "retry", "1", "--received-at", "yesterday"], ["quarantine", "retry", "1", "--received-at", "1767225600"],
        ["quarantine", "list", "one"], ["breaker", "confirm"], ["breaker", "reset"],
        ["enqueue"], ["backup"], ["rename", "app", "one"], ["status", "--watch", "--json"], ["status", "--line", "--json"],
        ["secret", "new", "password"], ["rename", "client", "one", "two"], ["run", "--no-such-option"], ["dance"],
    ])
    func wrongUsageIs64(arguments: [String]) async throws {
        let command = try await CommandCall.siwatch(arguments)
        #expect(command.status == 64, "\(command.output)")
    }

    @Test(.site) func nothingIsMadeWhereThereIsNoDatabase() async throws {
        let other = try site.folder.configuration(of: "none.sqlite")
        for arguments in [
            ["explain", "user"], ["recheck", "user"], ["pause", "example"], ["quarantine", "list"], ["quarantine", "drop", "--all"],
            ["enqueue", other], ["backup", other + ".copy"], ["rename", "app", "example", "new"], ["status"],
        ] {
            let said = try await CommandCall.siwatch(arguments + ["--config", other])
            examine(said, "\(arguments)", 78, ["siwatch migrate creates it"], at: #_sourceLocation)
        }
        let files = try FileManager.default.contentsOfDirectory(atPath: site.folder.url.path)
        #expect(!files.contains { $0.hasPrefix("none.sqlite") } && !files.contains("other.toml.copy"))
    }

    @Test(.site) func anOutputThatCannotBeWrittenIsAFailure() async throws {
        let program = try ChildProcess.program("siwatch").path
        let shell = try ChildProcess.shell("\(program) status --config \(site.folder.configurationPath) > /dev/full")
        #expect(await shell.exit() == 1)
        #expect(shell.output.joined().contains("No space left on device"))
    }

    // MARK: Help

    @Test(arguments: ["bash", "zsh", "fish"]) func shellsCanCompleteEveryCommand(shell: String) async throws {
        let command = try await CommandCall.siwatch(["--generate-completion-script", shell])
        #expect(command.status == 0)
        let text = command.output.joined(separator: "\n")
        for word in ["quarantine", "retry", "received-at", "bad_signature", "recheck", "rename", "forget", "export"] {
            #expect(text.contains(word), "\(word)")
        }
        #expect(!text.contains("parse-toml"), "hidden")
    }
}
