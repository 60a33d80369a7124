// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// Sign-ins beside a request to revoke: told late, waiting, and dated ahead.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct SignInUnderRevocationTests: RevocationSuite {
    // MARK: What is told late

    /// A request that comes to no token, or to a proof.
    private func askAndSettle(isProved: Bool = false) async throws {
        guard !isProved else {
            try await open(clients: "app")
            try await prove()
            return
        }
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
        try await askAndSettle()
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
        try await askAndSettle(isProved: isProved)
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
        try await askAndSettle(isProved: what == "proved")
        try await store.signIn(client: "web", token: "new", at: Self.asked + .milliseconds(1), now: Self.now)
        if what != "newer" { try await store.signIn(token: "old", at: Self.asked - .minutes(1), now: Self.now) }
        #expect(try await store.count("revocation_queue") == 0)
        #expect(try await store.count("revocation") == 0)
    }

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

    // MARK: What waits

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
}
