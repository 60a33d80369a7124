// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// Requests to revoke.
@Suite struct SettlementFoldRequestTests {
    private typealias World = RevocationWorld

    private static func opened(_ changes: SettlementChanges) -> [String] {
        changes.queueRows.flatMap { row -> [String] in
            guard case .revocation(.open(_, _, let tokens)) = row else { return [] }
            return tokens.map { "\($0.clientID) \($0.key.fingerprint[0])" }
        }
    }

    private static func wait(_ changes: SettlementChanges, of id: Int64 = 1, at now: Timestamp = World.now) -> Duration? {
        for case .revocation(.postpone(let work, let until)) in changes.queueRows where work.id == id { return now.duration(to: until) }
        return nil
    }

    /// Opens the tokens of the whole app group, each at the client that Apple issued it to, and of no other app.
    @Test func opensEveryTokenOfTheApp() {
        var world = World(("app", 1), ("web", 2))
        let changes = world.fold(World.accepted(World.request("web")))
        #expect(changes.results == [.postponed])
        #expect(Self.opened(changes) == ["app 1", "web 2"])
        #expect(changes.announcements.isEmpty, "nothing is known yet")
        world.credentials = []
        world.signIn("app", hasToken: false)
        #expect(world.fold(World.accepted()).results == [.revocation(.noToken)])
    }

    @Test func withoutATokenNobodyIsRevoked() {
        let changes = World().fold(World.accepted())
        #expect(changes.results == [.revocation(.noToken)])
        #expect(changes.announcements.isEmpty && changes.users.allSatisfy { $0.holdings.isEmpty })
        #expect(World(("app", 1)).fold(World.accepted(World.request("elsewhere"))).results == [.revocation(.noToken)], "of that app")
    }

    @Test(arguments: ["app", "web"]) func aNewerSignInSupersedes(_ client: String) {
        var world = World(("app", 1))
        world.signIn(client, at: World.asked.advanced(by: .milliseconds(1)), hasToken: false)
        #expect(world.fold(World.accepted()).results == [.revocation(.superseded)])
    }

    /// From siwatch's first look, however far ahead the backend has dated it, and from no later look.
    @Test func aRequestThatIsDatedAheadCountsFromTheFirstLook() {
        let far = World.now.advanced(by: .seconds(3600))
        let look = World.now.advanced(by: SettlementRules.longestLead)
        #expect(Self.effectiveAt(World(("app", 1)), World.request(at: far)) == look)
        #expect(Self.effectiveAt(World(("app", 1)), World.request(at: World.asked)) == World.asked)
        var seen = World.request(at: far)
        seen.effectiveAt = World.asked
        #expect(Self.effectiveAt(World(("app", 1)), seen) == World.asked)
        // A clock that is ahead has dated the sign-in, too.
        var world = World(("app", 1))
        world.signIn("web", at: far.advanced(by: .seconds(-60)))
        #expect(Self.effectiveAt(world, World.request(at: far)) == far.advanced(by: .milliseconds(1 - 60_000)))
        #expect(Self.effectiveAt(world, World.request(at: far.advanced(by: .seconds(-60)))) == far.advanced(by: .seconds(-60)))
    }

    private static func effectiveAt(_ world: World, _ request: ClaimedRevocationRequest) -> Timestamp? {
        if case .revocation(.open(let work, _, _)) = world.fold(World.accepted(request)).queueRows.last { work.effectiveAt } else { nil }
    }

    /// The waiting sign-in may bring an old token, or siwatch may reject it. Then the request must not be lost.
    @Test(arguments: ["app", "web"]) func aNewerSignInThatWaitsSupersedesNothing(_ client: String) {
        var world = World(("app", 1))
        let later = World.asked.advanced(by: .milliseconds(1))
        world.waiting = [WaitingGrant(id: 9, clientID: client, grantedAt: later, isOnItsWay: false)]
        #expect(Self.wait(world.fold(World.accepted())) == .seconds(1))
        for wait in [Duration.minutes(6), .hours(24 * 7)] {
            let now = World.asked.advanced(by: wait)
            let changes = world.fold(World.accepted(), at: now)
            #expect(changes.results == [.postponed] && Self.opened(changes).isEmpty)
            #expect(Self.wait(changes, at: now) == .seconds(60), "seldom")
        }
        world.waiting = []
        #expect(Self.opened(world.fold(World.accepted())) == ["app 1"], "it was none")
    }

    /// siwatch looks at the sign-in and puts it off in the transaction in which it opens the request.
    @Test func aSignInThatIsPutOffInTheSameBatchIsWaitedFor() {
        var world = World(("app", 1))
        let ahead = World.now.advanced(by: .hours(2))
        world.waiting = [WaitingGrant(id: 9, clientID: "web", grantedAt: ahead, isOnItsWay: true)]
        let web = CredentialID(clientID: "web", userID: World.user.userID)
        let content = ClaimedGrant.Content(credential: web, refreshToken: nil, address: nil)
        let early = ClaimedGrant(id: 9, claim: .mine, grantedAt: ahead, content: content)
        let changes = world.fold(.grant(early, .inFuture(due: ahead, lookedAt: World.now)), World.accepted())
        #expect(changes.results == [.postponed, .postponed] && Self.opened(changes).isEmpty)
    }

