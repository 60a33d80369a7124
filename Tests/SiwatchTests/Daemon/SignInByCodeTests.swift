// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

/// The whole life of a sign-in with the real daemon: a code, its tokens, and the proof that they are dead.
@Suite(.timeLimit(.minutes(10))) struct SignInByCodeTests {
    private static let (app, web) = (SimulatedApple.clientIDs[0], SimulatedApple.clientIDs[1])
    private static let returnAddress = "https://example.com/siwa?x=1&y=ü"

    @Test(.daemon(onEach: SiteDatabase.allCases)) func codesOfEveryKindBecomeSignIns() async throws {
        let signIns =
            try await site.apple.signInByCode(5)
            + site.apple.signInByCode(3, clientID: Self.web, redirectURI: Self.returnAddress)
            + site.apple.signInByCode(2, nonce: "n-0S6_WzA2Mj")
        var rows = signIns.compactMap(CodeRow.init)
        // Some backends know the user, and others leave the user to Apple. Some write an empty text for nothing.
        for index in 0..<3 { rows[index].userID = nil }
        rows[3].redirectURI = ""
        rows[4].nonce = ""
        for index in rows.indices { rows[index].grantedAt = nil }
        try await site.backend.insert(codes: rows)
        try await site.backend.until("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'", is: signIns.count)
        // The answer to a code is the first check of its token.
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE verified_at IS NOT NULL") == signIns.count)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential WHERE first_check IS NOT NULL") == 0)
        for signIn in signIns {
            let row = try #require(try await site.backend.rows("SELECT * FROM user_state WHERE user_id = ?", [signIn.userID]).first)
            #expect(row["email"] == signIn.email)
            // Within the second in Apple's id_token.
            let changedAt: Int64 = row["changed_at"]
            #expect(changedAt >= signIn.grantedAt.milliseconds / 1000 * 1000)
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log WHERE outcome = 'applied' AND user_id IS NOT NULL") == 10)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func whatCannotBeExchangedIsLoggedWithItsReasonAndSignsNobodyInOrOut() async throws {
        let known = try await site.apple.signIn(1)
        try await site.daemon { _ in
            try await site.settle(known)
            func code(_ clientID: String = Self.app, redirectURI: String? = nil, nonce: String? = nil) async throws -> CodeRow {
                let signIn = try await site.apple.signInByCode(1, clientID: clientID, redirectURI: redirectURI, nonce: nonce)[0]
                return CodeRow(clientID: clientID, code: try #require(signIn.code), redirectURI: redirectURI, nonce: nonce)
            }
            func changed(_ row: CodeRow, _ change: (inout CodeRow) -> Void) -> CodeRow {
                var row = row
                change(&row)
                return row
            }
            let (late, other) = (Moment.now(aheadBy: .seconds(-301)), "https://example.com/other")
            let cases: [(reason: String, row: CodeRow)] = [
                ("code_expired", CodeRow(clientID: Self.app, code: "c.rubbish")),
                ("code_expired", changed(try await code()) { $0.grantedAt = late }),
                ("client_mismatch", changed(try await code()) { $0.clientID = Self.web }),
                ("redirect_uri_mismatch", changed(try await code(Self.web, redirectURI: Self.returnAddress)) { $0.redirectURI = other }),
                ("user_mismatch", changed(try await code()) { $0.userID = known[0].userID }),
                ("bad_id_token", changed(try await code(nonce: "one")) { $0.nonce = "another" }),
                ("unknown_client_expired", changed(CodeRow(clientID: "com.example.nobody", code: "c.nobody")) { $0.grantedAt = late }),
            ]
            try await site.backend.insert(codes: cases.map(\.row))
            try await site.backend.until("SELECT COUNT(*) FROM grant_log WHERE outcome = 'rejected'", is: cases.count)

            let twice = try await code()
            try await site.backend.insert(codes: [twice])
            try await site.backend.until("SELECT COUNT(*) FROM grant_log WHERE outcome = 'applied'", is: 2)
            try await site.backend.insert(codes: [twice])
            try await site.backend.until("SELECT COUNT(*) FROM grant_log WHERE reason = 'code_used'", is: 1)

            let found = try await site.backend.rows("SELECT reason FROM grant_log WHERE outcome = 'rejected'").map { $0[0] as String }
            #expect(found.sorted() == (cases.map(\.reason) + ["code_used"]).sorted())
        }
        try await site.backend.expect(["user_state WHERE state = 'authorized'": 2, "user_state": 2])
        // The user of the mistaken row is as signed in at Apple as before.
        #expect(try await site.apple.send(ReadUser(id: known[0].userID)).credentials.map(\.state) == [.authorized])
    }

    @Test(.site) func anAnswerThatIsTooLargeIsLostAndCounted() async throws {
        let signIn = try await site.apple.signInByCode(1)[0]
        var fault = Fault.answer(200, body: "{}", count: 1).at(.token).afterObeying()
        fault.padding = 10_000_000
        try await site.apple.script(fault)
        try await site.daemon { _ in
            try await site.backend.insert(codes: [CodeRow(clientID: Self.app, code: try #require(signIn.code))])
            try await site.backend.until("SELECT COUNT(*) FROM grant_log", is: 1)
        }
        try await site.backend.expect(["grant_log WHERE reason = 'answer_lost'": 1, "user_state": 0])
    }

    /// Apple is asked one question at a time, so that it accepts each token before the first of a user is revoked, which ends the others.
    @Test(.site(onEach: SiteDatabase.allCases, ["refresh": "max_concurrent_requests = 1"]))
    func aDeletedAccountIsProvedToBeRevokedAtEveryClient() async throws {
        let users = try await site.apple.signIn(4)
        let again = try await site.apple.signIn([users[0].userID], clientID: Self.web)
        try await site.daemon { _ in
            try await site.settle(users + again)
            try await site.backend.insert(revocationsOf: [users[0].userID, users[1].userID, "nobody"], at: Self.app)
            try await site.backend.insert(revocationsOf: [users[2].userID], at: "com.example.nobody")
            try await site.backend.until("SELECT COUNT(*) FROM revocation_queue", is: 0)
            // At the second request there is nothing left to revoke.
            try await site.backend.insert(revocationsOf: [users[1].userID], at: Self.app)
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log", is: 6)
        }
        let outcomes = try await site.backend.rows("SELECT outcome FROM revocation_log").map { $0[0] as String }.sorted()
        #expect(outcomes == ["no_token", "no_token", "proved", "proved", "proved", "rejected"])
        for user in users[0...1] {
            let states = try await site.backend.rows("SELECT state, reason FROM user_state WHERE user_id = ?", [user.userID])
            #expect(states.map { [$0[0], $0[1]] as [String] } == [["revoked", "revoked_by_app"]])
            #expect(try await site.apple.send(ReadUser(id: user.userID)).credentials.allSatisfy { $0.state == .revoked })
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential WHERE sealed_token IS NOT NULL") == 2)
        for receipt in try await site.backend.rows("SELECT * FROM revocation_log WHERE outcome = 'proved'") {
            let answers: [String] = [receipt["before_answer"], receipt["revoke_answer"], receipt["after_answer"]]
            #expect(answers == ["accepted", "revoked", "invalid_grant"])
            let times: [Int64] = [receipt["requested_at"], receipt["before_at"], receipt["revoke_at"], receipt["after_at"]]
            #expect(times == times.sorted())
            let dates: [Int64?] = [receipt["before_date"], receipt["revoke_date"], receipt["after_date"]]
            #expect(!dates.contains(nil))
            #expect((receipt["key_id"] as String).hasPrefix(SimulatedApple.keyID))
        }
    }

    /// The account was deleted before the operator imported the users.
    @Test(.site(onEach: SiteDatabase.allCases)) func aDeletionMeetsTheTokenThatIsToldAfterIt() async throws {
        let user = try await site.apple.signIn(1)[0]
        try await site.daemon { _ in
            try await site.backend.insert(revocationsOf: [user.userID], at: Self.app)
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE outcome = 'no_token'", is: 1)
            try await site.backend.insert([user])
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE outcome = 'proved'", is: 1)
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state WHERE reason = 'revoked_by_app'") == 1)
        #expect(try await site.apple.send(ReadUser(id: user.userID)).credentials.map(\.state) == [.revoked])
    }

    /// Staging shares production's Apple app, so a deletion there would end production's consent.
    @Test(.site(onEach: SiteDatabase.allCases)) func anAppThatMayNotRevokeAsksAppleForNoRevocation() async throws {
        try site.folder.edit("name = \"example\"", "name = \"example\"\nrevocations = false")
        let users = try await site.apple.signIn(1)
        let codes = try await site.apple.signInByCode(2, nonce: "one").compactMap(CodeRow.init)
        try await site.daemon { _ in
            try await site.settle(users)
            try await site.backend.insert(revocationsOf: [users[0].userID], at: Self.app)
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE reason = 'revocations_disabled'", is: 1)
            // The previous code brought a sign-in, so siwatch revokes the token of a bad code.
            try await site.backend.insert(codes: [codes[0]])
            try await site.backend.until("SELECT COUNT(*) FROM grant_log WHERE outcome = 'applied'", is: 2)
            var bad = codes[1]
            bad.nonce = "another"
            try await site.backend.insert(codes: [bad])
            try await site.backend.until("SELECT COUNT(*) FROM grant_log WHERE reason = 'bad_id_token'", is: 1)
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'") == 2)
        #expect(try await site.apple.send(ReadCounters()).requests[.revoke] == nil)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func whoSignsInAgainBeforeTheRevocationIsNotRevoked() async throws {
        let users = try await site.apple.signIn(2)
        let again = try await site.apple.signIn(users.map(\.userID), clientID: Self.web)
        let earlier = try #require(users.map(\.grantedAt).max())
        try await site.daemon { _ in
            try await site.settle(users)
            // One user is known to have signed in again. The other user's row waits beside the request.
            try await site.settle([again[0]])
            try await site.backend.insert([again[1]])
            try await site.backend.insert(revocationsOf: users.map(\.userID), at: Self.app, requestedAt: earlier)
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE outcome = 'superseded'", is: 2)
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'") == 4)
        #expect(try await site.apple.send(ReadCounters()).requests[.revoke] == nil)
    }
}

/// Backends that seal tokens with the examples of `Examples/sql`, and the real daemon that opens them.
struct SealedTokenTests {
    private static func example(_ name: String) throws -> String {
        try String(contentsOf: Checkout.root.appending(path: "Examples/sql/\(name)"), encoding: .utf8)
    }

    private static func hex(of program: String, _ arguments: [String]) async throws -> String {
        let process = try ChildProcess.found([program] + arguments)
        #expect(await process.exit() == 0, "\(program): \(process.output)")
        return try #require(process.output.last)
    }

    private func authorizes(_ seal: (_ arguments: [String]) async throws -> String) async throws {
        try await Site.with { site in
            let signIn = try await site.apple.signIn(1)[0]
            let token = try #require(signIn.refreshToken)
            let (status, output) = try await site.folder.siwatch("secret", "public-key")
            #expect(status == 0 && output.count == 1, "\(output)")
            let sealed = try await seal([output[0], token, signIn.clientID, signIn.userID, "\(signIn.grantedAt.milliseconds)"])
            let insertion = "INSERT INTO grant_queue (client_id, user_id, token_sealed, granted_at) VALUES (?, ?, x'\(sealed)', ?)"
            try await site.backend.execute(insertion, [signIn.clientID, signIn.userID, signIn.grantedAt.milliseconds])
            try await site.daemon { _ in
                // siwatch has asked about the token, so it has opened it.
                try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE verified_at IS NOT NULL", is: 1)
            }
            #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'") == 1)
        }
    }

    @Test func aTokenSealedInPythonIsOpened() async throws {
        let script = try Self.example("seal_token.py") + "import sys\nprint(seal_token(*sys.argv[1:5], int(sys.argv[5])).hex())\n"
        try await authorizes { try await Self.hex(of: "python3", ["-c", script] + $0) }
    }

    private static func hasNode() async throws -> Bool { await (try ChildProcess.found(["node", "--version"])).exit() == 0 }

    @Test(.enabled("there is no node on the PATH") { try await hasNode() }) func aTokenSealedInJavaScriptIsOpened() async throws {
        let script = try Self.example("seal-token.mjs") + "console.log(sealToken(...process.argv.slice(1)).toString('hex'));\n"
        try await authorizes {
            try await Self.hex(of: "node", ["--input-type=module", "--eval", script.replacing("export function", with: "function")] + $0)
        }
    }
}
