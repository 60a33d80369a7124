// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import CredentialCore

@Suite struct SettlementFoldCodeTests {
    private static let start = Timestamp(seconds: 1_750_000_000)
    private static let now = start.advanced(by: .seconds(2))
    private static let user = AppUserID(app: "example", userID: "ann")
    private static let rules = SettlementRules(policy: RefreshPolicy(), pollInterval: .seconds(1), startedAt: start)

    private static func code(
        id: Int64 = 1,
        claim: Claim = .mine,
        failures: Int = 0,
        isAnswerLost: Bool = false,
        detail: String? = nil,
        grantedAt: Timestamp = start,
        firstClaimedAt: Timestamp = start
    ) -> ClaimedCode {
        ClaimedCode(
            id: id,
            claim: claim,
            app: "example",
            grantedAt: grantedAt,
            firstClaimedAt: firstClaimedAt,
            failures: failures,
            isAnswerLost: isAnswerLost,
            detail: detail,
            content: ClaimedCode.Content(clientID: "app", code: Secret("c"))
        )
    }

    private static func exchanged(grantedAt: Timestamp = start) -> CodeVerdict {
        .exchanged(Grant(grantedAt: grantedAt, token: RefreshToken(at: grantedAt)), .ann, requestedAt: now, answeredAt: now)
    }

    private static func fold(
        _ verdicts: CodeVerdict...,
        of work: ClaimedCode = code(),
        record: CredentialRecord? = nil,
        breaker: RejectionBreaker? = nil,
        client: ClientRecord? = nil,
        heldAs claim: Claim? = nil,
        at now: Timestamp = now
    ) -> SettlementChanges {
        var work = work
        work.teamID = "TEAM"
        let settlements = verdicts.map { Settlement.code(work, $0) }
        let scope = SettlementScope(of: settlements, apps: ["app": "example"], under: rules)
        var basis = SettlementBasis()
        basis.heldGrants[work.id] = claim ?? work.claim
        for known in scope.heardClients { basis.clients[known] = client }
        for id in scope.users { basis.users[id] = UserRecord(id, stored: nil, credentials: record.map { [("app", $0)] } ?? []) }
        for app in scope.judgedApps { basis.breakers[app] = breaker }
        return SettlementFold.fold(settlements, over: basis, apps: ["app": "example"], under: rules, at: now)
    }

    private static func record(_ changes: SettlementChanges) -> CredentialRecord? { changes.users.first { $0.id == user }?["app"] }

    private static func entries(_ changes: SettlementChanges) -> [GrantLogEntry] {
        changes.queueRows.compactMap { if case .logGrant(let entry) = $0 { entry } else { nil } }
    }

    private static func postponed(_ changes: SettlementChanges) -> (until: Timestamp, failures: Int, isAnswerLost: Bool)? {
        guard case .postponeCode(let work, let until) = changes.queueRows.first, work.id == 1 else { return nil }
        return (until, work.failures, work.isAnswerLost)
    }

    // MARK: Exchanged

    /// The 200 to the code was the first check, so that no early check follows.
    @Test func aTokenThatAppleHasJustIssuedIsVerified() throws {
        let changes = Self.fold(Self.exchanged())
        #expect(changes.results == [.grant(.applied, nil)])
        #expect(changes.announcements.map(\.source) == [.grant])
        #expect(changes.replenished == ["example"] && changes.validAt == ["app": Self.now])
        #expect(changes.provedAt.isEmpty, "a code proves nothing of refreshes")
        let record = try #require(Self.record(changes))
        #expect(record.credential.verifiedTeam == "TEAM")
        #expect(record.credential.verifiedAt == Self.now && record.credential.grantedAt == Self.start)
        #expect(record.answer == .valid && record.answeredAt == Self.now && record.firstCheck == nil)
        #expect(record.dueAt == Self.rules.policy.nextCheck(afterAnswerAt: Self.now, of: .ann))
        let entry = try #require(Self.entries(changes).first)
        #expect(entry.userID == "ann" && entry.hasSecret, "the code stood in the row")
    }

    @Test func aSignInWithoutATokenHasNothingToCheck() throws {
        let changes = Self.fold(.exchanged(Grant(grantedAt: Self.start), .ann, requestedAt: Self.now, answeredAt: Self.now))
        #expect(changes.results == [.grant(.applied, nil)])
        #expect(try #require(Self.record(changes)).dueAt == nil && changes.replenished.isEmpty)
    }

