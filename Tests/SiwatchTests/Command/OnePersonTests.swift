// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

/// `siwatch explain`, `siwatch export` and `siwatch forget`, beside a daemon and without one.
@Suite(.timeLimit(.minutes(10))) struct OnePersonTests {
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
        try await explain("late", "com.example.app: rejected (code_expired, code is older than five minutes, or Apple does not know it)")
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
        try await site.folder.expect("explain \(user)", says: "because the app asked for it then, and Apple accepted the token, was asked")

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

    // MARK: Export and forget

    @Test(.site(onEach: SiteDatabase.allCases))
    func aPersonIsGivenEverythingAndNoTokenAndToldWhichCheckNoticesWhatWasMissed() async throws {
        let signIns = try await site.apple.signIn(2)
        let (user, other) = (signIns[0].userID, signIns[1].userID)
        try await site.daemon { _ in
            try await site.settle([signIns[0]])
            try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE verified_at IS NOT NULL", is: 1)
            try await site.folder.expect("explain \(user)", says: "If siwatch has missed that the user withdrew consent, the check at ")
            try await site.folder.succeed("pause", "example")
            try await site.folder.expect("explain \(user)", says: "authorized", not: "has missed")
            try await site.folder.succeed("resume", "example")
            try await site.settle([signIns[1]])
            let bodies = try await site.apple.notify(RevokeConsent(), users: [user]).map(\.body)
            // A message that Apple has signed, and whose signature was changed since.
            try await site.tell(bodies.map { $0.replacing("\"}", with: "xx\"}") }, rejectedAs: "bad_signature")
            try await site.backend.until("SELECT COUNT(*) FROM notification_quarantine", is: 1)
            try await site.folder.expect("export \(user)", 0, not: other, try #require(signIns[0].refreshToken))
            let report = try await site.folder.json("export \(user)")
            #expect(report["schema"] as? Int == 1 && report["user"] as? String == user)
            let tables = try #require(report["tables"] as? [String: [[String: Any]]])
            let filled = ["credential", "credential_change", "grant_log", "notification_quarantine", "user_event"]
            #expect(tables.filter { !$0.value.isEmpty }.keys.sorted() == filled)
            let credential = try #require(tables["credential"]?.first)
            #expect(credential["sealed_token"] as? String == "held" && credential["client_id"] as? String == SimulatedApple.clientIDs[0])
            #expect((credential["granted_at"] as? String)?.contains("T") == true)
            #expect(tables["user_event"]?.first?["email"] as? String == signIns[0].email)
        }
        #expect(try await site.folder.json("export \(other)")["user"] as? String == other)
        for arguments in ["nobody", "\(user) --app nowhere"] { try await site.folder.expect("export \(arguments)", 1) }
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aDeletedPersonIsForgottenAndOldNewsBringsNobodyBack() async throws {
        let signIns = try await site.apple.signIn(2)
        let user = signIns[0].userID
        let names = [user, try #require(signIns[0].email), try #require(signIns[0].refreshToken)]
        let daemon = try await site.daemon { daemon in
            try await site.settle(signIns)
            try await site.folder.expect("forget \(user)", 1, "signed in to example")
            let notifications = try await site.apple.notify(RevokeConsent(), users: [user])
            try await site.tell(notifications)
            try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 1)
            try await site.settle(try await site.apple.signIn([user], clientID: SimulatedApple.clientIDs[0]))
            try await site.tell(leaving: [user], at: SimulatedApple.clientIDs[0])
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE outcome = 'proved'", is: 1)
            try await site.folder.expect("forget \(user)", 0, "requests to revoke 1", not: user)
            if site.schema == nil {
                // siwatch logs the answer once it has emptied the database's log.
                #expect(await daemon.line(containing: #""outcome":"forgotten""#) != nil)
                let files = try site.folder.files(with: names)
                #expect(files.keys.contains("siwatch.sqlite") && files.values.allSatisfy(\.isEmpty), "\(files)")
            }
            // A backend tells the old sign-in again, and Apple posts the old message again.
            try await site.backend.insert([signIns[0]])
            try await site.backend.insert(notifications: notifications.map(\.body))
            try await site.backend.until(["grant_log WHERE outcome = 'stale'": 1, "notification_log WHERE outcome = 'duplicate'": 1])
        }
        #expect(!daemon.output.joined().contains(user))
        #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state") == 1)
        for command in ["export", "explain", "forget"] { try await site.folder.expect("\(command) \(user)", 1) }
        try await site.folder.expect("explain \(user) --receipts", 0, "accepts it no more")
        if site.schema == nil { #expect(try site.folder.files(with: names).values.allSatisfy(\.isEmpty)) }
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aPersonIsForgottenWithoutADaemonToo() async throws {
        let signIns = try await site.apple.signIn(1)
        let user = signIns[0].userID
        try await site.backend.insert(signIns)
        try await site.folder.expect("run --once", 0)
        let output = try await site.folder.expect("forget \(user) --even-if-authorized --json", 0, not: user).joined(separator: "\n")
        let receipt = try #require(try JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any])
        #expect((receipt["pseudonym"] as? String)?.hasPrefix("forgotten:") == true)
        #expect((receipt["erased_rows"] as? [String: Int])?["credential"] == 1)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state") == 0)
        if site.schema == nil { #expect(try site.folder.files(with: [user]).values.allSatisfy(\.isEmpty)) }
    }
}
