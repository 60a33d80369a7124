// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import CredentialCore

@Suite struct SettlementFoldRevocationTests {
    private static let start = Timestamp(seconds: 1_750_000_000)
    private static let asked = start.advanced(by: .hours(1))
    private static let now = asked.advanced(by: .seconds(1))
    private static let apps = ["app": "example", "web": "example", "elsewhere": "other"]
    private static let user = AppUserID(app: "example", userID: "ann")
    private static let policy = RefreshPolicy()
    private static let identity = ClientIdentity(clientID: "app", keyID: "KEY")

    private struct World {
        var credentials: [(clientID: String, record: CredentialRecord)] = []
        var registers: AppUser?
        var waiting: [WaitingGrant] = []
        var beingRevoked: [RefreshToken.Key: Timestamp] = [:]
        var breaker: RejectionBreaker?
        var startedAt = start

        func fold(_ settlements: Settlement..., at now: Timestamp = now) -> SettlementChanges {
            let rules = SettlementRules(policy: policy, pollInterval: .seconds(1), startedAt: startedAt)
            let scope = SettlementScope(of: settlements, apps: apps, under: rules)
            var basis = SettlementBasis()
            for id in scope.users {
                let isOurs = id == user
                basis.users[id] = UserRecord(id, stored: isOurs ? registers : nil, credentials: isOurs ? credentials : [])
            }
            for (id, claim) in scope.revocationRequests where claim == .mine { basis.heldRevocationRequests[id] = claim }
            for (id, claim) in scope.revocations where claim == .mine { basis.heldRevocations[id] = claim }
            for (id, claim) in scope.grants where claim == .mine { basis.heldGrants[id] = claim }
            for id in scope.signingIn where id == user { basis.waitingGrants[id] = waiting }
            for id in scope.leaving where id == user { basis.tokensBeingRevoked[id] = beingRevoked }
            for app in scope.judgedApps { basis.breakers[app] = breaker }
            return SettlementFold.fold(settlements, over: basis, apps: apps, under: rules, at: now)
        }

        mutating func signIn(
            _ client: String = "app",
            at time: Timestamp = start,
            hasToken: Bool = true,
            fingerprint: UInt8 = 1,
            isAccepted: Bool = true
        ) {
            var record = credentials.first { $0.clientID == client }?.record ?? CredentialRecord()
            let token = RefreshToken(at: time, fingerprint: fingerprint)
            let id = CredentialID(clientID: client, userID: "ann")
            _ = record.take(Grant(grantedAt: time, token: hasToken ? token : nil), of: id, under: policy, at: time)
            if hasToken, isAccepted {
                record.credential.apply(RefreshAnswer(.valid, token: token.key, requestedAt: time.advanced(by: .minutes(1))))
            }
            credentials.removeAll { $0.clientID == client }
            credentials.append((client, record))
        }

        mutating func take(_ changes: SettlementChanges) {
            guard let user = changes.users.first(where: { $0.id == SettlementFoldRevocationTests.user }) else { return }
            registers = user.registers
            credentials = user.holdings.map { ($0.clientID, $0.record) }
        }
    }

    private static func world(_ signIns: (String, UInt8)...) -> World {
        var world = World()
        for (client, fingerprint) in signIns { world.signIn(client, fingerprint: fingerprint) }
        return world
    }

    private static func request(
        _ client: String = "app",
        id: Int64 = 1,
        at time: Timestamp = asked,
        claim: Claim = .mine
    ) -> ClaimedRevocationRequest {
        let credential = CredentialID(clientID: client, userID: "ann")
        return ClaimedRevocationRequest(id: id, claim: claim, app: apps[client], requestedAt: time, credential: credential)
    }

    private static func accepted(_ request: ClaimedRevocationRequest = request()) -> Settlement {
        .revocationRequest(request, .accepted(at: now))
    }

    private static func opened(_ changes: SettlementChanges) -> [String] {
        changes.queueRows.flatMap { row -> [String] in
            guard case .revocation(.open(_, _, let tokens)) = row else { return [] }
            return tokens.map { "\($0.clientID) \($0.key.fingerprint[0])" }
        }
    }

    private static func wait(_ changes: SettlementChanges, of id: Int64 = 1, at now: Timestamp = now) -> Duration? {
        for case .revocation(.postpone(let work, let until)) in changes.queueRows where work.id == id { return now.duration(to: until) }
        return nil
    }