    @Test func whatIsOlderThanWhatIsKnownIsStale() throws {
        var record = CredentialRecord()
        let later = Self.start.advanced(by: .seconds(1))
        let grant = Grant(grantedAt: later, token: RefreshToken(at: later, fingerprint: 2))
        _ = record.take(grant, of: .ann, under: Self.rules.policy, at: later)
        let changes = Self.fold(Self.exchanged(), record: record)
        #expect(changes.results == [.grant(.stale, nil)])
        #expect(Self.record(changes)?.credential.token?.key.fingerprint == [2])
        #expect(Self.record(changes)?.credential.verifiedAt == nil, "of another token nothing was said")
        #expect(Self.record(changes)?.firstCheck == .signIn)
    }

    @Test func whatIsSettledTwiceCountsOnce() {
        #expect(Self.fold(Self.exchanged(), Self.exchanged()).results == [.grant(.applied, nil), .superseded])
        #expect(Self.fold(Self.exchanged(), heldAs: Claim(owner: "me", attempts: 2)).results == [.superseded])
        #expect(Self.fold(Self.exchanged(), heldAs: Claim(owner: "other", attempts: 1)).queueRows.isEmpty)
        #expect(Self.fold(.failed(at: Self.now, isAnswerLost: false), .rejected(.codeUsed)).results == [.postponed, .superseded])
    }

    /// It was no check, so the breaker does not count it. It still tells that Apple no longer blames the client.
    @Test func theBreakerHearsOfTheClientAlone() throws {
        var breaker = RejectionBreaker()
        breaker.judge(.blamed, of: RejectionBreaker.Subject(.ann), under: Self.rules.breaker, at: Self.start)
        #expect(breaker.isOpen)
        let changes = Self.fold(Self.exchanged(), breaker: breaker)
        let after = try #require(changes.breakers["example"])
        #expect(after == RejectionBreaker(), "as if nothing had ever been counted")
        #expect(Self.fold(Self.exchanged()).breakers.isEmpty, "nothing to write")
    }

    @Test(arguments: GrantRejection.allCases) func aRefusalSaysNothingOfACredential(_ reason: GrantRejection) throws {
        let changes = Self.fold(.rejected(reason, detail: "words"))
        #expect(changes.results == [.grant(.rejected, reason)])
        #expect(changes.users.isEmpty && changes.announcements.isEmpty && changes.breakers.isEmpty && changes.validAt.isEmpty)
        let entry = try #require(Self.entries(changes).first)
        #expect(entry.reason == reason && entry.detail == "words" && entry.hasSecret)
    }

    // MARK: Late, and what Apple says of the client

    private static let refusal = ClientRefusal(since: start, at: start, word: "invalid_client: bad key")

    @Test func aLateCodeHasExpired() throws {
        let changes = Self.fold(.late)
        #expect(changes.results == [.grant(.rejected, .codeExpired)])
        let entry = try #require(Self.entries(changes).first)
        #expect(entry.detail == nil && entry.hasSecret)
        #expect(Self.entries(Self.fold(.late, of: Self.code(detail: "status 503"))).first?.detail == "status 503")
    }

    /// A code that was never sent does not ask the backend to insert codes sooner.
    @Test(arguments: [
        (nil as String?, GrantRejection.invalidClient, "invalid_client: bad key"), ("status 503", .codeExpired, "status 503"),
        ("invalid_scope", .invalidClient, "invalid_scope"),
    ])
    func aLateCodeOfAClientThatAppleRefusesEndsAsThat(_ known: String?, _ reason: GrantRejection, _ detail: String?) throws {
        let work = Self.code(detail: known)
        let changes = Self.fold(.late, of: work, client: ClientRecord(refusal: Self.refusal))
        #expect(changes.results == [.grant(.rejected, reason)])
        #expect(try #require(Self.entries(changes).first).detail == detail)
        #expect(changes.refusals.isEmpty && changes.validAt.isEmpty, "nobody was asked")
    }

    /// siwatch stood still, and Apple's last refusal of the client is long ago. Within an hour a difference of the clocks may be the cause,
    /// because it alone makes Apple refuse.
    @Test(arguments: [(-3_599, GrantRejection.invalidClient), (-3_601, .codeExpired)])
    func aRefusalFromLongBeforeACodeSaysNothingOfIt(_ seconds: Int, _ reason: GrantRejection) {
        let refusal = ClientRefusal(since: Self.start, at: Self.start.advanced(by: .seconds(seconds)), word: "invalid_client")
        #expect(Self.fold(.late, client: ClientRecord(refusal: refusal)).results == [.grant(.rejected, reason)])
    }

    @Test func aLateCodeThatMayHaveBeenSentIsLost() {
        for work in [Self.code(isAnswerLost: true), Self.code(claim: Claim(owner: "me", attempts: 2))] {
            let changes = Self.fold(.late, of: work, client: ClientRecord(refusal: Self.refusal))
            #expect(changes.results == [.grant(.rejected, .answerLost)])
        }
    }

