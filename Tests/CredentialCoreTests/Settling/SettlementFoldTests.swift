// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Foundation
import Testing

@Suite struct SettlementFoldTests {
    private static let apps = ["app": "example", "web": "example", "elsewhere": "other"]
    private static let start = Timestamp(seconds: 1_700_000_000)
    private static let now = start.advanced(by: .seconds(600))
    private static let ann = AppUserID(app: "example", userID: "ann")
    private static let rules = SettlementRules(
        policy: RefreshPolicy(),
        pollInterval: .seconds(1),
        startedAt: start,
        breaker: BreakerRules(window: 8, maxRejections: 2, maxRejectedPercent: 30),
        canaries: ["example": ["canary"]]
    )

    /// The simplest store: it returns the rows that were written.
    private struct Tables {
        var users: [AppUserID: [(clientID: String, record: CredentialRecord)]] = [:]
        var registers: [AppUserID: AppUser] = [:]
        var breakers: [String: RejectionBreaker] = [:]
        var provedAt: [String: Timestamp] = [:]
        var clients: [String: ClientRecord] = [:]
        var notifications: Set<Int64> = []
        var grants: [Int64: WaitingGrant] = [:]
        var grantUsers: [Int64: String] = [:]

        mutating func settle(_ settlements: [Settlement], at now: Timestamp) -> SettlementChanges {
            let scope = SettlementScope(of: settlements, apps: apps, under: rules)
            var basis = SettlementBasis()
            for id in scope.users { basis.users[id] = UserRecord(id, stored: registers[id], credentials: users[id] ?? []) }
            for (id, claim) in scope.notifications where notifications.contains(id) { basis.heldNotifications[id] = claim }
            for (id, claim) in scope.grants where grants[id] != nil { basis.heldGrants[id] = claim }
            for id in scope.signingIn {
                basis.waitingGrants[id] = grants.values.filter {
                    AppUserID(app: apps[$0.clientID] ?? "", userID: grantUsers[$0.id] ?? "") == id
                }
            }
            for app in scope.judgedApps { basis.breakers[app] = breakers[app] }
            for client in scope.rejectedClients { basis.provedAt[client] = provedAt[client] }
            for client in scope.heardClients { basis.clients[client] = clients[client] }
            let changes = SettlementFold.fold(settlements, over: basis, apps: apps, under: rules, at: now)
            write(changes, at: now)
            return changes
        }

        private mutating func write(_ changes: SettlementChanges, at now: Timestamp) {
            for app in changes.openedApps {
                for id in users.keys where id.app == app {
                    for place in users[id]!.indices { users[id]![place].record.forgetRejection(under: rules.policy) }
                }
            }
            for user in changes.users {
                registers[user.id] = user.registers
                users[user.id] = user.holdings.map { ($0.clientID, $0.record) }
            }
            breakers.merge(changes.breakers) { $1 }
            provedAt.merge(changes.provedAt) { max($0, $1) }
            for (client, time) in changes.validAt {
                clients[client, default: ClientRecord()].validAt = latest(clients[client]?.validAt, time)
            }
            for (client, refusal) in changes.refusals { clients[client, default: ClientRecord()].refusal = refusal }
            for row in changes.queueRows {
                switch row {
                case .logNotification(let work, _, _, _, _), .quarantine(let work, _, _): notifications.remove(work.id)
                case .postponeNotification(let id, _): notifications.remove(id)
                case .logGrant(let entry): grants[entry.id] = nil
                case .postponeGrant(let id, let until, _, _): if until > now { grants[id] = nil }
                case .postponeCode, .revocation: break
                }
            }
        }

        func record(_ credential: CredentialID) -> CredentialRecord? {
            users[AppUserID(app: apps[credential.clientID]!, userID: credential.userID)]?.first { $0.clientID == credential.clientID }?
                .record
        }

        mutating func claim(_ user: AppUserID) {
            for place in users[user]!.indices {
                users[user]![place].record.claimedBy = Claim.mine.owner
                users[user]![place].record.attempts = Claim.mine.attempts
            }
        }

        var speakingBreakers: [String: RejectionBreaker] { breakers.filter { $0.value != RejectionBreaker() } }

        var summary: [String] {
            users.flatMap { id, held in held.map { "\(id) \($0.clientID) \($0.record)" } }.sorted()
                + registers.map { "\($0) \($1)" }.sorted() + provedAt.map { "\($0) \($1)" }.sorted()
                + clients.map { "\($0) \($1)" }.sorted()
        }
    }

    // MARK: Any division into batches