    // MARK: Requests

    /// Opens the tokens of the whole app group, each at the client that Apple issued it to, and of no other app.
    @Test func opensEveryTokenOfTheApp() {
        var world = Self.world(("app", 1), ("web", 2))
        let changes = world.fold(Self.accepted(Self.request("web")))
        #expect(changes.results == [.postponed])
        #expect(Self.opened(changes) == ["app 1", "web 2"])
        #expect(changes.announcements.isEmpty, "nothing is known yet")
        world.credentials = []
        world.signIn("app", hasToken: false)
        #expect(world.fold(Self.accepted()).results == [.revocation(.noToken)])
    }

    @Test func withoutATokenNobodyIsRevoked() {
        let changes = World().fold(Self.accepted())
        #expect(changes.results == [.revocation(.noToken)])
        #expect(changes.announcements.isEmpty && changes.users.allSatisfy { $0.holdings.isEmpty })
        #expect(Self.world(("app", 1)).fold(Self.accepted(Self.request("elsewhere"))).results == [.revocation(.noToken)], "of that app")
    }

    @Test(arguments: ["app", "web"]) func aNewerSignInSupersedes(_ client: String) {
        var world = Self.world(("app", 1))
        world.signIn(client, at: Self.asked.advanced(by: .milliseconds(1)), hasToken: false)
        #expect(world.fold(Self.accepted()).results == [.revocation(.superseded)])
    }

    /// From siwatch's first look, however far ahead the backend has dated it, and from no later look.
    @Test func aRequestThatIsDatedAheadCountsFromTheFirstLook() {
        let far = Self.now.advanced(by: .seconds(3600))
        let look = Self.now.advanced(by: SettlementRules.longestLead)
        #expect(Self.effectiveAt(Self.world(("app", 1)), Self.request(at: far)) == look)
        #expect(Self.effectiveAt(Self.world(("app", 1)), Self.request(at: Self.asked)) == Self.asked)
        var seen = Self.request(at: far)
        seen.effectiveAt = Self.asked
        #expect(Self.effectiveAt(Self.world(("app", 1)), seen) == Self.asked)
        // A clock that is ahead has dated the sign-in, too.
        var world = Self.world(("app", 1))
        world.signIn("web", at: far.advanced(by: .seconds(-60)))
        #expect(Self.effectiveAt(world, Self.request(at: far)) == far.advanced(by: .milliseconds(1 - 60_000)))
        #expect(Self.effectiveAt(world, Self.request(at: far.advanced(by: .seconds(-60)))) == far.advanced(by: .seconds(-60)))
    }

    private static func effectiveAt(_ world: World, _ request: ClaimedRevocationRequest) -> Timestamp? {
        guard case .revocation(.open(let work, _, _)) = world.fold(accepted(request)).queueRows.last else { return nil }
        return work.effectiveAt
    }

    /// The waiting sign-in may bring an old token, or siwatch may reject it. Then the request must not be lost.
    @Test(arguments: ["app", "web"]) func aNewerSignInThatWaitsSupersedesNothing(_ client: String) {
        var world = Self.world(("app", 1))
        let later = Self.asked.advanced(by: .milliseconds(1))
        world.waiting = [WaitingGrant(id: 9, clientID: client, grantedAt: later, isOnItsWay: false)]
        #expect(Self.wait(world.fold(Self.accepted())) == .seconds(1))
        for wait in [Duration.minutes(6), .hours(24 * 7)] {
            let now = Self.asked.advanced(by: wait)
            let changes = world.fold(Self.accepted(), at: now)
            #expect(changes.results == [.postponed] && Self.opened(changes).isEmpty)
            #expect(Self.wait(changes, at: now) == .seconds(60), "seldom")
        }
        world.waiting = []
        #expect(Self.opened(world.fold(Self.accepted())) == ["app 1"], "it was none")
    }

    /// siwatch looks at the sign-in and puts it off in the transaction in which it opens the request.
    @Test func aSignInThatIsPutOffInTheSameBatchIsWaitedFor() {
        var world = Self.world(("app", 1))
        let ahead = Self.now.advanced(by: .hours(2))
        world.waiting = [WaitingGrant(id: 9, clientID: "web", grantedAt: ahead, isOnItsWay: true)]
        let web = CredentialID(clientID: "web", userID: Self.user.userID)
        let content = ClaimedGrant.Content(credential: web, refreshToken: nil, address: nil)
        let early = ClaimedGrant(id: 9, claim: .mine, grantedAt: ahead, content: content)
        let changes = world.fold(.grant(early, .inFuture(due: ahead, lookedAt: Self.now)), Self.accepted())
        #expect(changes.results == [.postponed, .postponed] && Self.opened(changes).isEmpty)
    }

