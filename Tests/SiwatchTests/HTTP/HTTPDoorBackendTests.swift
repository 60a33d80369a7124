// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import NIOHTTP1
import Testing

/// What backends tell and ask at the HTTP door of the real daemon: sign-ins, states, changes, deletions.
@Suite(.timeLimit(.minutes(10))) struct HTTPDoorBackendTests {
    private static let client = SimulatedApple.clientIDs[0]

    // MARK: Sign-ins

    @Test(.door(onEach: SiteDatabase.allCases)) func oneCallSignsInWithACodeATokenOrNeither() async throws {
        let signIn = try await site.apple.signInByCode(1, nonce: "n")[0]
        let code = try #require(signIn.code)
        let request: [String: any Sendable] = ["client_id": Self.client, "code": code, "nonce": "n", "wait": 10]
        let key = ["idempotency-key": "one"] as HTTPHeaders
        let answer = try await door.post("/v1/sign-ins", request, key)
        #expect(answer.status == 200, "\(answer.text)")
        #expect(answer["outcome"] == "applied" && answer["user.user_id"] == signIn.userID && answer["user.state"] == "authorized")
        #expect(answer["user.email"] == signIn.email)
        // The time of the sign-in is what the rule for sessions compares.
        let time = try await site.backend.int("SELECT changed_at FROM user_state WHERE user_id = '\(signIn.userID)'")
        #expect(answer["signed_in_at"] == "\(time)")

        // Told again, it is the same sign-in, although Apple takes a code once.
        let again = try await door.post("/v1/sign-ins", request, key)
        #expect(again.status == 200 && again["id"] == answer["id"], "\(again.text)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log") == 1)
        // Without the key, Apple refuses the code.
        let other = try await door.post("/v1/sign-ins", request)
        #expect(other.status == 422 && other["reason"] == "code_used" && other["type"] == "urn:siwatch:problem:sign-in-rejected")
        // The key says nothing of another code.
        let misused = try await door.post("/v1/sign-ins", ["client_id": Self.client, "code": "c.other"], key)
        #expect(misused.status == 422 && misused["type"] == "urn:siwatch:problem:key-used", "\(misused.text)")
        let shown = try await door.get("/v1/sign-ins/\(try #require(answer["id"]))")
        #expect(shown.text == answer.text)

        let people = try await site.apple.signIn(2)
        let withToken = try await door.post(
            "/v1/sign-ins",
            [
                "client_id": Self.client, "user_id": people[0].userID, "refresh_token": try #require(people[0].refreshToken),
                "email": "é@example.com", "is_private_email": false, "signed_in_at": people[0].grantedAt.milliseconds, "wait": 10,
            ]
        )
        #expect(withToken.status == 200 && withToken["user.email"] == "é@example.com" && withToken["user.is_private_email"] == "0")
        #expect(withToken["signed_in_at"] == "\(people[0].grantedAt.milliseconds)")
        let without = try await door.post("/v1/sign-ins", ["client_id": Self.client, "user_id": people[1].userID])
        #expect([200, 202].contains(without.status), "\(without.text)")
        let path = try #require(without.headers.first(name: "location"))
        #expect(try await door.get("\(path)?wait=10")["user.state"] == "authorized")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential WHERE sealed_token IS NOT NULL") == 2)
        // Apple once wrote the flag as a text, and many languages write what is not there as null.
        let body = """
            {"client_id": "\(Self.client)", "user_id": "\(people[1].userID)", "email": "b@example.com", "is_private_email": "true",
             "code": null, "nonce": null, "redirect_uri": null, "refresh_token": null, "signed_in_at": null, "wait": 10}
            """
        let written = try await door.post("/v1/sign-ins", bytes: Data(body.utf8), ["content-type": "application/json"])
        #expect(written.status == 200 && written["user.email"] == "b@example.com", "\(written.text)")
        #expect(written["user.is_private_email"] == "1", "\(written.text)")
    }

    @Test(.door(onEach: SiteDatabase.allCases)) func aRejectedSignInSaysWhichMemberIsWrong() async throws {
        let (app, web) = (SimulatedApple.clientIDs[0], SimulatedApple.clientIDs[1])
        func code(of clientID: String, redirectURI: String? = nil, nonce: String? = nil) async throws -> String {
            let signIn = try await site.apple.signInByCode(1, clientID: clientID, redirectURI: redirectURI, nonce: nonce)[0]
            return try #require(signIn.code)
        }
        let codes = [
            "c.rubbish", try await code(of: app), try await code(of: web, redirectURI: "https://example.com/back"),
            try await code(of: app), try await code(of: app, nonce: "one"),
        ]
        let cases: [(reason: String, words: String, members: [String: any Sendable])] = [
            ("code_expired", "code is older than five minutes", ["client_id": app]),
            ("client_mismatch", "client_id is not the one", ["client_id": web]),
            ("redirect_uri_mismatch", "redirect_uri is not the one", ["client_id": web, "redirect_uri": "https://example.com/other"]),
            ("user_mismatch", "user_id is not the user", ["client_id": app, "user_id": "000000.another"]),
            ("bad_id_token", "nonce is not the one", ["client_id": app, "nonce": "another"]),
        ]
        for (code, (reason, words, members)) in zip(codes, cases) {
            let answer = try await door.post("/v1/sign-ins", members.merging(["code": code, "wait": 10]) { $1 })
            #expect(answer.status == 422 && answer["reason"] == reason, "\(answer.text)")
            #expect(answer["detail"]?.hasPrefix(words) == true && !answer.text.contains(code), "\(answer.text)")
            // A backend that did not wait reads the same later.
            let shown = try await door.get("/v1/sign-ins/\(try #require(answer["id"]))")
            #expect(shown.status == 200 && shown["outcome"] == "rejected" && shown["detail"] == answer["detail"], "\(shown.text)")
        }
        // If nearly all are rejected for one reason, an operator hears of it too.
        for signIn in try await site.apple.signInByCode(8, clientID: web, redirectURI: "https://example.com/back") {
            let code = try #require(signIn.code)
            let other = "https://example.com/other"
            let answer = try await door.post("/v1/sign-ins", ["client_id": web, "code": code, "redirect_uri": other, "wait": 10])
            #expect(answer.status == 422, "\(answer.text)")
        }
        let (status, page) = try await site.folder.siwatch("status")
        let reason = "redirect_uri_mismatch: redirect_uri is not the one"
        let sentence = "\(web): 9 of the last 10 sign-ins within an hour came to nothing, as \(reason)"
        #expect(status == 1 && page.contains { $0.hasPrefix(sentence) }, "\(page)")
    }

    // MARK: States and changes

    @Test(.door(onEach: SiteDatabase.allCases)) func aFollowerHearsOfAnEndAndTheRuleEndsTheSession() async throws {
        let signIn = try await site.apple.signIn(1)[0]
        #expect(try await door.get("/v1/users/\(signIn.userID)").status == 404)
        try await site.settle([signIn])
        let start = try #require(try await door.get("/v1/changes")["next"])
        let rule = "/v1/users/\(signIn.userID)/ends-session?signed_in_at=\(signIn.grantedAt.milliseconds)"
        #expect(try await door.get(rule)["ends_session"] == "0")

        async let polled = door.get("/v1/changes?after=\(start)&wait=25")
        async let streamed = door.get("/v1/changes?wait=10", ["last-event-id": start, "accept": "text/event-stream"])
        let news = try await site.apple.notify(RevokeConsent(), users: [signIn.userID])
        #expect(try await door.post("/apple/notifications", bytes: Data(news[0].body.utf8)).status == 200)
        let page = try await polled
        #expect(page["changes.0.to_state"] == "revoked" && page["changes.0.user_id"] == signIn.userID, "\(page.text)")
        #expect(try await door.get(rule)["ends_session"] == "1")
        #expect(try await door.get("/v1/users/\(signIn.userID)?app=example")["reason"] == "consent_revoked")

        #expect(try await door.get("/v1/changes?after=\(try #require(page["next"]))")["changes.0"] == nil)
        let gone = try await door.get("/v1/changes?after=99999-mh6ev6r4")
        #expect(gone.status == 410 && gone["next"] == page["next"], "\(gone.text)")
        let events = try await streamed.text
        #expect(events.contains("event: change\nid: \(try #require(page["changes.0.id"]))\ndata: {"), "\(events)")
    }

    /// `limit` is of a page: what is beyond it comes in the next one. A stream begins at once, and ends by itself after 25 seconds.
    @Test(.door(onEach: SiteDatabase.allCases)) func aStreamOfSmallPagesPassesNoChangeOver() async throws {
        try await site.settle(try await site.apple.signIn(7))
        let newest = try #require(try await door.get("/v1/changes")["next"])
        let first = try #require(try await door.get("/v1/changes?after=0-0&limit=1")["next"])
        let stream = try await door.get("/v1/changes?after=\(first)&limit=3&wait=3", ["accept": "text/event-stream"]).text
        let ids = stream.split(separator: "\n").compactMap { $0.hasPrefix("id: ") ? String($0.dropFirst(4)) : nil }
        let count = try await site.backend.int("SELECT COUNT(*) FROM credential_change")
        #expect(ids.compactMap { $0.split(separator: "-").first } == (2...count).map { "\($0)" } && ids.last == newest, "\(stream)")
        let rest = try await door.get("/v1/changes?after=\(newest)&wait=3", ["accept": "text/event-stream"])
        #expect(rest.text == "retry: 1000\n\n")
    }

    @Test(.door(onEach: SiteDatabase.allCases)) func aDeletionHasItsReceipt() async throws {
        let code = try #require(try await site.apple.signInByCode(1)[0].code)
        let signedIn = try await door.post("/v1/sign-ins", ["client_id": Self.client, "code": code, "wait": 10])
        let user = try #require(signedIn["user.user_id"])
        let key = ["idempotency-key": "gone"] as HTTPHeaders
        let answers = [
            try await door.post("/v1/deletions", ["client_id": Self.client, "user_id": user], key),
            try await door.post("/v1/deletions", ["client_id": Self.client, "user_id": user], key),
        ]
        #expect(answers.allSatisfy { $0.status == 202 } && answers[0]["id"] == answers[1]["id"])
        let path = try #require(answers[0].headers.first(name: "location"))
        try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE outcome = 'proved'", is: 1)
        let receipt = try await door.get(path)
        #expect(receipt["outcome"] == "done" && receipt["tokens.0.outcome"] == "proved", "\(receipt.text)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM revocation_log") == 1)

        // Told late, it ends no sign-in that came after it.
        let again = try #require(try await site.apple.signInByCode(1)[0].code)
        let back = try await door.post("/v1/sign-ins", ["client_id": Self.client, "code": again, "wait": 10])
        let late: [String: any Sendable] = [
            "client_id": Self.client, "user_id": try #require(back["user.user_id"]), "requested_at": 1_700_000_000_000,
        ]
        let told = try await door.post("/v1/deletions", late)
        #expect(told.status == 202 && told["requested_at"] == "1700000000000", "\(told.text)")
        try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE outcome = 'superseded'", is: 1)
    }

    // MARK: What is gone

    /// A backend may ask on about rows that a restore has lost, while others get their numbers.
    @Test(.door(runs: false)) func noAnswerIsAnotherRowsAfterARestore() async throws {
        func signIn(_ door: Door, _ key: String) async throws -> Door.Answer {
            let code = try #require(try await site.apple.signInByCode(1)[0].code)
            let body: [String: any Sendable] = ["client_id": Self.client, "code": code, "wait": 10]
            return try await door.post("/v1/sign-ins", body, ["idempotency-key": key])
        }
        try await site.daemon { daemon in _ = try await signIn(Door(of: daemon, in: site.folder), "before") }
        // The log is in the file once siwatch has stopped.
        let (file, backup) = (URL(filePath: site.folder.databasePath), site.folder.url.appending(path: "backup"))
        try FileManager.default.copyItem(at: file, to: backup)

        var (lost, position): (paths: [String], String) = ([], "")
        try await site.daemon { daemon in
            let door = try await Door(of: daemon, in: site.folder)
            let signedIn = [try await signIn(door, "lost"), try await signIn(door, "too")]
            let user = try #require(signedIn[0]["user.user_id"])
            let deletion = try await door.post("/v1/deletions", ["client_id": Self.client, "user_id": user])
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log", is: 1)
            lost = ["/v1/sign-ins/\(try #require(signedIn[1]["id"]))", "/v1/deletions/\(try #require(deletion["id"]))"]
            position = try #require(try await door.get("/v1/changes")["next"])
            for path in lost { #expect(try await door.get(path).status == 200) }
        }
        for suffix in ["-wal", "-shm", ""] { try? FileManager.default.removeItem(atPath: site.folder.databasePath + suffix) }
        try FileManager.default.copyItem(at: backup, to: file)

        let later = try await site.folder.withDaemon { daemon in
            let door = try await Door(of: daemon, in: site.folder)
            let other = try await signIn(door, "other")
            let user = try #require(other["user.user_id"])
            _ = try await door.post("/v1/deletions", ["client_id": Self.client, "user_id": user])
            for key in ["another", "third", "fourth"] { _ = try await signIn(door, key) }
            for path in lost { #expect(try await door.get(path).status == 404, "\(path)") }
            #expect(try await door.get("/v1/changes?after=\(position)").status == 410)
            return try #require(try await door.get("/v1/changes")["next"])
        }
        // Their numbers are taken.
        let number = { (text: String) in text.split(separator: "-").first.flatMap { Int($0) } ?? 0 }
        #expect(number(later) > number(position))
    }

    /// The newest change stays without its user, and tells nobody anything.
    @Test(.door(onEach: SiteDatabase.allCases)) func aForgottenUserIsInNoAnswer() async throws {
        let key = ["idempotency-key": "one"] as HTTPHeaders
        let person = try await site.apple.signIn(1)[0]
        let request: [String: any Sendable] = [
            "client_id": Self.client, "user_id": person.userID, "signed_in_at": person.grantedAt.milliseconds, "wait": 10,
        ]
        #expect(try await door.post("/v1/sign-ins", request, key).status == 200)
        try await site.folder.succeed("forget", "--even-if-authorized", person.userID)
        let newest = try #require(try await door.get("/v1/changes")["next"])
        let page = try await door.get("/v1/changes?after=0-0")
        #expect(page["changes.0"] == nil && page["next"] == newest, "\(page.text)")
        // A stream keeps the client's place beyond it all the same, without an event.
        let stream = try await door.get("/v1/changes?after=0-0&wait=3", ["accept": "text/event-stream"])
        #expect(stream.text == "retry: 1000\n\nid: \(newest)\n\n")
        // A key that told of the user tells nothing anew, and is answered at once.
        let again = try await door.post("/v1/sign-ins", request, key)
        #expect(again.status == 422 && again["type"] == "urn:siwatch:problem:key-used", "\(again.text)")
        #expect(again["detail"]?.contains("erased") == true)
    }
}
