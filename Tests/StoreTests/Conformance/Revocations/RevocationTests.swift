// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct RevocationTests: RevocationSuite {
    @Test func theQueueRowLeavesWithTheLastToken() async throws {
        try await open(clients: "app", "web")
        func depth() async throws -> Int? { try await store.ports.queues().first { $0.queue == "revocation" }?.depth }
        #expect(try await store.rows("SELECT opened_at, attempts, claimed_by FROM revocation_queue") == [[.at(Self.now), 0, nil]])
        #expect(try await claimRequests(at: Self.now + .days(1)).isEmpty, "opened once")
        #expect(try await prove("app") == .revocation(.proved))
        #expect(try await states() == [Self.revoked(at: "app"), Self.revoked(at: "web")], "Apple has ended all grants of the user")
        #expect(try await store.sealedTokens == 0)
        #expect(try await store.count("revocation") == 1, "the other token has a proof of its own")
        #expect(try await depth() == 1)
        #expect(try await prove("web") == .revocation(.proved))
        #expect(try await depth() == 0)
        #expect(try await store.count("revocation_queue") == 0)
        #expect(try await store.count("revocation") == 0)
        let user = try await store.rows("SELECT state, reason, changed_at FROM user_state")
        #expect(user == [["revoked", "revoked_by_app", .at(Self.asked)]])
    }

    /// The app has deleted the account, whether siwatch ended the token or the token was dead before. An address of a later sign-in stays.
    @Test(arguments: [true, false]) func theAddressGoesWithTheToken(_ isAlive: Bool) async throws {
        let address = EmailAddress("a@example.com")
        try await store.signIn(token: "r", email: address, isAccepted: true)
        try await open()
        if isAlive {
            #expect(try await prove("app") == .revocation(.proved))
        } else {
            for verdict in [answer(.rejected), .admitted] as [RevocationVerdict] {
                _ = try await store.settle(.revocation(try await claimTokens()[0], verdict), at: Self.now)
            }
        }
        #expect(try await store.rows("SELECT reason, email, email_is_private FROM user_state") == [["revoked_by_app", nil, nil]])
        #expect(try await store.count("user_event WHERE email IS NOT NULL") == 0)
        let changes = try await store.rows("SELECT source, email FROM credential_change WHERE kind = 'email' ORDER BY id")
        #expect(changes == [["grant", "a@example.com"], ["revocation", nil]])
        try await store.signIn(client: "web", email: address, at: Self.asked, now: Self.now)
        #expect(try await store.column("SELECT DISTINCT email FROM user_state") == [nil], "a sign-in before the request, told late")
        try await store.signIn(email: address, at: Self.asked + .milliseconds(1), now: Self.now)
        #expect(try await store.column("SELECT email FROM user_state") == ["a@example.com"])
    }

    // MARK: Tokens and receipts

    /// A truncated token replaced a good one. siwatch asks about both, each has its receipt, and the good one's is the proof.
    @Test func bothTokensOfAClientAreRevoked() async throws {
        try await store.signIn(token: "good", isAccepted: true)
        try await store.signIn(token: "go", at: .start + .minutes(1))
        try await open()
        let tokens = try await store.rows("SELECT standing FROM revocation ORDER BY token_granted_at")
        #expect(tokens == [["accepted_before"], ["never_accepted"]])
        var claimed = try await claimTokens()
        let garbage = try #require(claimed.first { $0.standing == .neverAccepted })
        _ = try await store.settle(.revocation(garbage, answer(.rejected)), at: Self.now)
        var good = try #require(claimed.first { $0.standing == .acceptedBefore })
        for (second, word) in [RevocationProof.Answer.Word.accepted, .revoked].enumerated() {
            _ = try await store.settle(.revocation(good, answer(word, second)), at: Self.now)
            claimed = try await claimTokens()
            good = try #require(claimed.first { $0.token != garbage.token })
            #expect(good.standing == .accepted, "Apple has just said so")
            if let garbage = claimed.first(where: { $0.standing == .neverAccepted }) {
                let settled = try await store.settle(.revocation(garbage, .admitted), at: Self.now)
                #expect(settled == .revocation(.noValidToken))
                #expect(try await store.column("SELECT state FROM credential_state") == ["authorized"], "it proves nothing")
            }
        }
        #expect(try await store.settle(.revocation(good, answer(.rejected, 2)), at: Self.now) == .revocation(.proved))
        #expect(try await store.rows("SELECT state, reason FROM credential_state") == [["revoked", "revoked_by_app"]])
        #expect(try await store.column("SELECT outcome FROM revocation_log ORDER BY id") == ["no_valid_token", "proved"])
        #expect(try await store.count("revocation_queue") == 0)
        #expect(try await store.count("credential WHERE sealed_token IS NOT NULL OR former_sealed IS NOT NULL") == 0)
    }

    @Test func theReceiptSaysWhoWhenAndWhat() async throws {
        try await open(clients: "app")
        #expect(try await prove("app") == .revocation(.proved))
        let seconds = (0...2).map { Self.now + .seconds($0) }
        #expect(
            try await store.rows(
                """
                SELECT request, app, client_id, user_id, requested_at, token_granted_at, key_id, before_at, before_date, before_answer,
                       revoke_at, revoke_date, revoke_answer, after_at, after_date, after_answer, settled_at, outcome, reason
                  FROM revocation_log
                """
            ) == [
                [
                    1, "example", "app", "user", .at(Self.asked), .at(.start), "KEY",
                    .at(seconds[0]), .at(seconds[0] - .milliseconds(500)), "accepted",
                    .at(seconds[1]), .at(seconds[1] - .milliseconds(500)), "revoked",
                    .at(seconds[2]), .at(seconds[2] - .milliseconds(500)), "invalid_grant",
                    .at(Self.now), "proved", nil,
                ]
            ]
        )
    }

    /// After a crash the next question follows at once from the store.
    @Test func aCrashRepeatsOnlyWhatWasUnderWay() async throws {
        try await open(clients: "app")
        _ = try await store.settle(.revocation(try await claimTokens()[0], answer(.accepted)), at: Self.now)
        let lost = try await claimTokens()[0]
        #expect(lost.proof.next == .revoke)
        #expect(try await claimTokens().isEmpty, "leased")
        let again = try await claimTokens(at: store.restart(at: Self.now))[0]
        #expect(again.proof == lost.proof && again.claim.attempts == 2)
        #expect(try await store.settle(.revocation(lost, answer(.revoked)), at: Self.now) == .superseded)
        #expect(try await store.settle(.revocation(again, answer(.revoked)), at: Self.now) == .postponed)
        let next = try await claimTokens()[0]
        #expect(next.proof.next == .isStillAccepted && next.claim.attempts == 1 && next.proof.keyID == "KEY")
    }

    /// The process stood still for longer than the lease, and claimed again. One commit settles both claims, and the newer one counts.
    @Test func aClaimThatWasLostSettlesNothingInTheSameCommit() async throws {
        try await open(clients: "app")
        let lost = try await claimTokens()[0]
        let again = try await claimTokens(at: store.restart(at: Self.now))[0]
        let (failure, good) = (RevocationVerdict.failed(at: Self.now), answer(.accepted))
        let settled = try await store.settle([.revocation(lost, failure), .revocation(again, good)], at: Self.now)
        #expect(settled.results == [.superseded, .postponed])
        #expect(try await store.rows("SELECT before_answer, failures FROM revocation") == [["accepted", 0]])
    }

    /// The accepting daemon has the client in its configuration, and the store does not know it yet.
    @Test func aRequestOfAClientThatTheStoreDoesNotKnowYetStays() async throws {
        try await store.requestRevocation(client: "new", at: Self.asked)
        #expect(try await store.settleRequests(at: Self.now) == [.postponed])
        #expect(try await store.count("revocation_queue") == 1)
        #expect(try await store.count("revocation_log") == 0)
        try store.register("example", ["app", "web", "new"])
        let later = Self.now + SettlementRules.unknownClientRetry
        #expect(try await store.settleRequests(at: later) == [.revocation(.noToken)])
    }

    /// Without a token siwatch has nothing to wait for and changes no state.
    @Test func whatComesToNoTokenIsLogged() async throws {
        try await store.requestRevocation("nobody", at: Self.asked)
        try await store.requestRevocation("nobody", client: "nobody's", at: Self.asked)
        let requests = try await claimRequests()
        #expect(requests.map(\.app) == ["example", nil])
        let verdicts: [RevocationRequestVerdict] = [.accepted(at: Self.now), .rejected(.unknownClient)]
        let settled = try await store.settle(zip(requests, verdicts).map { .revocationRequest($0, $1) }, at: Self.now)
        #expect(settled.results == [.revocation(.noToken), .revocation(.rejected, .unknownClient)])
        let log = try await store.rows("SELECT app, client_id, outcome, reason FROM revocation_log ORDER BY request")
        #expect(log == [["example", "app", "no_token", nil], [nil, "nobody's", "rejected", "unknown_client"]])
        #expect(try await store.ports.queues().first { $0.queue == "revocation" }?.depth == 0)
        #expect(try await store.count("credential") == 0)
    }

    private func ask(_ column: String, _ value: String) async throws {
        let values = ["client_id": "'app'", "user_id": "'ann'", "requested_at": "\(Self.asked.milliseconds)"]
        try await store.insert(into: "revocation_queue", values.merging([column: value]) { $1 })
    }

    @Test(.on(.file), arguments: ["client_id", "user_id"], ["CAST(x'C328' AS TEXT)", "printf('%.*c', 513, 'a')"])
    func whatIsNoTextOrTooLongIsMalformed(_ column: String, _ value: String) async throws {
        try await ask(column, value)
        let request = try await claimRequests()[0]
        #expect(request.credential == nil)
        let malformed = Settlement.revocationRequest(request, .rejected(.malformed))
        #expect(try await store.settle(malformed, at: Self.now) == .revocation(.rejected, .malformed))
        let log = try await store.rows("SELECT outcome, reason, typeof(\(column)) FROM revocation_log")
        #expect(log == [["rejected", "malformed", "text"]])
    }

    @Test(.on(.file), arguments: ["client_id", "user_id"], ["CAST(x'6100' AS TEXT)", "''"])
    func aNULIsRefusedWhereItWouldHideATail(_ column: String, _ value: String) async throws {
        await #expect(throws: (any Error).self) { try await ask(column, value) }
    }

    /// A second request takes all tokens that the first has not, and does not wait for the first. Tokens that a sign-in in between has
    /// withdrawn from the first belong to the second.
    @Test func aSecondRequestTakesWhatIsNew() async throws {
        try await open(clients: "app")
        try await store.signIn(client: "web", token: "new", at: Self.asked + .seconds(5))
        try await store.requestRevocation(at: Self.asked + .seconds(10))
        let request = try await claimRequests()[0]
        _ = try await store.settle(.revocationRequest(request, .accepted(at: Self.now)), at: Self.now)
        let tokens = try await claimTokens()
        #expect(tokens.map(\.id.clientID).sorted() == ["app", "app", "web"])
        #expect(tokens.filter { $0.request == request.id }.map(\.id.clientID).sorted() == ["app", "web"])
        // A third request finds all tokens under way.
        try await store.requestRevocation(at: Self.asked + .seconds(11))
        #expect(try await store.settleRequests(at: Self.now) == [.postponed])
        #expect(try await store.count("revocation") == 3)
    }

    @Test func aSecondRequestTakesWhatTheFirstGivesUpInTheSameCommit() async throws {
        try await open(clients: "app")
        let first = try await claimTokens()[0]
        try await store.requestRevocation(at: Self.asked + .seconds(10))
        let request = try await claimRequests()[0]
        let accepted = Settlement.revocationRequest(request, .accepted(at: Self.now))
        _ = try await store.settle([.revocation(first, .rejected(.unnamedUser)), accepted], at: Self.now)
        #expect(try await store.count("revocation WHERE request = \(request.id)") == 1)
    }

    @Test func anOpenedRequestStays() async throws {
        try await open(clients: "app")
        await #expect(throws: (any Error).self) { try await store.run("DELETE FROM revocation_queue") }
    }
}