    /// Apple may refuse a newer code. Until then siwatch neither revokes nor closes the request, however long that takes.
    @Test(arguments: ["app", "web"], [-1, 1]) func aCodeIsWaitedFor(_ client: String, _ milliseconds: Int) {
        var world = Self.world(("app", 1))
        let signedInAt = Self.asked.advanced(by: .milliseconds(milliseconds))
        world.waiting = [WaitingGrant(id: 9, clientID: client, grantedAt: signedInAt, bringsCode: true, isOnItsWay: false)]
        let waits: [(now: Timestamp, wait: Duration)] = [(Self.now, .seconds(1)), (Self.asked.advanced(by: .hours(1)), .seconds(60))]
        for (now, wait) in waits {
            let changes = world.fold(Self.accepted(), at: now)
            #expect(changes.results == [.postponed] && Self.opened(changes).isEmpty)
            #expect(Self.wait(changes, at: now) == wait)
        }
        world.waiting = []
        #expect(Self.opened(world.fold(Self.accepted())) == ["app 1"])
    }

    /// A request names the sign-in of the same time.
    @Test func aSignInOfTheSameTimeDoesNot() {
        var world = World()
        world.signIn(at: Self.asked)
        #expect(Self.opened(world.fold(Self.accepted())) == ["app 1"])
    }

    @Test func anOlderSignInThatWaitsIsWaitedFor() {
        var world = Self.world(("app", 1))
        world.waiting = [WaitingGrant(id: 9, clientID: "web", grantedAt: Self.start, isOnItsWay: false)]
        #expect(Self.wait(world.fold(Self.accepted())) == .seconds(1))
        let end = Self.asked.advanced(by: .minutes(6))
        let last = end.advanced(by: .milliseconds(-1))
        #expect(Self.wait(world.fold(Self.accepted(), at: last), at: last) == .seconds(1))
        #expect(Self.opened(world.fold(Self.accepted(), at: end)) == ["app 1"], "six minutes at most")
        // A daemon that was down takes the sign-ins that came meanwhile first.
        world.startedAt = end
        #expect(Self.wait(world.fold(Self.accepted(), at: end), at: end) == .seconds(60))
        world.startedAt = Self.start
        world.waiting = [WaitingGrant(id: 9, clientID: "web", grantedAt: Self.start, isOnItsWay: true)]
        #expect(Self.wait(world.fold(Self.accepted(), at: end), at: end) == .seconds(60), "it has not come to its turn")
    }

    /// A later sign-in brought a truncated token. siwatch revokes the good one before it, too.
    @Test func aDisplacedTokenIsRevokedToo() throws {
        var world = Self.world(("app", 1))
        world.signIn(at: Self.start.advanced(by: .minutes(10)), fingerprint: 2, isAccepted: false)
        let changes = world.fold(Self.accepted())
        #expect(Self.opened(changes) == ["app 2", "app 1"])
        guard case .revocation(.open(_, _, let tokens)) = changes.queueRows.first else { return }
        #expect(tokens.map(\.standing) == [.neverAccepted, .acceptedBefore])
        // Once Apple has accepted the newer token, siwatch no longer needs the older.
        world.signIn(at: Self.start.advanced(by: .minutes(20)), fingerprint: 3)
        #expect(Self.opened(world.fold(Self.accepted())) == ["app 3"])
    }

    @Test func aSignInOfTheSameBatchIsOneThatIsKnown() {
        var world = World()
        world.waiting = [WaitingGrant(id: 9, clientID: "app", grantedAt: Self.start, isOnItsWay: false)]
        let grant = Grant(grantedAt: Self.start, token: RefreshToken(at: Self.start, fingerprint: 7))
        let changes = world.fold(.signIn(grant, row: 9), Self.accepted())
        #expect(changes.results == [.grant(.applied, nil), .postponed])
        #expect(Self.opened(changes) == ["app 7"])
    }