    /// Apple may refuse a newer code. Until then siwatch neither revokes nor closes the request, however long that takes.
    @Test(arguments: ["app", "web"], [-1, 1]) func aCodeIsWaitedFor(_ client: String, _ milliseconds: Int) {
        var world = World(("app", 1))
        let signedInAt = World.asked.advanced(by: .milliseconds(milliseconds))
        world.waiting = [WaitingGrant(id: 9, clientID: client, grantedAt: signedInAt, bringsCode: true, isOnItsWay: false)]
        let waits: [(now: Timestamp, wait: Duration)] = [(World.now, .seconds(1)), (World.asked.advanced(by: .hours(1)), .seconds(60))]
        for (now, wait) in waits {
            let changes = world.fold(World.accepted(), at: now)
            #expect(changes.results == [.postponed] && Self.opened(changes).isEmpty)
            #expect(Self.wait(changes, at: now) == wait)
        }
        world.waiting = []
        #expect(Self.opened(world.fold(World.accepted())) == ["app 1"])
    }

    /// A request names the sign-in of the same time.
    @Test func aSignInOfTheSameTimeDoesNot() {
        var world = World()
        world.signIn(at: World.asked)
        #expect(Self.opened(world.fold(World.accepted())) == ["app 1"])
    }

    @Test func anOlderSignInThatWaitsIsWaitedFor() {
        var world = World(("app", 1))
        world.waiting = [WaitingGrant(id: 9, clientID: "web", grantedAt: World.start, isOnItsWay: false)]
        #expect(Self.wait(world.fold(World.accepted())) == .seconds(1))
        let end = World.asked.advanced(by: .minutes(6))
        let last = end.advanced(by: .milliseconds(-1))
        #expect(Self.wait(world.fold(World.accepted(), at: last), at: last) == .seconds(1))
        #expect(Self.opened(world.fold(World.accepted(), at: end)) == ["app 1"], "six minutes at most")
        // A daemon that was down takes the sign-ins that came meanwhile first.
        world.startedAt = end
        #expect(Self.wait(world.fold(World.accepted(), at: end), at: end) == .seconds(60))
        world.startedAt = World.start
        world.waiting = [WaitingGrant(id: 9, clientID: "web", grantedAt: World.start, isOnItsWay: true)]
        #expect(Self.wait(world.fold(World.accepted(), at: end), at: end) == .seconds(60), "it has not come to its turn")
    }

    /// A later sign-in brought a truncated token. siwatch revokes the good one before it, too.
    @Test func aDisplacedTokenIsRevokedToo() throws {
        var world = World(("app", 1))
        world.signIn(at: World.start.advanced(by: .minutes(10)), fingerprint: 2, isAccepted: false)
        let changes = world.fold(World.accepted())
        #expect(Self.opened(changes) == ["app 2", "app 1"])
        guard case .revocation(.open(_, _, let tokens)) = changes.queueRows.first else { return }
        #expect(tokens.map(\.standing) == [.neverAccepted, .acceptedBefore])
        // Once Apple has accepted the newer token, siwatch no longer needs the older.
        world.signIn(at: World.start.advanced(by: .minutes(20)), fingerprint: 3)
        #expect(Self.opened(world.fold(World.accepted())) == ["app 3"])
    }

    @Test func aSignInOfTheSameBatchIsOneThatIsKnown() {
        var world = World()
        world.waiting = [WaitingGrant(id: 9, clientID: "app", grantedAt: World.start, isOnItsWay: false)]
        let grant = Grant(grantedAt: World.start, token: RefreshToken(at: World.start, fingerprint: 7))
        let changes = world.fold(.signIn(grant, row: 9), World.accepted())
        #expect(changes.results == [.grant(.applied, nil), .postponed])
        #expect(Self.opened(changes) == ["app 7"])
    }

    /// One proof is enough. The second request waits for the first, in the same batch too.
    @Test func askedForTwiceIsAskedOnce() {
        var world = World(("app", 1))
        let changes = world.fold(World.accepted(), World.accepted(World.request(id: 2)))
        #expect(changes.results == [.postponed, .postponed] && Self.opened(changes) == ["app 1"])
        #expect(Self.wait(changes, of: 2) == .seconds(30))
        world.beingRevoked = [RefreshToken.Key(grantedAt: World.start, fingerprint: [1]): World.asked]
        #expect(Self.wait(world.fold(World.accepted())) == .seconds(30))
    }

    @Test func aLostClaimOnARequestSettlesNothing() {
        let world = World(("app", 1))
        let stale = World.request(claim: Claim(owner: "me", attempts: 2))
        #expect(world.fold(World.accepted(stale)).results == [.superseded])
        #expect(world.fold(World.accepted(), World.accepted()).results == [.postponed, .superseded])
    }

    @Test(arguments: RevocationRejection.allCases) func aRejectedRequestRevokesNothing(_ reason: RevocationRejection) {
        let changes = World(("app", 1)).fold(.revocationRequest(World.request(), .rejected(reason)))
        #expect(changes.results == [.revocation(.rejected, reason)] && changes.users.isEmpty)
        let isClosed = if case .revocation(.close(_, .rejected, reason)) = changes.queueRows.first { true } else { false }
        #expect(isClosed, "\(changes.queueRows)")
    }
}
