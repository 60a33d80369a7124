// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite struct SettlementFoldRevocationTests {
    private typealias World = RevocationWorld

    @Test func whatIsProvedIsRevoked() throws {
        var world = World(("app", 1), ("web", 2))
        world.credentials[1].record.importedBy = 1
        let changes = world.fold(.revocation(World.due(.accepted, .revoked), World.answer(.rejected)))
        #expect(changes.results == [.revocation(.proved)])
        #expect(changes.users.map { $0.part(of: 1).holdings.count } == [0], "no undo of an import takes it")
        #expect(World.end(changes) == ["proved", "app revoked revoked_by_app", "web revoked revoked_by_app"])
        let record = try #require(changes.users.first?["app"])
        #expect(record.credential.token?.sealed == nil && record.dueAt == nil)
        #expect(changes.announcements.map(\.source) == [.revocation, .revocation])
        #expect(changes.announcements.map(\.credential.clientID) == ["app", "web"])
        #expect(changes.breakers.isEmpty && changes.checks == (0, 0), "no check, and nothing for the breaker")
    }

    /// An operator has mistyped the team, with the same key. Apple rejects a token to that team, accepts it from the other, and answers 200
    /// to every revocation.
    @Test(arguments: [RevocationProof.Answer.Word.revoked, .rejected, .unheard])
    func anAnswerToAnotherTeamProvesNothing(_ word: RevocationProof.Answer.Word) throws {
        let world = World(("app", 1))
        var work = word == .rejected ? World.due(.accepted, .revoked) : World.due(.accepted)
        (work.standing, work.verifiedTeam) = (.accepted, "OURS")
        let other = ClientIdentity(clientID: "app", keyID: "KEY", teamID: "THEIRS")
        let answer = RevocationProof.Answer(word, askedAt: World.now, date: nil)
        let proceeded = try #require(World.proceeded(world.fold(.revocation(work, .answered(answer, by: other)))))
        #expect(proceeded.proof.next == (word == .rejected ? .isBelieved : .isAccepted), "it begins anew")
        #expect(proceeded.proof.revocation == nil)
        let ours = ClientIdentity(clientID: "app", keyID: "KEY", teamID: "OURS")
        let goesOn = world.fold(.revocation(work, .answered(answer, by: ours)))
        #expect(word == .rejected ? World.finished(goesOn)?.0 == .proved : World.proceeded(goesOn)?.proof.revocation != nil)
    }

    /// Apple ends the grants to the whole app, whatever siwatch holds of the user at its other clients.
    @Test(arguments: ["no token", "a token that Apple never accepted", "a token that Apple has accepted"])
    func aProvedRevocationEndsTheSignInsAtEveryClient(_ what: String) {
        var world = World(("app", 1))
        world.signIn("web", hasToken: what != "no token", fingerprint: 2, isAccepted: what == "a token that Apple has accepted")
        let changes = world.fold(.revocation(World.due(.accepted, .revoked), World.answer(.rejected)))
        #expect(World.states(changes) == ["app revoked revoked_by_app", "web revoked revoked_by_app"])
        #expect(changes.users.first?["web"]?.credential.token?.sealed == nil)
        #expect(changes.users.first?["web"]?.dueAt == nil)
        // A later sign-in at the other client stays.
        world.signIn("web", at: World.asked.advanced(by: .seconds(1)), hasToken: false)
        let later = world.fold(.revocation(World.due(.accepted, .revoked), World.answer(.rejected)))
        #expect(World.states(later) == ["app revoked revoked_by_app", "web authorized granted"])
    }

    /// An event has named the user at that client.
    @Test func aProvedRevocationSaysNothingOfAClientWithoutASignIn() {
        var world = World(("app", 1))
        world.credentials.append(("web", CredentialRecord()))
        let changes = world.fold(.revocation(World.due(.accepted, .revoked), World.answer(.rejected)))
        #expect(World.states(changes) == ["app revoked revoked_by_app", "web notFound never_granted"])
        #expect(changes.announcements.map(\.credential.clientID) == ["app"])
    }

    /// A sign-in at another client gives the same result, reported before the proof or after it.
    @Test(arguments: [-1_200_000, 0, 1]) func aSignInAtAnotherClientMayBeToldBeforeTheProofOrAfterIt(_ milliseconds: Int) {
        let time = World.asked.advanced(by: .milliseconds(milliseconds))
        let token = RefreshToken(at: time, fingerprint: 7)
        let web = CredentialID(clientID: "web", userID: "ann")
        let signIn = Settlement.signIn(Grant(grantedAt: time, token: token), row: 9, of: web)
        let proof = Settlement.revocation(World.due(.accepted, .revoked), World.answer(.rejected))
        let isNewer = milliseconds > 0
        let expected = ["app revoked revoked_by_app", isNewer ? "web authorized granted" : "web revoked revoked_by_app"]
        for (first, second) in [(proof, signIn), (signIn, proof)] {
            var world = World(("app", 1))
            #expect(World.states(world.fold(first, second)) == expected, "in one batch")
            world.take(world.fold(first))
            let changes = world.fold(second)
            #expect(World.states(changes) == expected)
            #expect(changes.users.first?["web"]?.credential.token?.sealed == (isNewer ? token.sealed : nil))
            #expect(changes.users.first?.registers.revokedAt == World.asked)
        }
    }

    @Test(arguments: [true, false]) func aTokenThatWasDeadSaysNothingOfOtherClients(_ hasToken: Bool) {
        var world = World(("app", 1))
        world.signIn("web", hasToken: hasToken, fingerprint: 2)
        let changes = world.fold(.revocation(World.due(.rejected), .admitted))
        #expect(World.end(changes) == ["already_invalid", "app revoked revoked_by_app", "web authorized granted"])
        #expect(changes.users.first?.registers.revokedAt == nil)
    }

    /// The token may be truncated, or not the last one. No receipt for an auditor may rest on that.
    @Test(arguments: [DueRevocation.Standing.neverAccepted, .acceptedBefore])
    func theEndOfAnyOtherTokenProvesNothing(_ standing: DueRevocation.Standing) throws {
        var world = World()
        world.signIn(fingerprint: 1, isAccepted: false)
        let changes = world.fold(.revocation(World.due(.rejected, standing: standing), .admitted))
        #expect(try #require(World.finished(changes)) == (.noValidToken, nil))
        #expect(World.states(changes).allSatisfy { $0 == "app authorized granted" } && changes.announcements.isEmpty)
    }

    /// siwatch opened the request before the token's first check.
    @Test func aTokenThatACheckHasAcceptedSinceTheRequestSpeaksOfItsUser() {
        let changes = World(("app", 1)).fold(.revocation(World.due(.rejected, standing: .neverAccepted), .admitted))
        #expect(World.end(changes) == ["already_invalid", "app revoked revoked_by_app"])
    }

    @Test func aTokenThatACheckOfAnotherTeamHasAcceptedSinceSpeaksOfNobody() throws {
        var due = World.due(.rejected, standing: .neverAccepted)
        due.teamID = "ANOTHER"
        let changes = World(("app", 1)).fold(.revocation(due, .admitted))
        #expect(changes.results == [.revocation(.rejected, .otherTeam)])
        #expect(try #require(World.finished(changes)) == (.rejected, .otherTeam))
    }

    /// A row came late, and siwatch has not asked about its token.
    @Test func theEndOfATokenSaysNothingOnceAnotherWasTold() throws {
        var world = World(("app", 1))
        world.signIn(at: World.start.advanced(by: .minutes(1)), fingerprint: 2, isAccepted: false)
        let changes = world.fold(.revocation(World.due(.rejected), .admitted))
        #expect(try #require(World.finished(changes)) == (.noValidToken, nil))
        #expect(World.states(changes).allSatisfy { $0 == "app authorized granted" })
    }

    /// The user has signed in without a token since Apple last accepted the old one, which may have ended before that. The row of the
    /// sign-in may come before or after siwatch opens the request.
    @Test(arguments: [true, false]) func theEndOfATokenOlderThanTheSignInSaysNothingOfThat(_ isToldBefore: Bool) throws {
        var world = World(("app", 1))
        let signIn = World.start.advanced(by: .minutes(10))
        if isToldBefore { world.signIn(at: signIn, hasToken: false) }
        guard case .revocation(.open(_, _, let tokens)) = world.fold(World.accepted()).queueRows.first else { return #expect(Bool(false)) }
        #expect(tokens.map(\.standing) == [.acceptedBefore])
        if !isToldBefore { world.signIn(at: signIn, hasToken: false) }
        let changes = world.fold(.revocation(World.due(.rejected, standing: tokens[0].standing), .admitted))
        #expect(try #require(World.finished(changes)) == (.noValidToken, nil))
        #expect(World.states(changes).allSatisfy { $0 == "app authorized granted" })
    }

    /// Apple accepted the token after siwatch opened the request. Then another key began the proof anew.
    @Test(arguments: [true, false]) func theEndOfATokenThatTheProofHasSeenAliveSpeaksOfItsUser(_ hasToken: Bool) {
        var world = World(("app", 1))
        world.signIn(at: World.start.advanced(by: .minutes(10)), hasToken: hasToken, fingerprint: 2, isAccepted: false)
        let changes = world.fold(.revocation(World.due(.rejected, standing: .accepted), .admitted))
        #expect(World.end(changes) == ["already_invalid", "app revoked revoked_by_app"])
    }

    /// Apple may reject a good token of the old team. siwatch cannot find out whether it is dead, and the receipt does not claim it.
    @Test func aTokenOfAnotherTeamIsNotTakenForDead() throws {
        let world = World(("app", 1))
        let changes = world.fold(.revocation(World.due(.rejected), .otherTeam))
        #expect(changes.results == [.revocation(.rejected, .otherTeam)])
        #expect(try #require(World.finished(changes)) == (.rejected, .otherTeam))
        #expect(World.states(changes).allSatisfy { $0 == "app authorized granted" }, "no state follows")
        #expect(changes.users.first?["app"]?.credential.revokedAt == nil)
        var open = world
        open.breaker = .distrustful(since: World.now)
        #expect(open.fold(.revocation(World.due(.rejected), .otherTeam)).results == [.postponed], "while the breaker is open nobody knows")
    }

    /// The request is dated an hour ahead. A user who signs in within that hour, by Apple's clock, stays signed in.
    @Test func aBackendWhoseClockIsAheadEndsNoLaterSignIn() {
        let ahead = World.asked.advanced(by: .hours(1))
        var world = World(("app", 1))
        world.signIn(at: World.asked.advanced(by: .minutes(10)), fingerprint: 2)
        let due = World.due(.accepted, .revoked, at: ahead, date: World.asked)
        let changes = world.fold(.revocation(due, World.answer(.rejected, date: World.asked)))
        #expect(changes.results == [.revocation(.proved)])
        #expect(World.states(changes) == ["app authorized granted"])
    }

    /// Apple rejected it from the first. That counts while the key is known to work and no breaker is open.
    @Test func whatWasDeadIsBelievedWhileTheBreakerIsClosed() throws {
        var world = World(("app", 1))
        let due = World.due(.rejected)
        let waits = try #require(World.proceeded(world.fold(.revocation(due, .unproven))))
        #expect(waits.proof.next == .isBelieved && waits.due == World.now.advanced(by: .seconds(60)))

        var breaker = RejectionBreaker()
        let subject = RejectionBreaker.Subject(CredentialID(clientID: "web", userID: "bob"))
        _ = breaker.judge(.blamed, of: subject, under: BreakerRules(policy: World.policy), at: World.now)
        world.breaker = breaker
        let held = world.fold(.revocation(due, .admitted))
        #expect(held.results == [.postponed] && World.states(held) == ["app authorized granted"])
        #expect(held.breakers.isEmpty, "nothing is counted")

        // Apple has accepted the token's client since it blamed the other.
        let accepted = RejectionBreaker.Subject(CredentialID(clientID: "app", userID: "cid"))
        _ = breaker.judge(.valid, of: accepted, under: BreakerRules(policy: World.policy), at: World.now)
        world.breaker = breaker
        #expect(try #require(World.finished(world.fold(.revocation(due, .admitted)))) == (.alreadyInvalid, nil))

        world.breaker = nil
        let changes = world.fold(.revocation(due, .admitted))
        #expect(World.end(changes) == ["already_invalid", "app revoked revoked_by_app"])
    }

    @Test func aProofDoesNotWaitForTheBreaker() {
        var world = World(("app", 1))
        var breaker = RejectionBreaker()
        let subject = RejectionBreaker.Subject(CredentialID(clientID: "app", userID: "bob"))
        _ = breaker.judge(.blamed, of: subject, under: BreakerRules(policy: World.policy), at: World.now)
        world.breaker = breaker
        #expect(world.fold(.revocation(World.due(.accepted, .revoked), World.answer(.rejected))).results == [.revocation(.proved)])
    }

    @Test func whatWasNeverRejectedIsNotAdmitted() throws {
        let world = World(("app", 1))
        for due in [World.due(), World.due(.accepted), World.due(.accepted, .revoked)] {
            let changes = world.fold(.revocation(due, .admitted))
            #expect(changes.results == [.postponed] && World.states(changes) == ["app authorized granted"])
        }
    }

    @Test(
        arguments: [(.overtaken, .superseded, nil)] + RevocationRejection.allCases.map { (.rejected($0), .rejected, $0) }
            as [(RevocationVerdict, RevocationOutcome, RevocationRejection?)]
    )
    func whatIsGivenUpChangesNobody(_ verdict: RevocationVerdict, _ outcome: RevocationOutcome, _ reason: RevocationRejection?) throws {
        let changes = World(("app", 1)).fold(.revocation(World.due(.accepted), verdict))
        #expect(changes.results == [.revocation(outcome, reason)])
        #expect(try #require(World.finished(changes)) == (outcome, reason))
        #expect(World.states(changes) == ["app authorized granted"] && changes.announcements.isEmpty)
    }

    @Test func aLostClaimOnATokenSettlesNothing() {
        let world = World(("app", 1))
        let stale = World.due(.accepted, .revoked, claim: Claim(owner: "me", attempts: 2))
        #expect(world.fold(.revocation(stale, World.answer(.rejected))).results == [.superseded])
        let held = Settlement.revocation(World.due(.accepted), World.answer(.revoked))
        #expect(world.fold(.revocation(stale, World.answer(.rejected)), held).results == [.superseded, .postponed])
        let proof = Settlement.revocation(World.due(.accepted, .revoked), World.answer(.rejected))
        #expect(world.fold(proof, proof).results == [.revocation(.proved), .superseded])
    }
}
