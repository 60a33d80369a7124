// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite struct SettlementFoldTests {
    private static let now = FoldTables.start.advanced(by: .seconds(600))
    private static let ann = AppUserID(app: "example", userID: "ann")

    private static func due(_ tables: FoldTables, _ user: String = "ann") throws -> DueCredential {
        let id = CredentialID(clientID: "app", userID: user)
        let token = try #require(tables.record(id)?.credential.token)
        return DueCredential(id: id, app: "example", claim: .mine, token: token.key, sealed: try #require(token.sealed))
    }

    private static func tables(_ users: String...) -> FoldTables {
        var tables = FoldTables()
        for user in users {
            var record = CredentialRecord()
            let grant = Grant(grantedAt: FoldTables.start, token: RefreshToken(at: FoldTables.start))
            _ = record.take(grant, of: CredentialID(clientID: "app", userID: user), under: FoldTables.rules.policy, at: FoldTables.start)
            let id = AppUserID(app: "example", userID: user)
            tables.users[id] = [("app", record)]
            tables.claim(id)
        }
        return tables
    }

    private static func rejected(at time: Timestamp = now, keyID: String = "KEY") -> RefreshVerdict {
        .rejected(PendingRejection(requestedAt: time, answeredAt: time, keyID: keyID), isProven: true)
    }

    @Test func whatIsSettledTwiceInABatchCountsOnce() throws {
        var tables = Self.tables("ann")
        let due = try Self.due(tables)
        let valid = Settlement.refresh(due, .valid(requestedAt: Self.now, answeredAt: Self.now))
        let changes = tables.settle([valid, valid], at: Self.now)
        #expect(changes.results == [.refreshed, .superseded])
        #expect(changes.checks == (2, 0))
        #expect(tables.record(due.id)?.credential.verifiedAt == Self.now)
    }

    // MARK: Another team, and tokens that were never accepted

    /// Apple's answer about a user's token to a team.
    private static func verdict(
        _ answer: RefreshAnswer.Verdict,
        _ user: String = "ann",
        team: String,
        of tables: inout FoldTables,
        at now: Timestamp
    ) throws -> SettlementChanges {
        tables.claim(AppUserID(app: "example", userID: user))
        var due = try due(tables, user)
        due.teamID = team
        let valid = RefreshVerdict.valid(requestedAt: now, answeredAt: now)
        let verdict = answer == .valid ? valid : rejected(at: now, keyID: "KEY of \(team)")
        return tables.settle([.refresh(due, verdict)], at: now)
    }

    /// The app has moved to a new team. Apple's rejections of the old team's tokens to the new team are no facts, however many there are.
    @Test func aRejectionToAnotherTeamIsNoFact() throws {
        let users = ["ann", "bob", "cal", "dan", "eve"]
        var tables = Self.tables("ann", "bob", "cal", "dan", "eve", "new", "canary")
        let policy = FoldTables.rules.policy
        var now = Self.now
        for user in users + ["canary"] { _ = try Self.verdict(.valid, user, team: "OLD", of: &tables, at: now) }
        for day in 1...5 {
            now = now.advanced(by: policy.repetition)
            _ = try Self.verdict(.valid, "new", team: "NEW", of: &tables, at: now)
            for user in users + ["canary"] {
                let changes = try Self.verdict(.rejected, user, team: "NEW", of: &tables, at: now.advanced(by: .seconds(60)))
                #expect(changes.results == [.held] && changes.openedApps.isEmpty)
            }
            let breaker = tables.breakers["example", default: RejectionBreaker()]
            #expect(!breaker.isOpen && breaker.judged.rejections == 0)
            let record = try #require(tables.record(.ann))
            #expect(record.pending == nil && record.answer == .rejected && record.credential.verifiedTeam == "OLD")
            #expect(record.dueAt == policy.nextCheck(afterAnswerAt: now.advanced(by: .seconds(60)), of: .ann))
            #expect(record.isUnverified == (day > 2), "its user shows as unverified in time")
        }
        // An operator corrects the wrong line.
        _ = try Self.verdict(.rejected, team: "OLD", of: &tables, at: now.advanced(by: .seconds(120)))
        #expect(tables.record(.ann)?.pending?.keyID == "KEY of OLD")
    }

    /// siwatch drops the pending rejection, because Apple gave its repetition to another team.
    @Test func aRejectionToAnotherTeamRepeatsNone() throws {
        var tables = Self.tables("ann", "bob")
        for user in ["ann", "bob"] { _ = try Self.verdict(.valid, user, team: "OLD", of: &tables, at: Self.now) }
        let day = FoldTables.rules.policy.repetition
        _ = try Self.verdict(.rejected, team: "OLD", of: &tables, at: Self.now.advanced(by: day))
        #expect(tables.record(.ann)?.pending != nil)
        let changes = try Self.verdict(.rejected, team: "NEW", of: &tables, at: Self.now.advanced(by: day * 2))
        #expect(changes.tallies["example"]?.pending == -1)
        #expect(tables.record(.ann)?.pending == nil)
    }

    @Test func theTeamIsThatOfTheNewest200() throws {
        var tables = Self.tables("ann")
        var team: String? { tables.record(.ann)?.credential.verifiedTeam }
        _ = try Self.verdict(.valid, team: "ONE", of: &tables, at: Self.now)
        #expect(team == "ONE")
        _ = try Self.verdict(.valid, team: "TWO", of: &tables, at: Self.now.advanced(by: .seconds(1)))
        #expect(team == "TWO", "Apple may accept a token from both for a while")
        _ = try Self.verdict(.valid, team: "ONE", of: &tables, at: Self.now)
        #expect(team == "TWO", "an older answer")
    }

    /// An import of invalid tokens must not delay the rejection of any other.
    @Test func theBreakerJudgesTokensThatWereAcceptedOnce() throws {
        let garbage = ["a", "b", "c", "d", "e", "f"]
        var tables = Self.tables("a", "b", "c", "d", "e", "f", "ann", "bob", "cal")
        var now = Self.now
        for user in ["ann", "bob", "cal"] { _ = try Self.verdict(.valid, user, team: "TEAM", of: &tables, at: now) }
        _ = try Self.verdict(.rejected, "ann", team: "TEAM", of: &tables, at: now.advanced(by: .seconds(1)))
        for user in garbage { _ = try Self.verdict(.rejected, user, team: "TEAM", of: &tables, at: now.advanced(by: .seconds(2))) }
        #expect(tables.breakers["example"]?.judged.answers == 1 && tables.breakers["example"]?.isOpen == false)
        #expect(tables.record(.ann)?.pending != nil)
        now = now.advanced(by: .seconds(10))
        for user in ["bob", "cal"] { _ = try Self.verdict(.rejected, user, team: "TEAM", of: &tables, at: now) }
        #expect(tables.breakers["example"]?.isOpen == true, "three good tokens, of three answers")
    }

    @Test func openingTakesBackWhatWaitsInTheSameBatch() throws {
        var tables = Self.tables("ann", "bob")
        let (ann, bob) = (try Self.due(tables), try Self.due(tables, "bob"))
        let blamed = Settlement.refresh(bob, .failed(.misconfigured, at: Self.now))
        let changes = tables.settle([.refresh(ann, Self.rejected()), blamed], at: Self.now)
        #expect(changes.results == [.refreshed, .refreshed])
        #expect(changes.openedApps == ["example"])
        let record = try #require(tables.record(ann.id))
        #expect(record.pending == nil)
        #expect(record.dueAt == Self.now.advanced(by: FoldTables.rules.policy.interval))
        #expect(changes.tallies["example", default: UserRecord.Tally()].pending == 0)
    }

    /// The clock was days ahead when Apple rejected the token, and an operator has set it back.
    @Test func aRejectionDoesNotWaitOnAnAnswerFromTheFuture() throws {
        var tables = Self.tables("ann")
        let future = FoldTables.start.advanced(by: .seconds(5 * 86_400))
        tables.users[Self.ann]![0].record.answeredAt = future
        tables.users[Self.ann]![0].record.pending = PendingRejection(requestedAt: future, answeredAt: future, keyID: "KEY")
        let due = try Self.due(tables)
        #expect(tables.settle([.refresh(due, .failed(.unavailable, at: Self.now))], at: Self.now).results == [.refreshed])
        let record = try #require(tables.record(due.id))
        #expect(record.answeredAt == nil && record.pending == nil && record.failures == 1)
    }

    /// If Apple names no user, another person's token looks as good as one's own.
    @Test func aTokenIsSomebodysOnlyOnceApplePutANameToIt() throws {
        var tables = Self.tables("ann")
        let nameless = RefreshVerdict.unnamed(requestedAt: Self.now, answeredAt: Self.now)
        var due = try Self.due(tables)
        #expect(tables.settle([.refresh(due, nameless)], at: Self.now).results == [.refreshed])
        var record = try #require(tables.record(due.id))
        #expect(record.credential.verifiedAt == nil && record.answer == .unclear && record.answeredAt == Self.now)

        let named = Self.now.advanced(by: .days(1))
        tables.claim(Self.ann)
        due = try Self.due(tables)
        _ = tables.settle([.refresh(due, .valid(requestedAt: named, answeredAt: named))], at: named)
        let later = named.advanced(by: .days(1))
        tables.claim(Self.ann)
        due = try Self.due(tables)
        _ = tables.settle([.refresh(due, .unnamed(requestedAt: later, answeredAt: later))], at: later)
        record = try #require(tables.record(due.id))
        #expect(record.credential.verifiedAt == later && record.answer == .valid, "a name was put to it before")
    }

    /// A nightly job that reports all tokens again, dated now, undoes nothing.
    @Test func aTokenThatIsToldAgainIsNoSignIn() throws {
        var tables = Self.tables("ann")
        let token = try #require(tables.users[Self.ann]?[0].record.credential.token)
        var registers = AppUser()
        registers.apply(Event(.consentRevoked, at: FoldTables.start.advanced(by: .seconds(60))))
        tables.registers[Self.ann] = registers
        let before = tables.users[Self.ann]![0].record.credential.grantedAt
        let now = FoldTables.start.advanced(by: .days(1))
        func tell(_ fingerprint: [UInt8], at time: Timestamp, address: EmailAddress? = nil) -> Settled? {
            tables.grants[7] = WaitingGrant(id: 7, clientID: "app", grantedAt: time, isOnItsWay: false)
            let told = RefreshToken(key: RefreshToken.Key(grantedAt: time, fingerprint: fingerprint), sealed: SealedToken(bytes: [9]))
            return tables.settle([.signIn(Grant(grantedAt: time, token: told, address: address), row: 7)], at: now).results.first
        }
        #expect(tell(token.key.fingerprint, at: now, address: EmailAddress("new@example.com")) == .grant(.retold, nil))
        var credential = try #require(tables.users[Self.ann]?[0].record.credential)
        #expect(credential.grantedAt == before && credential.standing(under: registers).reason == .consentRevoked)
        #expect(tables.registers[Self.ann]?.mailbox == nil)
        #expect(tell(token.key.fingerprint, at: token.key.grantedAt) == .grant(.duplicate, nil))
        // siwatch remembers the tokens of a user's other devices, too.
        #expect(tell([98], at: now.advanced(by: .seconds(-2))) == .grant(.applied, nil))
        #expect(tell([97], at: now.advanced(by: .seconds(-3))) == .grant(.stale, nil), "it comes late")
        #expect(tell([99], at: now) == .grant(.applied, nil))
        for known in [token.key.fingerprint, [98], [97]] { #expect(tell(known, at: now.advanced(by: .seconds(1))) == .grant(.retold, nil)) }
        credential = try #require(tables.users[Self.ann]?[0].record.credential)
        #expect(credential.grantedAt == now && credential.token?.key.fingerprint == [99])
    }

    /// Two spellings of one character are two users. A waiting sign-in of one says nothing about the other.
    @Test func signInsThatWaitAreThoseOfTheUserByBytes() {
        var tables = FoldTables()
        let users = ["\u{e9}", "e\u{301}"]
        tables.grants[1] = WaitingGrant(id: 1, clientID: "app", grantedAt: FoldTables.start, isOnItsWay: false)
        tables.grantUsers[1] = users[1]
        tables.notifications = [1, 2]
        let settlements = users.enumerated().map { index, user in
            Settlement.event(.consentRevoked, row: Int64(index + 1), of: user, at: FoldTables.start)
        }
        #expect(tables.settle(settlements, at: FoldTables.start).results == [.notification(.applied), .postponed])
    }

    /// An unreadable breaker may have been open. siwatch opens it and writes that down.
    @Test func aBreakerThatCannotBeReadIsOpen() throws {
        let tables = Self.tables("ann")
        let due = try Self.due(tables)
        let settlement = Settlement.refresh(due, Self.rejected())
        var basis = SettlementBasis()
        basis.users[Self.ann] = UserRecord(Self.ann, stored: nil, credentials: tables.users[Self.ann]!)
        basis.breakers["example"] = .unread
        let changes = SettlementFold.fold([settlement], over: basis, apps: FoldTables.apps, under: FoldTables.rules, at: Self.now)
        #expect(changes.results == [.held])
        #expect(changes.breakers["example"]?.openedAt == Self.now)
    }

    @Test func aScopeNamesEveryUserOnce() {
        let clients: [(String, Event.Kind)] = [("app", .consentRevoked), ("web", .unknown), ("nobody's", .unknown)]
        let settlements = clients.map { Settlement.event($1, at: FoldTables.start, client: $0) }
        let scope = SettlementScope(of: settlements, apps: FoldTables.apps, under: FoldTables.rules)
        #expect(scope.users == [Self.ann])
        #expect(scope.signingIn == [Self.ann])
        #expect(scope.notifications.count == 3)
        #expect(scope.judgedApps.isEmpty && scope.rejectedClients.isEmpty && scope.heardClients.isEmpty)
    }
}