    /// One proof is enough. The second request waits for the first, in the same batch too.
    @Test func askedForTwiceIsAskedOnce() {
        var world = Self.world(("app", 1))
        let changes = world.fold(Self.accepted(), Self.accepted(Self.request(id: 2)))
        #expect(changes.results == [.postponed, .postponed] && Self.opened(changes) == ["app 1"])
        #expect(Self.wait(changes, of: 2) == .seconds(30))
        world.beingRevoked = [RefreshToken.Key(grantedAt: Self.start, fingerprint: [1]): Self.asked]
        #expect(Self.wait(world.fold(Self.accepted())) == .seconds(30))
    }

    @Test func aLostClaimOnARequestSettlesNothing() {
        let world = Self.world(("app", 1))
        let stale = Self.request(claim: Claim(owner: "me", attempts: 2))
        #expect(world.fold(Self.accepted(stale)).results == [.superseded])
        #expect(world.fold(Self.accepted(), Self.accepted()).results == [.postponed, .superseded])
    }

    @Test(arguments: RevocationRejection.allCases) func aRejectedRequestRevokesNothing(_ reason: RevocationRejection) {
        let changes = Self.world(("app", 1)).fold(.revocationRequest(Self.request(), .rejected(reason)))
        #expect(changes.results == [.revocation(.rejected, reason)] && changes.users.isEmpty)
        let isClosed = if case .revocation(.close(_, .rejected, reason)) = changes.queueRows.first { true } else { false }
        #expect(isClosed, "\(changes.queueRows)")
    }

    // MARK: Tokens

    private static func answer(_ word: RevocationProof.Answer.Word, date: Timestamp? = nil) -> RevocationVerdict {
        .answered(RevocationProof.Answer(word, askedAt: now, date: date), by: identity)
    }

    private static func due(
        _ words: RevocationProof.Answer.Word...,
        at time: Timestamp = asked,
        claim: Claim = .mine,
        date: Timestamp? = nil,
        standing: DueRevocation.Standing = .acceptedBefore
    ) -> DueRevocation {
        var proof = RevocationProof()
        for word in words {
            let answer = RevocationProof.Answer(word, askedAt: now, date: date)
            _ = proof.take(answer, keyID: "KEY", of: .ann, under: policy, at: now)
        }
        var due = DueRevocation(requestedAt: time, grantedAt: start, claim: claim, proof: proof)
        due.standing = standing
        return due
    }

    private static func finished(_ changes: SettlementChanges) -> (RevocationOutcome, RevocationRejection?)? {
        guard case .revocation(.finish(_, _, let outcome, let reason)) = changes.queueRows.first else { return nil }
        return (outcome, reason)
    }

    private static func proceeded(_ changes: SettlementChanges) -> (proof: RevocationProof, due: Timestamp)? {
        guard case .revocation(.proceed(_, let proof, let due)) = changes.queueRows.first else { return nil }
        return (proof, due)
    }

    private static func states(_ changes: SettlementChanges) -> [String] {
        (changes.users.first { $0.id == user }?.holdings ?? []).compactMap { holding in
            holding.standing.map { "\(holding.clientID) \($0.state.rawValue) \($0.reason.rawValue)" }
        }
    }

    /// The outcome and the states after it.
    private static func end(_ changes: SettlementChanges) -> [String] {
        (finished(changes).map { outcome, reason in [outcome.rawValue] + [reason?.rawValue].compactMap(\.self) } ?? []) + states(changes)
    }

    @Test func whatIsProvedIsRevoked() throws {
        var world = Self.world(("app", 1), ("web", 2))
        world.credentials[1].record.importedBy = 1
        let changes = world.fold(.revocation(Self.due(.accepted, .revoked), Self.answer(.rejected)))
        #expect(changes.results == [.revocation(.proved)])
        #expect(changes.users.map { $0.part(of: 1).holdings.count } == [0], "no undo of an import takes it")
        #expect(Self.end(changes) == ["proved", "app revoked revoked_by_app", "web revoked revoked_by_app"])
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
        let world = Self.world(("app", 1))
        var work = word == .rejected ? Self.due(.accepted, .revoked) : Self.due(.accepted)
        (work.standing, work.verifiedTeam) = (.accepted, "OURS")
        let other = ClientIdentity(clientID: "app", keyID: "KEY", teamID: "THEIRS")
        let answer = RevocationProof.Answer(word, askedAt: Self.now, date: nil)
        let proceeded = try #require(Self.proceeded(world.fold(.revocation(work, .answered(answer, by: other)))))
        #expect(proceeded.proof.next == (word == .rejected ? .isBelieved : .isAccepted), "it begins anew")
        #expect(proceeded.proof.revocation == nil)
        let ours = ClientIdentity(clientID: "app", keyID: "KEY", teamID: "OURS")
        let goesOn = world.fold(.revocation(work, .answered(answer, by: ours)))
        #expect(word == .rejected ? Self.finished(goesOn)?.0 == .proved : Self.proceeded(goesOn)?.proof.revocation != nil)
    }

