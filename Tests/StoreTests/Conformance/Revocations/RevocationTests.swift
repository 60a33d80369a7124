// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct RevocationTests: ConformanceSuite {
    private static let asked = Timestamp.start + .hours(1)
    private static let now = asked + .seconds(1)

    private func claimRequests(at now: Timestamp = now) async throws -> [ClaimedRevocationRequest] {
        try await store.claimRevocationRequests(at: now)
    }

    private func claimTokens(permits: [String: Int] = StoreUnderTest.permits, at now: Timestamp = now) async throws -> [DueRevocation] {
        try await store.claimRevocations(permits: permits, at: now)
    }

    private func open(_ user: String = "user", clients: String..., at now: Timestamp = now) async throws {
        for client in clients { try await store.signIn(user, client: client, token: "r-\(client)-\(user)") }
        try await store.requestRevocation(user, at: Self.asked)
        #expect(try await store.settleRequests(at: now).allSatisfy { $0 == .postponed })
    }

    private func answer(_ word: RevocationProof.Answer.Word, _ second: Int = 0) -> RevocationVerdict {
        let askedAt = Self.now + .seconds(second)
        let answer = RevocationProof.Answer(word, askedAt: askedAt, date: askedAt - .milliseconds(500))
        return .answered(answer, by: ClientIdentity(clientID: "app", keyID: "KEY"))
    }

    /// Settles Apple's answers to questions about the tokens of a client, or about all.
    @discardableResult
    private func prove(_ client: String? = nil, questions: Int = 3, at now: Timestamp = now) async throws -> Settled? {
        var last: Settled?
        for second in 0..<questions {
            for work in try await claimTokens(at: now) {
                guard client == nil || work.id.clientID == client else {
                    _ = try await store.settle(.revocation(work, .failed(at: Self.now - .days(1))), at: Self.now)
                    continue
                }
                let word: RevocationProof.Answer.Word =
                    switch work.proof.next {
                    case .isAccepted, .isBelieved: .accepted
                    case .revoke: .revoked
                    case .isStillAccepted: .rejected
                    }
                last = try await store.settle(.revocation(work, answer(word, second)), at: now)
            }
        }
        return last
    }

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

    // MARK: What is told late

    private func askInVain() async throws {
        try await store.requestRevocation(at: Self.asked)
        #expect(try await store.settleRequests(at: Self.now) == [.revocation(.noToken)])
    }

    private func outcomes() async throws -> [SQLValue] { try await store.column("SELECT outcome FROM revocation_log ORDER BY id") }

    /// A code without a `user_id` holds no request back. Apple issues its token beside the request, or has issued it before the revocation
    /// of the other token, and its sign-in is settled at any moment of the proof.
    @Test(arguments: [0, 1, 2, 3]) func aTokenThatComesUnderARequestIsRevokedToo(_ answers: Int) async throws {
        try await open(clients: "app")
        try await prove(questions: answers)
        try await store.grant(nil, code: "c", at: Self.asked - .seconds(1))
        let claimed = try await store.claimCodes(upTo: 1, at: Self.now)
        var code = try #require(claimed.first)
        code.teamID = "TEAM"
        let user = CredentialID(clientID: "app", userID: "user")
        let token = RefreshToken.sealed(Secret("new"), for: user, grantedAt: Self.asked)
        let grant = Grant(grantedAt: Self.asked, token: token)
        let verdict = CodeVerdict.exchanged(grant, user, requestedAt: Self.now, answeredAt: Self.now)
        #expect(try await store.settle(.code(code, verdict), at: Self.now) == .grant(.applied, nil))
        let tokens = try await store.rows("SELECT standing, verified_team FROM revocation WHERE token_granted_at = ?", [.at(Self.asked)])
        #expect(tokens == [["accepted_before", "TEAM"]])
        try await prove()
        #expect(try await outcomes() == ["proved", "proved"])
        #expect(try await states() == [Self.revoked(at: "app")])
        #expect(try await store.sealedTokens == 0)
        #expect(try await store.count("revocation_queue") == 0)
    }

    /// The account was deleted before the operator imported the users. The revocation limit judges such requests
    /// too, because it has not seen them.
    @Test func anImportLineMeetsTheRequestOfBefore() async throws {
        try await askInVain()
        let told = Self.now + .hours(1)
        #expect(try await store.signIn(token: "r", now: told) == .grant(.applied, nil))
        let found = try await store.rows("SELECT client_id, user_id, requested_at, effective_at, opened_at FROM revocation_queue")
        #expect(found == [["app", "user", .at(told), .at(Self.asked), nil]])
        #expect(try await store.signIn(token: "r", now: told) == .grant(.duplicate, nil))
        #expect(try await store.count("revocation_queue") == 1)
        #expect(try await claimRequests(at: told + .minutes(59)).isEmpty, "a later line may be a newer sign-in")
        let end = told + .hours(1)
        let revocationLimit = RevocationLimitRules(maxPerHour: 0)
        #expect(try await store.settleRequests(at: end, revocationLimit: revocationLimit) == [.heldBack(reachesLimit: true)])
        #expect(try await store.ask(.confirmRevocations(app: "example", count: 1), at: end) == .revocationsReleased(count: 1, left: 0))
        #expect(try await store.settleRequests(at: end) == [.postponed])
        try await prove(at: end)
        #expect(try await outcomes() == ["no_token", "proved"])
        #expect(try await states() == [Self.revoked(at: "app")])
    }

    /// An import tells a user's sign-in of before the request, and minutes later that of after it.
    @Test(arguments: [false, true]) func aLaterLineOfAnImportIsSeenBeforeATokenOfAnEarlierOneIsRevoked(_ isProved: Bool) async throws {
        if isProved {
            try await open(clients: "app")
            try await prove()
        } else {
            try await askInVain()
        }
        let told = Self.now + .hours(1)
        try await store.signIn(token: "old", at: Self.asked - .minutes(1), now: told)
        #expect(try await store.count("revocation") == (isProved ? 1 : 0))
        #expect(try await claimTokens(at: told + .minutes(30)).isEmpty)
        try await store.signIn(token: "new", at: Self.asked + .minutes(1), now: told + .minutes(30))
        let end = told + .hours(1)
        #expect(try await store.settleRequests(at: end).allSatisfy { $0 == .revocation(.superseded) })
        #expect(try await claimTokens(at: end).map(\.newerSignIn) == (isProved ? [.known] : []))
        #expect(try await states() == [["app", "authorized", "granted", .at(Self.asked + .minutes(1))]])
    }

    /// Our clock is ahead, and Apple has not been heard. The user may sign in before the time that it shows.
    @Test func aRequestWithoutATokenWaitsUntilSiwatchKnowsTheTime() async throws {
        let ahead = Self.now + .hours(2)
        try await store.requestRevocation(at: ahead)
        #expect(try await store.settleRequests(at: ahead, as: .accepted(at: ahead, knowsTime: false)) == [.postponed])
        let later = ahead + .minutes(1)
        #expect(try await store.settleRequests(at: later, as: .accepted(at: Self.now)) == [.revocation(.noToken)])
        #expect(try await store.column("SELECT effective_at FROM revocation_log") == [.at(Self.now + SettlementRules.longestLead)])
    }

    /// Revoking an older token could end the consent that the user has given since.
    @Test(arguments: ["newer", "older", "proved"]) func aUserWhoHasSignedInAgainKeepsWhatIsTold(_ what: String) async throws {
        if what == "proved" {
            try await open(clients: "app")
            try await prove()
        } else {
            try await askInVain()
        }
        try await store.signIn(client: "web", token: "new", at: Self.asked + .milliseconds(1), now: Self.now)
        if what != "newer" { try await store.signIn(token: "old", at: Self.asked - .minutes(1), now: Self.now) }
        #expect(try await store.count("revocation_queue") == 0)
        #expect(try await store.count("revocation") == 0)
    }

    // MARK: The app's other clients

    private func states() async throws -> [[SQLValue]] {
        try await store.rows("SELECT client_id, state, reason, changed_at FROM credential_state ORDER BY client_id")
    }

    private static func revoked(at client: String) -> [SQLValue] { [.text(client), "revoked", "revoked_by_app", .at(asked)] }

    /// A backend may report a sign-in late, and a sign-in may wait for its client. The proof covers it as soon as siwatch learns of it.
    @Test func aSignInAtAnotherClientThatIsToldAfterTheProofIsRevokedAtOnce() async throws {
        try await open(clients: "app")
        #expect(try await prove("app") == .revocation(.proved))
        let told = Self.now + .minutes(20)
        try await store.signIn(client: "web", token: "late", at: Self.asked - .minutes(10), now: told)
        #expect(try await states() == [Self.revoked(at: "app"), Self.revoked(at: "web")])
        #expect(try await store.sealedTokens == 0)
        let history = try await store.ports.history(of: "user", upTo: 100)
        #expect(history.users.map(\.revokedAt) == [Self.asked])
        #expect(history.credentials.map(\.revokedAt) == [Self.asked, nil], "of app and web")
        // A sign-in after the request is a new consent.
        let again = Self.asked + .minutes(1)
        try await store.signIn(client: "web", token: "new", at: again, now: told)
        #expect(try await states() == [Self.revoked(at: "app"), ["web", "authorized", "granted", .at(again)]])
        #expect(try await store.sealedTokens == 1)
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

    // MARK: Which tokens to ask about

    @Test func aPausedAppIsAskedNothing() async throws {
        try await open(clients: "app")
        #expect(try await store.ports.dueRevocations(upTo: 10, at: Self.now) == ["example": 1])
        _ = try await store.ask(.pause(app: "example"), at: Self.now)
        #expect(try await store.ports.dueRevocations(upTo: 10, at: Self.now).isEmpty)
        #expect(try await claimTokens().isEmpty)
        _ = try await store.ask(.resume(app: "example"), at: Self.now)
        #expect(try await claimTokens().count == 1)
    }

    @Test func eachAppHasItsPermits() async throws {
        for user in ["a", "b", "c"] { try await open(user, clients: "app") }
        try await store.signIn("d", client: "elsewhere", token: "r")
        try await store.requestRevocation("d", client: "elsewhere", at: Self.asked)
        try await store.settleRequests(at: Self.now)
        #expect(try await store.ports.dueRevocations(upTo: 2, at: Self.now) == ["example": 2, "other": 1])
        #expect(try await claimTokens(permits: ["example": 2]).count == 2)
        #expect(try await claimTokens(permits: ["example": 2]).count == 1)
        #expect(try await claimTokens(permits: ["other": 0]).isEmpty)
    }

    @Test func eachClientHasItsQuota() async throws {
        for user in ["a", "b"] { try await open(user, clients: "web") }
        try await open("c", clients: "app")
        func due(_ quotas: [String: Int]) async throws -> Int {
            try await store.ports.dueRevocations(upTo: 10, at: Self.now, trusted: Self.now, quotas: quotas)["example"] ?? 0
        }
        func claim(_ quotas: [String: Int]) async throws -> [String] {
            try await store.claimRevocations(at: Self.now, quotas: quotas).map(\.id.userID)
        }
        #expect(try await due([:]) == 3)
        #expect(try await due(["web": 0]) == 1)
        #expect(try await due(["web": 1]) == 2)
        #expect(try await due(["web": 0, "app": 0]) == 0)
        #expect(try await claim(["web": 0]) == ["c"])
        #expect(try await claim(["web": 0]).isEmpty)
        #expect(try await claim(["web": 1]).count == 1)
        #expect(try await claim([:]).count == 1)
    }

    @Test func aClientThatWasTakenOutHoldsUpNobody() async throws {
        try await open("first", clients: "web")
        try await open("second", clients: "app")
        try store.register("example", ["app"])
        #expect(try await store.ports.dueRevocations(upTo: 10, at: Self.now) == ["example": 1])
        #expect(try await claimTokens(permits: ["example": 1]).map(\.id.userID) == ["second"])
        try store.register("example", ["app", "web"])
        #expect(try await claimTokens(permits: ["example": 1]).map(\.id.userID) == ["first"])
    }

    /// So that the backend learns of it at last. The request may be told late, or held for weeks.
    @Test func aClientThatStaysAwayIsGivenUpAfterAWeek() async throws {
        let opened = Self.asked + .days(30)
        try await open(clients: "web", at: opened)
        try store.register("example", ["app"])
        // Apple is not asked about them, so an operator's pause holds none.
        try await store.run("UPDATE app SET paused_at = ?", [.at(opened)])
        let week = opened + .days(7)
        func due(at time: Timestamp, trusted: Timestamp?) async throws -> [String: Int] {
            try await store.ports.dueRevocations(upTo: 10, at: time, trusted: trusted, quotas: [:])
        }
        #expect(try await due(at: week + .milliseconds(-1), trusted: week + .milliseconds(-1)).isEmpty)
        #expect(try await due(at: week, trusted: nil).isEmpty, "the clock may be ahead")
        #expect(try await claimTokens(at: week + .milliseconds(-1)).isEmpty)
        #expect(try await store.claimRevocations(at: week, isTrusted: false).isEmpty)
        #expect(try await due(at: week, trusted: week) == ["example": 1])
        let work = try await claimTokens(at: week)[0]
        #expect(try await store.settle(.revocation(work, .rejected(.unknownClient)), at: week) == .revocation(.rejected, .unknownClient))
        #expect(try await store.rows("SELECT reason FROM revocation_log") == [["unknown_client"]])
    }

    @Test func aSuspectComesAlone() async throws {
        try await open("suspect", clients: "app")
        var now = Self.now
        for _ in 1...2 {
            _ = try await claimTokens(at: now)
            now = try store.restart(at: now)
        }
        try await open("other", clients: "app", at: now)
        #expect(try await claimTokens(at: now).map(\.id.userID) == ["suspect"])
        #expect(try await claimTokens(at: now).map(\.id.userID) == ["other"])
    }

    /// Known or waiting, with a code too, at any client of the app.
    @Test(arguments: ["known", "waiting", "code", "elsewhere", "older"]) func knowsWhoHasSignedInAgain(_ how: String) async throws {
        try await open(clients: "app")
        switch how {
        case "known": try await store.signIn(client: "web", at: Self.now)
        case "waiting": try await store.grant(client: "web", token: "r", at: Self.now)
        case "code": try await store.grant("user", client: "web", code: "c", at: Self.now)
        case "elsewhere": try await store.signIn(client: "elsewhere", at: Self.now)
        default: try await store.grant("user", client: "web", code: "c", at: Self.asked)
        }
        let expected: [String: NewerSignIn] = ["known": .known, "waiting": .possible, "code": .possible]
        #expect(try await claimTokens()[0].newerSignIn == expected[how] ?? .none)
    }

    /// A process dies with the row of a newer sign-in, and six minutes pass. Only the outcome of that row ends the wait of the request.
    @Test(arguments: ["sign-in", "retold", "rejected"]) func onlyASignInThatIsSettledSupersedes(_ what: String) async throws {
        try await store.signIn(token: "r")
        try await store.requestRevocation(at: Self.asked)
        try await store.grant(token: what == "retold" ? "r" : "new", at: Self.now)
        #expect(try await store.claimGrants(at: Self.now).count == 1)
        let late = Self.now + .minutes(7)
        #expect(try await store.settleRequests(at: late) == [.postponed])
        #expect(try await store.rows("SELECT opened_at, due_at FROM revocation_queue") == [[nil, .at(late + .minutes(1))]])
        #expect(try await store.count("revocation_log") == 0)

        let outcomes = try await store.settleGrants(at: late) { what == "rejected" ? .rejected(.poison) : .acceptance(of: $0) }
        let expected: [String: Settled] = [
            "sign-in": .grant(.applied, nil), "retold": .grant(.retold, nil), "rejected": .grant(.rejected, .poison),
        ]
        #expect(outcomes.first == expected[what])
        let next = late + .minutes(1)
        let isSignIn = what == "sign-in"
        #expect(try await store.settleRequests(at: next) == [isSignIn ? .revocation(.superseded) : .postponed])
        #expect(try await store.count("revocation") == (isSignIn ? 0 : 1), "the deletion goes on")
    }

    /// The backend's clock is two hours ahead, and siwatch puts the sign-in off until its time. It must not prove a deletion of today
    /// before that, because the user would be signed in for ever with a dead token.
    @Test func aDeletionWaitsForASignInThatIsDatedAhead() async throws {
        try await store.signIn(token: "r")
        let ahead = Self.now + .hours(2)
        try await store.grant(client: "web", token: "ahead", at: ahead)
        #expect(try await store.settleGrants(at: Self.now) { _ in .inFuture(due: ahead, lookedAt: Self.now) } == [.postponed])
        try await store.requestRevocation(at: Self.now)
        #expect(try await store.settleRequests(at: Self.now) == [.postponed])
        #expect(try await store.count("revocation") == 0)
        // It does not hold an event back.
        #expect(try await store.notify(.consentRevoked, at: Self.asked, now: Self.now) == .notification(.applied))
        #expect(try await store.settleGrants(at: ahead) == [.grant(.applied, nil)])
        #expect(try await store.settleRequests(at: ahead) == [.revocation(.superseded)])
    }

    /// The backend's clock is an hour ahead, and siwatch holds the request while the user signs in again. The user named by the request is
    /// the one of before.
    @Test func aDeletionThatIsDatedAheadEndsNoLaterSignIn() async throws {
        try await store.signIn(token: "r")
        try await store.requestRevocation(at: Self.now + .hours(1))
        let revocationLimit = RevocationLimitRules(maxPerHour: 0)
        #expect(try await store.settleRequests(at: Self.now, revocationLimit: revocationLimit) == [.heldBack(reachesLimit: true)])
        try await store.signIn(token: "again", at: Self.now + .minutes(10), now: Self.now + .minutes(11))
        #expect(try await store.ask(.confirmRevocations(app: "example", count: 1), at: Self.now) == .revocationsReleased(count: 1, left: 0))
        let later = Self.now + .hours(2)
        #expect(try await store.settleRequests(at: later) == [.revocation(.superseded)])
        let receipts = try await store.column("SELECT requested_at FROM revocation_log")
        #expect(receipts == [.at(Self.now + .hours(1))], "as the backend told it")
    }

    /// The request waits for a code of before. Then the user signs in again, by a code too.
    @Test func aCodeOfAfterADeletionThatIsDatedAheadIsNoPartOfIt() async throws {
        try await store.signIn(token: "r")
        try await store.grant(code: "c", at: Self.now - .seconds(30))
        try await store.requestRevocation(at: Self.now + .hours(1))
        #expect(try await store.settleRequests(at: Self.now) == [.postponed])
        let user = CredentialID(clientID: "app", userID: "user")
        #expect(try await store.ports.firstRequestToRevoke(user, since: Self.now - .seconds(30)) == Self.now + .seconds(3))
        #expect(try await store.ports.firstRequestToRevoke(user, since: Self.now + .minutes(1)) == nil)
    }

    /// By our clock its time has come, but our clock is ten minutes ahead of Apple's.
    @Test func aDeletionWaitsForASignInThatIsAheadOfApplesClock() async throws {
        try await store.signIn(token: "r")
        try await store.grant(client: "web", token: "ahead", at: Self.asked + .milliseconds(1))
        let due = Self.now + .minutes(10)
        #expect(try await store.settleGrants(at: Self.now) { _ in .inFuture(due: due, lookedAt: nil) } == [.postponed])
        try await store.requestRevocation(at: Self.asked)
        #expect(try await store.settleRequests(at: Self.now) == [.postponed])
        #expect(try await store.count("revocation") == 0)
    }

    @Test func aProofWaitsForASignInThatIsDatedAhead() async throws {
        try await open(clients: "app")
        let ahead = Self.now + .hours(2)
        try await store.grant(client: "web", token: "ahead", at: ahead)
        #expect(try await store.settleGrants(at: Self.now) { _ in .inFuture(due: ahead, lookedAt: Self.now) } == [.postponed])
        #expect(try await claimTokens()[0].newerSignIn == .possible)
    }

    /// The first request since a sign-in, of that app, that has not begun. A begun request has its tokens.
    @Test func knowsWhatWasAskedSince() async throws {
        let ann = CredentialID(clientID: "web", userID: "ann")
        func asked(since time: Timestamp = Self.asked) async throws -> Timestamp? {
            try await store.ports.firstRequestToRevoke(ann, since: time)
        }
        #expect(try await asked() == nil)
        try await store.signIn("ann", token: "r")
        for (user, client) in [("bob", "app"), ("ann", "elsewhere"), ("ann", "nobody's")] {
            try await store.requestRevocation(user, client: client, at: Self.asked)
        }
        #expect(try await asked() == nil)
        for seconds in [2, 1] { try await store.requestRevocation("ann", at: Self.asked + .seconds(seconds)) }
        #expect(try await asked() == Self.asked + .seconds(1))
        #expect(try await asked(since: Self.asked + .seconds(2)) == Self.asked + .seconds(2))
        #expect(try await asked(since: Self.asked + .seconds(3)) == nil)
        try await store.settleRequests(at: Self.now)
        #expect(try await asked() == Self.asked + .seconds(1), "the other is begun")
    }

    /// A newer fact must not sort before the request.
    @Test(arguments: ["sign-in", "event"]) func knowsNothingThatIsOlderThanWhatIsKnown(_ what: String) async throws {
        try await store.requestRevocation("ann", at: Self.asked)
        let ann = CredentialID(clientID: "web", userID: "ann")
        #expect(try await store.ports.firstRequestToRevoke(ann, since: Self.asked) == Self.asked)
        if what == "event" {
            try await store.notify(.consentRevoked, "ann", at: Self.asked)
        } else {
            try await store.signIn("ann", at: Self.asked)
        }
        #expect(try await store.ports.firstRequestToRevoke(ann, since: Self.asked) == nil)
        // The known sign-in ends the first request, and not the later one.
        try await store.requestRevocation("ann", at: Self.asked + .seconds(5))
        #expect(try await store.ports.firstRequestToRevoke(ann, since: Self.asked) == Self.asked + .seconds(5))
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

    /// By Apple's clock, because the backend's was ahead.
    @Test func aSignInAfterAppleWasAskedIsNewer() async throws {
        try await store.signIn(token: "r")
        try await store.requestRevocation(at: Self.asked + .hours(1))
        try await store.settleRequests(at: Self.now)
        _ = try await store.settle(.revocation(try await claimTokens()[0], answer(.accepted)), at: Self.now)
        try await store.signIn(client: "web", at: Self.now + .minutes(10))
        #expect(try await claimTokens(at: Self.now + .minutes(10))[0].newerSignIn == .known)
    }

    /// The clock was days ahead when siwatch put it off.
    @Test func aClockThatWasSetBackStallsNothing() async throws {
        try await open(clients: "app")
        let ahead = Self.now + .days(3)
        let work = try await claimTokens(at: ahead)[0]
        _ = try await store.settle(.revocation(work, .failed(at: ahead)), at: ahead)
        #expect(try await store.ports.dueRevocations(upTo: 10, at: Self.now) == ["example": 1])
        #expect(try await claimTokens().count == 1)
    }

    @Test func anOpenedRequestStays() async throws {
        try await open(clients: "app")
        await #expect(throws: (any Error).self) { try await store.run("DELETE FROM revocation_queue") }
    }
}