    /// Apple never judged the code, although it accepts the client by now.
    @Test func aLateCodeWithApplesWordEndsAsThat() {
        let changes = Self.fold(.late, of: Self.code(detail: "invalid_client"), client: ClientRecord(validAt: Self.now))
        #expect(changes.results == [.grant(.rejected, .invalidClient)])
    }

    @Test func aRefusalOfTheSameBatchCounts() {
        var first = Self.code()
        first.clientAnswer = .refused(word: "invalid_client", at: Self.now)
        var basis = SettlementBasis()
        basis.heldGrants = [1: .mine, 2: .mine]
        let failure = CodeVerdict.failed(at: Self.now, isAnswerLost: false, detail: "invalid_client")
        let codes: [Settlement] = [.code(first, failure), .code(Self.code(id: 2), .late)]
        let changes = SettlementFold.fold(codes, over: basis, apps: ["app": "example"], under: Self.rules, at: Self.now)
        #expect(changes.results == [.postponed, .grant(.rejected, .invalidClient)])
        let refusal = ClientRefusal(since: Self.now, at: Self.now, word: "invalid_client")
        #expect(changes.refusals == ["app": refusal])
        #expect(Self.entries(changes).map(\.detail) == ["invalid_client"])
    }

    /// With any outcome of the code.
    @Test func a200EndsTheRefusal() {
        var work = Self.code()
        work.clientAnswer = .accepted(at: Self.now)
        let nobody: [String: ClientRefusal?] = ["app": nil]
        for verdict in [Self.exchanged(), .rejected(.badIDToken), .rejected(.userMismatch)] {
            let changes = Self.fold(verdict, of: work, client: ClientRecord(refusal: Self.refusal))
            #expect(changes.refusals == nobody && changes.validAt == ["app": Self.now])
        }
        #expect(Self.fold(Self.exchanged(), client: ClientRecord(refusal: Self.refusal)).refusals == nobody)
        let (refused, other) = (ClientRecord(refusal: Self.refusal), Claim(owner: "other", attempts: 1))
        let lost = Self.fold(.rejected(.userMismatch), of: work, client: refused, heldAs: other)
        #expect(lost.refusals.isEmpty && lost.validAt.isEmpty)
    }

    // MARK: Tried again

    @Test(arguments: [(0, 500), (1, 1000), (2, 2000), (3, 5000), (4, 5000), (1000, 5000)])
    func isTriedAgainEverLater(_ failures: Int, _ milliseconds: Int) throws {
        let changes = Self.fold(.failed(at: Self.now, isAnswerLost: false), of: Self.code(failures: failures))
        #expect(changes.results == [.postponed])
        let wait = try #require(Self.postponed(changes))
        #expect(wait == (Self.now.advanced(by: .milliseconds(milliseconds)), failures + 1, false))
    }

    @Test func isNotTriedBeyondItsDeadline() throws {
        let now = Self.start.advanced(by: .minutes(5)).advanced(by: .milliseconds(-100))
        let changes = Self.fold(.failed(at: now, isAnswerLost: false), of: Self.code(failures: 9), at: now)
        #expect(try #require(Self.postponed(changes)).until == Self.start.advanced(by: .minutes(5)))
    }

    @Test func whatMayBeLostStaysSo() throws {
        #expect(try #require(Self.postponed(Self.fold(.failed(at: Self.now, isAnswerLost: true)))).isAnswerLost)
        let lost = Self.code(isAnswerLost: true)
        #expect(try #require(Self.postponed(Self.fold(.failed(at: Self.now, isAnswerLost: false), of: lost))).isAnswerLost)
        #expect(try #require(Self.postponed(Self.fold(.unknownClient, of: lost))).isAnswerLost)
    }

    @Test func anUnknownClientIsWaitedForAsLongAsTheCodeLives() throws {
        let wait = try #require(Self.postponed(Self.fold(.unknownClient, of: Self.code(failures: 2))))
        #expect(wait == (Self.start.advanced(by: .minutes(5)), 2, false))
    }

    /// By a clock that is an hour ahead, the code is old on arrival. siwatch tries it for five minutes, with pauses.
    @Test(arguments: [CodeVerdict.failed(at: now, isAnswerLost: false), .unknownClient])
    func aClockThatIsAheadMakesNobodyHurry(_ verdict: CodeVerdict) throws {
        let work = Self.code(grantedAt: Self.start.advanced(by: .hours(-1)))
        let until = try #require(Self.postponed(Self.fold(verdict, of: work))).until
        #expect(until > Self.now && until <= Self.start.advanced(by: .minutes(5)))
    }

    @Test func aCodeFromTheFutureLivesFromItsFirstClaim() {
        let work = Self.code(grantedAt: Self.start.advanced(by: .hours(1)))
        #expect(work.deadline == Self.start.advanced(by: .minutes(5)))
    }
}