    /// Apple ends the grants to the whole app, whatever siwatch holds of the user at its other clients.
    @Test(arguments: ["no token", "a token that Apple never accepted", "a token that Apple has accepted"])
    func aProvedRevocationEndsTheSignInsAtEveryClient(_ what: String) {
        var world = Self.world(("app", 1))
        world.signIn("web", hasToken: what != "no token", fingerprint: 2, isAccepted: what == "a token that Apple has accepted")
        let changes = world.fold(.revocation(Self.due(.accepted, .revoked), Self.answer(.rejected)))
        #expect(Self.states(changes) == ["app revoked revoked_by_app", "web revoked revoked_by_app"])
        #expect(changes.users.first?["web"]?.credential.token?.sealed == nil)
        #expect(changes.users.first?["web"]?.dueAt == nil)
        // A later sign-in at the other client stays.
        world.signIn("web", at: Self.asked.advanced(by: .seconds(1)), hasToken: false)
        let later = world.fold(.revocation(Self.due(.accepted, .revoked), Self.answer(.rejected)))
        #expect(Self.states(later) == ["app revoked revoked_by_app", "web authorized granted"])
    }

    /// An event has named the user at that client.
    @Test func aProvedRevocationSaysNothingOfAClientWithoutASignIn() {
        var world = Self.world(("app", 1))
        world.credentials.append(("web", CredentialRecord()))
        let changes = world.fold(.revocation(Self.due(.accepted, .revoked), Self.answer(.rejected)))
        #expect(Self.states(changes) == ["app revoked revoked_by_app", "web notFound never_granted"])
        #expect(changes.announcements.map(\.credential.clientID) == ["app"])
    }

    /// A sign-in at another client gives the same result, reported before the proof or after it.
    @Test(arguments: [-1_200_000, 0, 1]) func aSignInAtAnotherClientMayBeToldBeforeTheProofOrAfterIt(_ milliseconds: Int) {
        let time = Self.asked.advanced(by: .milliseconds(milliseconds))
        let token = RefreshToken(at: time, fingerprint: 7)
        let web = CredentialID(clientID: "web", userID: "ann")
        let signIn = Settlement.signIn(Grant(grantedAt: time, token: token), row: 9, of: web)
        let proof = Settlement.revocation(Self.due(.accepted, .revoked), Self.answer(.rejected))
        let isNewer = milliseconds > 0
        let expected = ["app revoked revoked_by_app", isNewer ? "web authorized granted" : "web revoked revoked_by_app"]
        for (first, second) in [(proof, signIn), (signIn, proof)] {
            var world = Self.world(("app", 1))
            #expect(Self.states(world.fold(first, second)) == expected, "in one batch")
            world.take(world.fold(first))
            let changes = world.fold(second)
            #expect(Self.states(changes) == expected)
            #expect(changes.users.first?["web"]?.credential.token?.sealed == (isNewer ? token.sealed : nil))
            #expect(changes.users.first?.registers.revokedAt == Self.asked)
        }
    }

    @Test(arguments: [true, false]) func aTokenThatWasDeadSaysNothingOfOtherClients(_ hasToken: Bool) {
        var world = Self.world(("app", 1))
        world.signIn("web", hasToken: hasToken, fingerprint: 2)
        let changes = world.fold(.revocation(Self.due(.rejected), .admitted))
        #expect(Self.end(changes) == ["already_invalid", "app revoked revoked_by_app", "web authorized granted"])
        #expect(changes.users.first?.registers.revokedAt == nil)
    }

    /// The token may be truncated, or not the last one. No receipt for an auditor may rest on that.
    @Test(arguments: [DueRevocation.Standing.neverAccepted, .acceptedBefore])
    func theEndOfAnyOtherTokenProvesNothing(_ standing: DueRevocation.Standing) throws {
        var world = World()
        world.signIn(fingerprint: 1, isAccepted: false)
        let changes = world.fold(.revocation(Self.due(.rejected, standing: standing), .admitted))
        #expect(try #require(Self.finished(changes)) == (.noValidToken, nil))
        #expect(Self.states(changes).allSatisfy { $0 == "app authorized granted" } && changes.announcements.isEmpty)
    }