    /// Group commit batches settlements by chance, and the result must not depend on it.
    @Test func aBatchIsWhatItsSettlementsAreOneByOne() throws {
        let seed = ProcessInfo.processInfo.environment["FOLD_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0..<1_000_000)
        for seed in seed..<(seed + 300) {
            var traffic = Traffic(seed: seed)
            var (together, apart) = (traffic.tables, traffic.tables)
            for _ in 1...6 {
                let (batch, now) = traffic.batch(after: together)
                together = traffic.arrived(in: together)
                apart = traffic.arrived(in: apart)
                let changes = together.settle(batch, at: now)
                let steps = batch.map { apart.settle([$0], at: now) }
                try #require(changes.results == steps.flatMap(\.results), "FOLD_SEED=\(seed)")
                try #require(changes.announcements == steps.flatMap(\.announcements), "FOLD_SEED=\(seed)")
                try #require(together.summary == apart.summary, "FOLD_SEED=\(seed)")
                try #require(together.speakingBreakers == apart.speakingBreakers, "FOLD_SEED=\(seed)")
                try #require(changes.counts.filter { $0.value != 0 } == Self.sum(steps.map(\.counts)), "FOLD_SEED=\(seed)")
                try #require(changes.openedApps == steps.reduce(into: []) { $0.formUnion($1.openedApps) }, "FOLD_SEED=\(seed)")
            }
        }
    }

    private static func sum(_ counts: [[SettlementChanges.StateOfApp: Int]]) -> [SettlementChanges.StateOfApp: Int] {
        counts.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: +) }.filter { $0.value != 0 }
    }

    /// Random settlements of a few users, with valid and invalid claims.
    private struct Traffic {
        private var generator: SeededGenerator
        private var now = SettlementFoldTests.start
        private var id: Int64 = 0
        private var newNotifications: Set<Int64> = []
        private var newGrants: [Int64: (WaitingGrant, user: String)] = [:]
        let tables = Tables()

        init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

        mutating func batch(after tables: Tables) -> ([Settlement], at: Timestamp) {
            now = now.advanced(by: .seconds(Int.random(in: 1...100_000, using: &generator)))
            let batch = (0..<Int.random(in: 1...8, using: &generator)).map { _ in settlement(tables) }
            return (batch.shuffled(using: &generator), now)
        }

        func arrived(in tables: Tables) -> Tables {
            var tables = tables
            tables.notifications.formUnion(newNotifications)
            for (id, grant) in newGrants {
                tables.grants[id] = grant.0
                tables.grantUsers[id] = grant.user
            }
            // One process claims all of them.
            for user in tables.users.keys { tables.claim(user) }
            return tables
        }

        private mutating func settlement(_ tables: Tables) -> Settlement {
            let credential = CredentialID(
                clientID: ["app", "web", "elsewhere"].randomElement(using: &generator)!,
                userID: ["ann", "bob", "canary"].randomElement(using: &generator)!
            )
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: return notification(of: credential)
            case 1: return grant(of: credential)
            default:
                guard let record = tables.record(credential), let token = record.credential.token, let sealed = token.sealed else {
                    return grant(of: credential)
                }
                let app = SettlementFoldTests.apps[credential.clientID]!
                var work = DueCredential(id: credential, app: app, claim: .mine, token: token.key, sealed: sealed)
                if let pending = record.pending, Bool.random(using: &generator) { return .admission(work, pending) }
                if Int.random(in: 0..<5, using: &generator) == 0 { work.purpose = .canary }
                work.clientAnswer = clientAnswer()
                return .refresh(work, verdict())
            }
        }

        private mutating func notification(of credential: CredentialID) -> Settlement {
            id += 1
            newNotifications.insert(id)
            let work = ClaimedNotification(id: id, claim: .mine, payload: [1], receivedAt: now)
            let kinds: [Event.Kind] = [.consentRevoked, .accountDeleted, .emailDisabled(EmailAddress("a@b")), .unknown]
            let event = Event(kinds.randomElement(using: &generator)!, at: recently())
            let (client, user) = (credential.clientID, credential.userID)
            let verified = VerifiedNotification(clientID: client, userID: user, tokenID: "jti\(id)", type: "type", event: event)
            let verdicts: [NotificationVerdict] = [
                .verified(verified), .verified(verified), .postponed(until: now), .rejected(.expired, detail: ""),
            ]
            return .notification(work, verdicts.randomElement(using: &generator)!)
        }

        private mutating func grant(of credential: CredentialID) -> Settlement {
            id += 1
            let grantedAt = recently()
            let waiting = WaitingGrant(id: id, clientID: credential.clientID, grantedAt: grantedAt, isOnItsWay: false)
            newGrants[id] = (waiting, credential.userID)
            let token = RefreshToken(
                key: RefreshToken.Key(grantedAt: grantedAt, fingerprint: [UInt8.random(in: 0...3, using: &generator)]),
                sealed: SealedToken(bytes: [1])
            )
            let content = ClaimedGrant.Content(credential: credential, refreshToken: nil, address: nil)
            let importID = [Int64?](arrayLiteral: nil, 1, 1, 2).randomElement(using: &generator)!
            let work = ClaimedGrant(id: id, claim: .mine, grantedAt: grantedAt, importID: importID, content: content)
            let grant = Grant(grantedAt: grantedAt, token: Bool.random(using: &generator) ? token : nil)
            let verdicts: [GrantVerdict] = [
                .accepted(grant, credential), .accepted(grant, credential), .accepted(grant, credential),
                .inFuture(due: now, lookedAt: now), .unknownClient(lookedAt: nil), .rejected(.malformed),
            ]
            return .grant(work, verdicts.randomElement(using: &generator)!)
        }

        private mutating func verdict() -> RefreshVerdict {
            let rejection = PendingRejection(requestedAt: recently(), answeredAt: now, keyID: "KEY")
            let verdicts: [RefreshVerdict] = [
                .valid(requestedAt: recently(), answeredAt: now), .valid(requestedAt: now, answeredAt: now),
                .rejected(rejection, isProven: true), .rejected(rejection, isProven: true), .unclear(answeredAt: now),
                .anotherUser(answeredAt: now), .failed(.unavailable, at: now), .failed(.misconfigured, at: now),
            ]
            return verdicts.randomElement(using: &generator)!
        }

        private mutating func clientAnswer() -> ClientAnswer? {
            let answers: [ClientAnswer?] = [nil, .accepted(at: recently()), .refused(word: "invalid_client", at: recently())]
            return answers.randomElement(using: &generator)!
        }

        private mutating func recently() -> Timestamp { now.advanced(by: .seconds(-Int.random(in: 0...100_000, using: &generator))) }
    }

    // MARK: One by one

    private static func due(_ tables: Tables, _ user: String = "ann") throws -> DueCredential {
        let id = CredentialID(clientID: "app", userID: user)
        let token = try #require(tables.record(id)?.credential.token)
        return DueCredential(id: id, app: "example", claim: .mine, token: token.key, sealed: try #require(token.sealed))
    }

    private static func tables(_ users: String...) -> Tables {
        var tables = Tables()
        for user in users {
            var record = CredentialRecord()
            let grant = Grant(grantedAt: start, token: RefreshToken(at: start))
            _ = record.take(grant, of: CredentialID(clientID: "app", userID: user), under: rules.policy, at: start)
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
        of tables: inout Tables,
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
        let policy = Self.rules.policy
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
        let day = Self.rules.policy.repetition
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
        #expect(record.dueAt == Self.now.advanced(by: Self.rules.policy.interval))
        #expect(changes.tallies["example", default: UserRecord.Tally()].pending == 0)
    }

    /// The clock was days ahead when Apple rejected the token, and an operator has set it back.
    @Test func aRejectionDoesNotWaitOnAnAnswerFromTheFuture() throws {
        var tables = Self.tables("ann")
        let future = Self.start.advanced(by: .seconds(5 * 86_400))
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

        func claim() { tables.claim(Self.ann) }
        let named = Self.now.advanced(by: .days(1))
        claim()
        due = try Self.due(tables)
        _ = tables.settle([.refresh(due, .valid(requestedAt: named, answeredAt: named))], at: named)
        let later = named.advanced(by: .days(1))
        claim()
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
        registers.apply(Event(.consentRevoked, at: Self.start.advanced(by: .seconds(60))))
        tables.registers[Self.ann] = registers
        let before = tables.users[Self.ann]![0].record.credential.grantedAt
        let now = Self.start.advanced(by: .days(1))
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
        var tables = Tables()
        let users = ["\u{e9}", "e\u{301}"]
        tables.grants[1] = WaitingGrant(id: 1, clientID: "app", grantedAt: Self.start, isOnItsWay: false)
        tables.grantUsers[1] = users[1]
        tables.notifications = [1, 2]
        let settlements = users.enumerated().map { index, user in
            Settlement.event(.consentRevoked, row: Int64(index + 1), of: user, at: Self.start)
        }
        #expect(tables.settle(settlements, at: Self.start).results == [.notification(.applied), .postponed])
    }

    /// An unreadable breaker may have been open. siwatch opens it and writes that down.
    @Test func aBreakerThatCannotBeReadIsOpen() throws {
        let tables = Self.tables("ann")
        let due = try Self.due(tables)
        let settlement = Settlement.refresh(due, Self.rejected())
        var basis = SettlementBasis()
        basis.users[Self.ann] = UserRecord(Self.ann, stored: nil, credentials: tables.users[Self.ann]!)
        basis.breakers["example"] = .unread
        let changes = SettlementFold.fold([settlement], over: basis, apps: Self.apps, under: Self.rules, at: Self.now)
        #expect(changes.results == [.held])
        #expect(changes.breakers["example"]?.openedAt == Self.now)
    }

    @Test func aScopeNamesEveryUserOnce() {
        let clients: [(String, Event.Kind)] = [("app", .consentRevoked), ("web", .unknown), ("nobody's", .unknown)]
        let settlements = clients.map { Settlement.event($1, at: Self.start, client: $0) }
        let scope = SettlementScope(of: settlements, apps: Self.apps, under: Self.rules)
        #expect(scope.users == [Self.ann])
        #expect(scope.signingIn == [Self.ann])
        #expect(scope.notifications.count == 3)
        #expect(scope.judgedApps.isEmpty && scope.rejectedClients.isEmpty && scope.heardClients.isEmpty)
    }
}
