// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct RefreshSettlementTests: ConformanceSuite {
    private static let asked = Timestamp.start + .days(2)
    private static let next = StoreUnderTest.policy.nextCheck(afterAnswerAt: asked, of: user)
    private static let user = CredentialID(clientID: "app", userID: "user")

    private func signedIn(isAccepted: Bool = false) async throws { try await store.signIn(token: "r", isAccepted: isAccepted) }

    private func row() async throws -> [SQLValue] {
        try await store.rows("SELECT state, reason, changed_at, verified_at, next_check_at FROM credential_state")[0]
    }

    @Test func aGoodAnswerVerifies() async throws {
        try await signedIn()
        #expect(try await store.refresh(.valid, at: Self.asked) == .refreshed)
        #expect(try await row() == ["authorized", "granted", .at(.start), .at(Self.asked), .at(Self.next)])
        #expect(try await store.claimCredentials(at: Self.next).map(\.claim.attempts) == [1])
    }

    @Test func aRejectionRevokesSinceApplesLast200AndEndsTheChecks() async throws {
        try await signedIn()
        try await store.refresh(.valid, at: Self.asked)
        #expect(try await store.refresh(.rejected, at: Self.next) == .refreshed)
        #expect(try await row() == ["revoked", "token_rejected", .at(Self.asked), .at(Self.asked), nil])
        #expect(try await store.claimCredentials(at: .start + .days(400)).isEmpty)
    }

    @Test func aHeldAnswerIsNoFact() async throws {
        try await signedIn()
        #expect(try await store.refresh(nil, at: Self.asked) == .refreshed)
        #expect(try await row() == ["authorized", "granted", .at(.start), nil, .at(Self.next)])
    }

    @Test func failuresAreCountedUntilAnAnswerComes() async throws {
        try await signedIn()
        var now = Self.asked
        for failures in 1...3 {
            let due = try await store.claimCredentials(at: now)[0]
            #expect(due.claim.attempts == 1)
            #expect(try await store.settle(.refresh(due, .failure(at: now)), at: now) == .refreshed)
            now = StoreUnderTest.policy.retry(afterFailures: failures, at: now, of: Self.user)
            #expect(try await row() == ["authorized", "granted", .at(.start), nil, .at(now)])
        }
        try await store.refresh(.valid, at: now)
        #expect(try await store.column("SELECT failures FROM credential") == [0])
    }

    @Test func whoHasLostTheLeaseCannotWrite() async throws {
        try await signedIn()
        let early = try await store.claimCredentials(at: Self.asked)[0]
        let later = Self.asked + StoreUnderTest.policy.lease(attempts: 0)
        let late = try await store.claimCredentials(at: later)[0]
        #expect(try await store.settle(.rejected, about: early, at: later) == .superseded)
        #expect(try await row()[0] == "authorized")
        #expect(try await store.settle(.valid, about: late, at: later) == .refreshed)
        #expect(try await store.settle(.rejected, about: late, at: later) == .superseded)
        #expect(try await row()[0] == "authorized")
    }

    /// The user signed in again while siwatch asked about the old token. Its end says nothing about the new one.
    @Test func anAnswerAboutAnOldTokenIsDropped() async throws {
        try await signedIn()
        let due = try await store.claimCredentials(at: Self.asked)[0]
        try await store.signIn(token: "new", at: Self.asked)
        let before = try await row()
        let now = Self.asked + .seconds(1)
        #expect(try await store.settle(.rejected, about: due, at: now) == .superseded)
        #expect(try await row() == before)
    }

    /// The daily limit is per token. An answer about the previous token, given or to come, does not delay a question about the new one.
    @Test func aNewTokenWaitsForNoAnswerAboutTheOldOne() async throws {
        try await signedIn()
        let due = try await store.claimCredentials(at: Self.asked)[0]
        try await store.signIn(token: "newer", at: Self.asked)
        _ = try await store.settle(.refresh(due, .valid(at: Self.asked)), at: Self.asked + .seconds(1))
        #expect(try await store.claimCredentials(at: Self.asked + .minutes(10)).map(\.token.grantedAt) == [Self.asked])
    }

    /// A nightly job reports all tokens again, dated now. That is no sign-in, and siwatch asks Apple as before.
    @Test(arguments: [false, true]) func theSameTokenAgainMovesNothing(_ isErased: Bool) async throws {
        try await signedIn()
        if isErased { try await store.notify(.consentRevoked, at: Self.asked - .seconds(1), now: Self.asked) }
        let everything = "SELECT * FROM credential"
        let before = try await store.rows(everything)
        #expect(try await store.signIn(token: "r", email: EmailAddress("new@example.com"), at: Self.asked) == .grant(.retold, nil))
        #expect(try await store.rows(everything) == before)
        #expect(try await store.column("SELECT email FROM user_state") == [nil])
        #expect(try await store.column("SELECT outcome FROM grant_log ORDER BY id DESC LIMIT 1") == ["retold"])
        #expect(try await store.signIn(token: "newer", at: Self.asked) == .grant(.applied, nil))
        #expect(try await store.signIn(token: "r", at: Self.asked + .seconds(1)) == .grant(.retold, nil), "the one before it, too")
    }

    /// The store keeps it, sealed, until Apple has accepted its successor once.
    @Test func anAcceptedTokenOutlivesASuccessorThatAppleHasNotAccepted() async throws {
        try await signedIn(isAccepted: true)
        try await store.signIn(token: "newer", at: Self.asked)
        let former = "SELECT former_granted_at, former_sealed IS NOT NULL FROM credential"
        #expect(try await store.rows(former) == [[.at(.start), 1]])
        try await store.refresh(.valid, at: Self.asked + .minutes(10))
        #expect(try await store.rows(former) == [[.at(.start), 0]])
    }

    /// Apple rejects its successor and never accepted it, so a mistake brought the successor.
    @Test func anAcceptedTokenIsTakenAgain() async throws {
        try await signedIn(isAccepted: true)
        try await store.signIn(token: "cut", at: Self.asked)
        #expect(try await store.refresh(.rejected, at: Self.asked + .minutes(10)) == .refreshed)
        let tokens = "SELECT token_granted_at, verified_at, rejected_at, former_granted_at, former_sealed, never_accepted FROM credential"
        #expect(try await store.rows(tokens) == [[.at(.start), .at(.start), nil, .at(Self.asked), nil, 0]])
        let due = try await store.claimCredentials(at: Self.asked + .minutes(20))
        #expect(due.map(\.token.grantedAt) == [.start] && due.map(\.wasAccepted) == [true])
        try await store.settle(.valid, about: due[0], at: Self.asked + .minutes(20))
        #expect(try await row().dropLast() == ["authorized", "granted", .at(Self.asked), .at(Self.asked + .minutes(20))])
    }

    // MARK: A token that Apple never accepted

    private func neverAccepted() async throws -> [SQLValue] {
        try await store.rows("SELECT never_accepted, (SELECT never_accepted FROM app WHERE name = 'example') FROM credential")[0]
    }

    /// An imported old token, one of another client, or a truncated one. Apple may reject it for ever, and that says nothing about the
    /// user.
    @Test func itsRejectionEndsNobodyAndTheChecks() async throws {
        try await signedIn()
        #expect(try await store.refresh(.rejected, at: Self.asked) == .refreshed)
        #expect(try await row() == ["authorized", "granted", .at(.start), nil, nil])
        #expect(try await neverAccepted() == [1, 1])
        #expect(try await store.count("credential_change WHERE source = 'refresh'") == 0)
        #expect(try await store.claimCredentials(at: .start + .days(400)).isEmpty)
    }

    @Test func itsListComesInPages() async throws {
        func reject(_ users: [String], at now: Timestamp) async throws {
            for user in users {
                try await store.signIn(user, token: user, at: now - .days(2))
                try await store.signIn(user, client: "web", token: "w\(user)", at: now - .days(2))
            }
            for due in try await store.claimCredentials(upTo: 10, at: now) {
                _ = try await store.settle(.refresh(due, .rejected(at: now)), at: now)
            }
        }
        try await reject(["a", "d"], at: Self.asked)
        try await store.admit(AdmissionRule(answered: .earliest...Self.asked), at: Self.asked)
        try await reject(["b", "c"], at: Self.asked + .days(1))
        var pages: [[String]] = []
        var last: CredentialID?
        repeat {
            let page = try await store.ports.neverAcceptedTokens(of: "example", after: last, upTo: 3)
            pages.append(page.map { "\($0.userID) \($0.clientID) \($0.isRepeated == true)" })
            last = page.last?.credential
        } while last != nil
        #expect(pages.prefix(2) == [["a app true", "a web true", "b app false"], ["b web false", "c app false", "c web false"]])
        #expect(pages.dropFirst(2) == [["d app true", "d web true"], []])
    }

    /// `status` counts it among the pending rejections until siwatch believes it, and `unverified` lists it from the first.
    @Test func itIsListedWhileItsRejectionWaits() async throws {
        try await signedIn()
        try await store.settleChecks(at: Self.asked, as: .rejected(at: Self.asked))
        func listed() async throws -> [Bool] {
            try await store.ports.neverAcceptedTokens(of: "example", after: nil, upTo: 10).map { $0.isRepeated == true }
        }
        func counted() async throws -> [Int] {
            try await store.ports.apps().filter { $0.app == "example" }.flatMap { [$0.pending, $0.neverAccepted] }
        }
        #expect(try await listed() == [false])
        #expect(try await counted() == [1, 0])
        try await store.admit(AdmissionRule(answered: .earliest...Self.asked), at: Self.asked)
        #expect(try await listed() == [true])
        #expect(try await counted() == [0, 1])
        // A token that Apple had accepted is another matter.
        try await store.signIn("ann", token: "a", at: Self.asked, isAccepted: true)
        try await store.settleChecks(at: Self.asked + .days(2), as: .rejected(at: Self.asked + .days(2)))
        #expect(try await listed() == [true])
        #expect(try await counted() == [1, 1])
    }

    @Test(arguments: ["sign-in", "sign-in without a token", "event", "good answer", "sweep"])
    func itIsListedUntilSomethingBetterIsKnown(_ what: String) async throws {
        try await signedIn()
        try await store.refresh(.rejected, at: Self.asked)
        let later = Self.asked + .hours(2)
        switch what {
        case "sign-in": try await store.signIn(token: "newer", at: later)
        case "sign-in without a token": try await store.signIn(at: later)
        case "event": try await store.notify(.consentRevoked, at: later)
        case "sweep": try await store.ports.maintain(at: Self.asked + .days(30))
        default:
            _ = try await store.ask(.recheckUser("user"), at: later)
            try await store.refresh(.valid, at: later)
        }
        let isListed = ["sign-in without a token", "sweep"].contains(what)
        #expect(try await neverAccepted() == (isListed ? [1, 1] : [0, 0]))
        #expect(try await row()[0] == (what == "event" ? "revoked" : "authorized"))
    }

    @Test func anAnswerAboutAnErasedTokenIsNoNews() async throws {
        try await signedIn()
        let due = try await store.claimCredentials(at: Self.asked)[0]
        try await store.notify(.consentRevoked, at: Self.asked)
        _ = try await store.settle(.valid, about: due, at: Self.asked)
        let found = try await row()
        #expect(found[0] == "revoked" && found[1] == "consent_revoked" && found[4] == nil)
        #expect(try await store.claimCredentials(at: .start + .days(400)).isEmpty)
    }

    @Test func aSignInAfterARejectionAuthorizesAgain() async throws {
        try await signedIn(isAccepted: true)
        try await store.refresh(.rejected, at: Self.asked)
        try await store.signIn(token: "new", at: Self.asked + .hours(1))
        #expect(try await row()[0] == "authorized")
        #expect(try await store.claimCredentials(at: Self.asked + .days(3)).count == 1)
    }

    /// siwatch asks about its app's other clients as before. The client comes back with its line in the configuration.
    @Test func aClientThatLeftTheConfigurationIsNotAskedAbout() async throws {
        try await signedIn()
        try await store.signIn(client: "web", token: "w")
        try store.register("example", ["web"])
        #expect(try await store.claimCredentials(at: Self.asked).map(\.id.clientID) == ["web"])
        #expect(try await store.column("SELECT state FROM credential_state") == ["authorized", "authorized"])
        try store.register("example", ["app", "web"])
        #expect(try await store.claimCredentials(at: Self.asked).map(\.id.clientID) == ["app"], "overdue since it left")
        #expect(try await store.ports.overdueCredentials(before: Self.asked + .days(1), upTo: 9)["example"] == 2)
    }
}