    /// siwatch opened the request before the token's first check.
    @Test func aTokenThatACheckHasAcceptedSinceTheRequestSpeaksOfItsUser() {
        let changes = Self.world(("app", 1)).fold(.revocation(Self.due(.rejected, standing: .neverAccepted), .admitted))
        #expect(Self.end(changes) == ["already_invalid", "app revoked revoked_by_app"])
    }

    @Test func aTokenThatACheckOfAnotherTeamHasAcceptedSinceSpeaksOfNobody() throws {
        var due = Self.due(.rejected, standing: .neverAccepted)
        due.teamID = "ANOTHER"
        let changes = Self.world(("app", 1)).fold(.revocation(due, .admitted))
        #expect(changes.results == [.revocation(.rejected, .otherTeam)])
        #expect(try #require(Self.finished(changes)) == (.rejected, .otherTeam))
    }

    /// A row came late, and siwatch has not asked about its token.
    @Test func theEndOfATokenSaysNothingOnceAnotherWasTold() throws {
        var world = Self.world(("app", 1))
        world.signIn(at: Self.start.advanced(by: .minutes(1)), fingerprint: 2, isAccepted: false)
        let changes = world.fold(.revocation(Self.due(.rejected), .admitted))
        #expect(try #require(Self.finished(changes)) == (.noValidToken, nil))
        #expect(Self.states(changes).allSatisfy { $0 == "app authorized granted" })
    }

    /// The user has signed in without a token since Apple last accepted the old one, which may have ended before that. The row of the
    /// sign-in may come before or after siwatch opens the request.
    @Test(arguments: [true, false]) func theEndOfATokenOlderThanTheSignInSaysNothingOfThat(_ isToldBefore: Bool) throws {
        var world = Self.world(("app", 1))
        let signIn = Self.start.advanced(by: .minutes(10))
        if isToldBefore { world.signIn(at: signIn, hasToken: false) }
        guard case .revocation(.open(_, _, let tokens)) = world.fold(Self.accepted()).queueRows.first else { return #expect(Bool(false)) }
        #expect(tokens.map(\.standing) == [.acceptedBefore])
        if !isToldBefore { world.signIn(at: signIn, hasToken: false) }
        let changes = world.fold(.revocation(Self.due(.rejected, standing: tokens[0].standing), .admitted))
        #expect(try #require(Self.finished(changes)) == (.noValidToken, nil))
        #expect(Self.states(changes).allSatisfy { $0 == "app authorized granted" })
    }

    /// Apple accepted the token after siwatch opened the request. Then another key began the proof anew.
    @Test(arguments: [true, false]) func theEndOfATokenThatTheProofHasSeenAliveSpeaksOfItsUser(_ hasToken: Bool) {
        var world = Self.world(("app", 1))
        world.signIn(at: Self.start.advanced(by: .minutes(10)), hasToken: hasToken, fingerprint: 2, isAccepted: false)
        let changes = world.fold(.revocation(Self.due(.rejected, standing: .accepted), .admitted))
        #expect(Self.end(changes) == ["already_invalid", "app revoked revoked_by_app"])
    }

    /// Apple may reject a good token of the old team. siwatch cannot find out whether it is dead, and the receipt does not claim it.
    @Test func aTokenOfAnotherTeamIsNotTakenForDead() throws {
        let world = Self.world(("app", 1))
        let changes = world.fold(.revocation(Self.due(.rejected), .otherTeam))
        #expect(changes.results == [.revocation(.rejected, .otherTeam)])
        #expect(try #require(Self.finished(changes)) == (.rejected, .otherTeam))
        #expect(Self.states(changes).allSatisfy { $0 == "app authorized granted" }, "no state follows")
        #expect(changes.users.first?["app"]?.credential.revokedAt == nil)
        var open = world
        open.breaker = .distrustful(since: Self.now)
        #expect(open.fold(.revocation(Self.due(.rejected), .otherTeam)).results == [.postponed], "while the breaker is open nobody knows")
    }

    /// The request is dated an hour ahead. A user who signs in within that hour, by Apple's clock, stays signed in.
    @Test func aBackendWhoseClockIsAheadEndsNoLaterSignIn() {
        let ahead = Self.asked.advanced(by: .hours(1))
        var world = Self.world(("app", 1))
        world.signIn(at: Self.asked.advanced(by: .minutes(10)), fingerprint: 2)
        let due = Self.due(.accepted, .revoked, at: ahead, date: Self.asked)
        let changes = world.fold(.revocation(due, Self.answer(.rejected, date: Self.asked)))
        #expect(changes.results == [.revocation(.proved)])
        #expect(Self.states(changes) == ["app authorized granted"])
    }

    /// Apple rejected it from the first. That counts while the key is known to work and no breaker is open.
    @Test func whatWasDeadIsBelievedWhileTheBreakerIsClosed() throws {
        var world = Self.world(("app", 1))
        let due = Self.due(.rejected)
        let waits = try #require(Self.proceeded(world.fold(.revocation(due, .unproven))))
        #expect(waits.proof.next == .isBelieved && waits.due == Self.now.advanced(by: .seconds(60)))

        var breaker = RejectionBreaker()
        let subject = RejectionBreaker.Subject(CredentialID(clientID: "web", userID: "bob"))
        _ = breaker.judge(.blamed, of: subject, under: BreakerRules(policy: Self.policy), at: Self.now)
        world.breaker = breaker
        let held = world.fold(.revocation(due, .admitted))
        #expect(held.results == [.postponed] && Self.states(held) == ["app authorized granted"])
        #expect(held.breakers.isEmpty, "nothing is counted")

        // Apple has accepted the token's client since it blamed the other.
        let accepted = RejectionBreaker.Subject(CredentialID(clientID: "app", userID: "cid"))
        _ = breaker.judge(.valid, of: accepted, under: BreakerRules(policy: Self.policy), at: Self.now)
        world.breaker = breaker
        #expect(try #require(Self.finished(world.fold(.revocation(due, .admitted)))) == (.alreadyInvalid, nil))

        world.breaker = nil
        let changes = world.fold(.revocation(due, .admitted))
        #expect(Self.end(changes) == ["already_invalid", "app revoked revoked_by_app"])
    }

    @Test func aProofDoesNotWaitForTheBreaker() {
        var world = Self.world(("app", 1))
        var breaker = RejectionBreaker()
        let subject = RejectionBreaker.Subject(CredentialID(clientID: "app", userID: "bob"))
        _ = breaker.judge(.blamed, of: subject, under: BreakerRules(policy: Self.policy), at: Self.now)
        world.breaker = breaker
        #expect(world.fold(.revocation(Self.due(.accepted, .revoked), Self.answer(.rejected))).results == [.revocation(.proved)])
    }

    @Test func whatWasNeverRejectedIsNotAdmitted() throws {
        let world = Self.world(("app", 1))
        for due in [Self.due(), Self.due(.accepted), Self.due(.accepted, .revoked)] {
            let changes = world.fold(.revocation(due, .admitted))
            #expect(changes.results == [.postponed] && Self.states(changes) == ["app authorized granted"])
        }
    }

    @Test(
        arguments: [(.overtaken, .superseded, nil)] + RevocationRejection.allCases.map { (.rejected($0), .rejected, $0) }
            as [(RevocationVerdict, RevocationOutcome, RevocationRejection?)]
    )
    func whatIsGivenUpChangesNobody(_ verdict: RevocationVerdict, _ outcome: RevocationOutcome, _ reason: RevocationRejection?) throws {
        let changes = Self.world(("app", 1)).fold(.revocation(Self.due(.accepted), verdict))
        #expect(changes.results == [.revocation(outcome, reason)])
        #expect(try #require(Self.finished(changes)) == (outcome, reason))
        #expect(Self.states(changes) == ["app authorized granted"] && changes.announcements.isEmpty)
    }

    @Test func aLostClaimOnATokenSettlesNothing() {
        let world = Self.world(("app", 1))
        let stale = Self.due(.accepted, .revoked, claim: Claim(owner: "me", attempts: 2))
        #expect(world.fold(.revocation(stale, Self.answer(.rejected))).results == [.superseded])
        let held = Settlement.revocation(Self.due(.accepted), Self.answer(.revoked))
        #expect(world.fold(.revocation(stale, Self.answer(.rejected)), held).results == [.superseded, .postponed])
        let proof = Settlement.revocation(Self.due(.accepted, .revoked), Self.answer(.rejected))
        #expect(world.fold(proof, proof).results == [.revocation(.proved), .superseded])
    }
}
