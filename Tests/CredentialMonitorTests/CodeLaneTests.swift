// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import GRDB
import Logging
import Testing

@testable import SQLiteStore

struct CodeLaneTests {
    private let monitor = try! Monitor()

    private static let lost = EndpointAnswer<ExchangeNews>.unavailable("timeout", isAnswerLost: true)
    private static let down = EndpointAnswer<ExchangeNews>.unavailable("status 503", isAnswerLost: false)
    private static let used = EndpointAnswer<ExchangeNews>.refused(.codeUsed, detail: "invalid_grant: The code has already been used.")

    // MARK: Exchanged

    @Test func aCodeSignsItsUserIn() async throws {
        monitor.endpoint.answerCodes(.issued("ann", token: "r-secret"))
        try await monitor.signIn(code: "c-secret", nonce: "n")
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(try await monitor.grantLog() == ["applied"])
        #expect(try await monitor.value("SELECT email FROM user_state") == "ann@example.com")
        #expect(monitor.identities.nonces == ["n"])
        #expect(monitor.endpoint.exchanges.map(\.code) == [Secret("c-secret")])
        // Apple has just issued it, so siwatch asks about it tomorrow at the earliest.
        #expect(try await monitor.due("ann")! >= monitor.clock.now.advanced(by: monitor.policy.interval))
        #expect(monitor.counter("siwatch_code_exchanges_total", ("outcome", "applied")) == 1)
    }

    /// `iat` is rounded down to the second. siwatch dates the sign-in within it.
    @Test func theSignInIsDatedByApple() async throws {
        monitor.endpoint.answerCodes(.issued("ann"))
        monitor.clock.advance(by: .milliseconds(1234))
        try await monitor.signIn(code: "c", at: monitor.clock.now.advanced(by: .seconds(-60)))
        #expect(try await monitor.value("SELECT granted_at FROM credential") == monitor.clock.now.milliseconds)
    }

    @Test func aSignInWithoutATokenIsOne() async throws {
        monitor.endpoint.answerCodes(.issued("ann", token: nil))
        try await monitor.signIn(code: "c", "ann")
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(try await monitor.due("ann") == nil)
    }

    @Test func aRowInsertedTwiceSignsInOnce() async throws {
        monitor.endpoint.answerCodes(.issued("ann"), Self.used)
        try await monitor.signIn(code: "c")
        try await monitor.signIn(code: "c")
        #expect(try await monitor.grantLog() == ["applied", "rejected code_used"])
        #expect(try await monitor.state(of: "ann") == "authorized granted")
    }

    // MARK: Refused

    @Test(arguments: [.codeExpired, .codeUsed, .clientMismatch, .redirectURIMismatch, .rejectedByApple] as [GrantRejection])
    func aRefusalIsLoggedAsAppleSaysIt(_ reason: GrantRejection) async throws {
        monitor.endpoint.answerCodes(.refused(reason, detail: "words"))
        try await monitor.signIn(code: "c", "ann")
        #expect(try await monitor.grantLog() == ["rejected \(reason.rawValue)"])
        #expect(try await monitor.value("SELECT detail FROM grant_log") == "words")
        #expect(try await monitor.state(of: "ann") == nil)
        #expect(try await monitor.count("SELECT COUNT(*) FROM breaker") == 0)
    }

    /// A code that is too old, one that keeps killing the process, and one with bytes that are no text.
    @Test(arguments: [GrantRejection.codeExpired, .poison, .malformed])
    func whatCanBeNoSignInIsNotSent(_ reason: GrantRejection) async throws {
        try await monitor.code(at: reason == .codeExpired ? monitor.clock.now.advanced(by: .minutes(-5)) : nil)
        if reason == .poison { try await monitor.execute("UPDATE grant_queue SET attempts = 5") }
        if reason == .malformed { try await monitor.execute("UPDATE grant_queue SET user_id = CAST(X'C328' AS TEXT)") }
        try await monitor.settle(monitor.codeHandler)
        #expect(try await monitor.grantLog() == ["rejected \(reason.rawValue)"])
        #expect(monitor.endpoint.exchanges.isEmpty)
    }

    @Test func aClientThatNobodyConfiguredIsWaitedForWhileTheCodeLives() async throws {
        try await monitor.signIn(code: "c", client: "com.example.forgotten")
        #expect(try await monitor.grantLog() == [])
        try await monitor.settle(monitor.codeHandler, after: .minutes(5))
        #expect(try await monitor.grantLog() == ["rejected unknown_client_expired"])
        #expect(monitor.endpoint.exchanges.isEmpty)
    }

    // MARK: The road

    @Test func theRoadIsTriedAgain() async throws {
        monitor.endpoint.answerCodes(Self.down, Self.down, Self.down, Self.down, Self.down, .issued("ann"))
        try await monitor.code()
        let handler = monitor.codeHandler
        for wait in [500, 1000, 2000, 5000, 5000] {
            #expect(try await monitor.settle(handler) == 1)
            #expect(handler.retryDelay() != nil, "or nobody would look in time")
            #expect(try await monitor.settle(handler, after: .milliseconds(wait - 1)) == 0)
            monitor.clock.advance(by: .milliseconds(1))
        }
        try await monitor.settle(handler)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
    }

    @Test func whatNeverArrivesExpires() async throws {
        monitor.endpoint.answerCodes(Self.down)
        try await monitor.code()
        let start = monitor.clock.now
        let handler = monitor.codeHandler
        while try await monitor.grantLog() == [], start.duration(to: monitor.clock.now) < .minutes(6) {
            try await monitor.settle(handler)
            monitor.clock.advance(by: .milliseconds(500))
        }
        #expect(try await monitor.grantLog() == ["rejected code_expired"])
        let last = try #require(monitor.endpoint.exchanges.last)
        #expect(last.sentAt < start.advanced(by: .minutes(5)), "never sent after its deadline")
    }

    /// Apple may have taken the code, and its answer is lost. The log tells this case from a code that another client used.
    @Test(arguments: ["timeout", "503", "crash", "late"]) func aLostAnswerIsCalledThat(_ how: String) async throws {
        try await monitor.code("c", "ann")
        let handler = monitor.codeHandler
        switch how {
        case "crash": _ = try await handler.claim(upTo: 64)
        case "503": monitor.endpoint.answerCodes(Self.down, Self.used)
        default: monitor.endpoint.answerCodes(Self.lost, .refused(.codeExpired, detail: "expired"))
        }
        if how == "crash" {
            monitor.endpoint.answerCodes(Self.used)
            try monitor.store.recover()
        } else {
            try await monitor.settle(handler)
        }
        try await monitor.settle(handler, after: how == "late" ? .minutes(5) : .seconds(1))
        #expect(try await monitor.grantLog() == ["rejected answer_lost"])
        #expect(try await monitor.state(of: "ann") == nil, "never authorized")
        #expect(monitor.endpoint.exchanges.count == (["crash", "late"].contains(how) ? 1 : 2))
    }

    // MARK: id_tokens

    private func signIn(_ users: Int, by handler: CodeHandler, _ monitor: Monitor) async throws {
        for user in 0..<users {
            monitor.endpoint.answerCodes(.issued("good\(user)"))
            try await monitor.signIn(code: "good\(user)", by: handler)
        }
    }

    /// No session will use the token, so siwatch asks Apple to end it.
    @Test(arguments: [("forged", "ann", "rejected bad_id_token"), ("bob", "ann", "rejected user_mismatch")])
    func whatABadIDTokenBroughtIsRevoked(_ identity: String, _ user: String, _ expected: String) async throws {
        let handler = monitor.codeHandler
        try await signIn(4, by: handler, monitor)
        monitor.endpoint.answerCodes(.issued(identity == "bob" ? "bob" : user, as: identity))
        try await monitor.signIn(code: "c", user, by: handler)
        #expect(try await monitor.grantLog().last == expected)
        #expect(monitor.endpoint.revocations.map { "\($0.clientID) \($0.token.reveal)" } == ["\(Monitor.clients[0]) r"])
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential") == 4)
    }

    /// A backend that sends its own id as `user_id`, or the nonce unhashed, fails each time. That must end no consent.
    @Test(arguments: ["user_id", "nonce"]) func aMistakeThatStrikesEverySignInEndsNoConsent(_ what: String) async throws {
        let handler = monitor.codeHandler
        for user in 0..<30 {
            monitor.endpoint.answerCodes(.issued("user\(user)", as: what == "nonce" ? "forged" : nil))
            try await monitor.signIn(code: "c\(user)", "id-\(user)", by: handler)
        }
        let reason = what == "nonce" ? "bad_id_token" : "user_mismatch"
        #expect(try await monitor.grantLog() == Array(repeating: "rejected \(reason)", count: 30))
        #expect(monitor.endpoint.revocations.isEmpty)
    }

    /// The mistake may come with a release of the backend, long after the first good sign-in.
    @Test func aMistakeThatComesLaterEndsAFewConsentsAtMost() async throws {
        let handler = monitor.codeHandler
        try await signIn(10, by: handler, monitor)
        for user in 0..<30 {
            monitor.endpoint.answerCodes(.issued("user\(user)"))
            try await monitor.signIn(code: "c\(user)", "id-\(user)", by: handler)
        }
        #expect(monitor.endpoint.revocations.count == 2)
    }

    @Test func whereTheConfigurationForbidsItItIsNot() async throws {
        monitor.endpoint.answerCodes(.issued("bob"))
        try await monitor.code("c", "ann")
        try await monitor.settle(monitor.codeHandler(clockGuard: nil, mayRevoke: false))
        #expect(try await monitor.grantLog() == ["rejected user_mismatch"])
        #expect(monitor.endpoint.revocations.isEmpty)
    }

    /// The revocation could end all grants of a user. A user with another sign-in stays signed in, be it the row's user or the token's.
    @Test(arguments: ["ann", "bob"]) func nobodyIsSignedOutForIt(_ holder: String) async throws {
        let handler = monitor.codeHandler
        try await signIn(4, by: handler, monitor)
        try await monitor.signIn(holder, client: Monitor.clients[1])
        monitor.endpoint.answerCodes(.issued("bob"))
        try await monitor.signIn(code: "c", "ann", by: handler)
        #expect(try await monitor.grantLog().suffix(2) == ["applied", "rejected user_mismatch"])
        #expect(monitor.endpoint.revocations.isEmpty)
    }

    /// The answer names no user, so siwatch cannot know which user a revocation would harm.
    @Test func whatNamesNobodyIsLeftAlone() async throws {
        monitor.endpoint.answerCodes(.issued(IssuedTokens(refreshToken: Secret("r"), identityToken: nil)))
        try await monitor.signIn(code: "c")
        #expect(try await monitor.grantLog() == ["rejected bad_id_token"])
        #expect(monitor.endpoint.revocations.isEmpty)
    }

    /// Apple signs with a key that siwatch fetches a second later. The code is used up, so its answer waits.
    @Test func anAnswerWaitsForItsKey() async throws {
        monitor.endpoint.answerCodes(.issued("ann", as: "new-key"))
        try await monitor.code()
        async let settled = monitor.settle(monitor.codeHandler)
        try await monitor.clock.sleeper()
        monitor.identities.publishNewKey()
        monitor.clock.advance(by: .seconds(1))
        #expect(try await settled == 1)
        #expect(try await monitor.grantLog() == ["applied"])
        #expect(monitor.endpoint.exchanges.count == 1 && monitor.endpoint.revocations.isEmpty)
    }

    /// The waiting answer needs no request to Apple, so it takes no hand that another user's code needs.
    @Test func anAnswerThatWaitsForItsKeyHoldsUpNoOtherCode() async throws {
        monitor.codeBudget.limits = RequestLimits(maxRequestsPerSecond: 10_000, maxConcurrentRequests: 1)
        monitor.endpoint.answerCodes(.issued("ann", as: "new-key"), .issued("bob"))
        for code in ["c", "d"] { try await monitor.code(code) }
        let handler = monitor.codeHandler
        #expect(handler.width == 1)
        let first = try await handler.claim(upTo: handler.width)
        #expect(first.count == 1)
        async let late = handler.resolve(first[0])
        try await monitor.clock.sleeper()
        #expect(handler.width == 2)
        let second = try await handler.claim(upTo: handler.width - 1)
        #expect(second.count == 1)
        try await monitor.writer.submit(handler.resolve(second[0]))
        #expect(try await monitor.state(of: "bob") == "authorized granted")
        monitor.identities.publishNewKey()
        monitor.clock.advance(by: .seconds(1))
        try await monitor.writer.submit(late)
        #expect(try await monitor.state(of: "new-key") == "authorized granted")
        _ = try await handler.claim(upTo: 1)
        #expect(handler.width == 1)
    }

    @Test func aKeyThatNobodyPublishesIsNotWaitedForForEver() async throws {
        monitor.endpoint.answerCodes(.issued("ann", as: "new-key"))
        try await monitor.code()
        #expect(try await monitor.settle(monitor.codeHandler, through: 75) == 1)
        #expect(try await monitor.grantLog() == ["rejected bad_id_token"])
        #expect(try await monitor.value("SELECT detail FROM grant_log") == "unknown_key")
        // The road to the keys may be the cause.
        #expect(monitor.endpoint.revocations.isEmpty)
    }

    /// A stop ends the wait. Nothing is known against the id_token, and after the start the answer is lost.
    @Test func aStopDuringTheWaitJudgesNothing() async throws {
        monitor.endpoint.answerCodes(.issued("ann", as: "new-key"), Self.used)
        try await monitor.code()
        let handler = monitor.codeHandler
        let work = try await handler.claim(upTo: 64)[0]
        let resolved = Task { await handler.resolve(work) }
        try await monitor.clock.sleeper()
        resolved.cancel()
        #expect(await resolved.value.isEmpty)
        #expect(monitor.endpoint.revocations.isEmpty)
        try monitor.store.recover()
        try await monitor.settle(handler)
        #expect(try await monitor.grantLog() == ["rejected answer_lost"])
    }

    /// The store fails at the read that decides the date of the sign-in. The code is used up, so its answer waits.
    @Test func aRequestToRevokeThatCannotBeReadIsNotOverlooked() async throws {
        monitor.endpoint.answerCodes(Self.down, .issued("ann"))
        try await monitor.signIn(code: "c", "ann")
        monitor.clock.advance(by: .seconds(30))
        let askedAt = monitor.clock.now
        try await monitor.requestRevocation("ann")
        monitor.clock.advance(by: .seconds(30))
        let store = TroubledStore(monitor.store, TroubledStore.Trouble(failedReads: 2))
        let handler = monitor.codeHandler(clockGuard: nil, store: store)
        #expect(try await monitor.settle(handler, through: 2) == 1)
        #expect(try await monitor.grantLog() == ["applied"])
        #expect(try await monitor.value("SELECT granted_at FROM credential") == askedAt.milliseconds)
    }

    /// It waits as long as for a key. Then it gives no sign-in of any date, and after the lease Apple's answer decides.
    @Test func aStoreThatNobodyCanReadIsNotWaitedForForEver() async throws {
        monitor.endpoint.answerCodes(.issued("ann"))
        try await monitor.code()
        let store = TroubledStore(monitor.store, TroubledStore.Trouble(failedReads: 1000))
        let handler = monitor.codeHandler(clockGuard: nil, store: store)
        #expect(try await monitor.settle(handler, through: 75) == 1)
        #expect(try await monitor.grantLog() == [])
        #expect(try await monitor.count("SELECT COUNT(*) FROM grant_queue WHERE claimed_by IS NOT NULL AND attempts = 1") == 1)
        #expect(monitor.endpoint.exchanges.count == 1 && monitor.endpoint.revocations.isEmpty)
    }

    @Test func withoutKeysNothingIsSent() async throws {
        monitor.identities.forgetKeys()
        monitor.endpoint.answerCodes(.issued("ann"))
        try await monitor.code("late", at: monitor.clock.now.advanced(by: .minutes(-5)))
        try await monitor.signIn(code: "c")
        #expect(try await monitor.grantLog() == ["rejected code_expired"])
        #expect(monitor.endpoint.exchanges.isEmpty)
        monitor.identities.fetchKeys()
        try await monitor.settle(monitor.codeHandler)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
    }

    @Test func noLineOfTheLogTellsASecretOrAName() async throws {
        let log = LogRecorder(logLevel: .trace)
        let telemetry = Telemetry(logger: Logger(label: "test") { _ in log }, factory: monitor.metrics, pseudonym: { _ in "pseudonym" })
        let handler = monitor.codeHandler(clockGuard: nil, telemetry: telemetry)
        monitor.endpoint.answerCodes(.issued("ann", token: "r-secret", as: "forged"), Self.used, Self.lost)
        try await monitor.signIn("ann")
        for code in ["c-secret 1", "c-secret 2", "c-secret 3"] { try await monitor.code(code, "ann", nonce: "n-secret") }
        try await monitor.signIn(code: "c-secret 4", "ann", client: "secret of a backend", by: handler)
        #expect(log.lines.count >= 4)
        for line in log.lines { #expect(!line.contains("secret") && !line.contains("ann") && !line.contains("forged"), "\(line)") }
    }

    // MARK: Permits

    @Test func checksTakeNoPermitFromACode() async throws {
        let monitor = try Monitor(requestsPerSecond: 50)
        #expect(monitor.budget.take(upTo: 1000, at: monitor.clock.now) == 10)
        monitor.endpoint.answerCodes(.issued("ann"))
        try await monitor.code()
        #expect(try await monitor.loop(monitor.codeHandler).round() == 1)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
    }

    @Test func noPermitLeaks() async throws {
        let monitor = try Monitor(requestsPerSecond: 50)
        let handler = monitor.codeHandler
        for _ in 1...20 { #expect(try await handler.claim(upTo: 64).isEmpty) }
        try await monitor.code("poison")
        try await monitor.execute("UPDATE grant_queue SET attempts = 5")
        try await monitor.settle(handler)
        for number in 1...20 { try await monitor.code("late \(number)", at: monitor.clock.now.advanced(by: .minutes(-5))) }
        try await monitor.settle(handler)
        #expect(try await monitor.count("SELECT COUNT(*) FROM grant_log") == 21)
        try await monitor.code("good")
        _ = try await handler.claim(upTo: 64)
        #expect(monitor.codeBudget.take(upTo: 64, at: monitor.clock.now) == 9, "one of ten is out")
    }

    /// No client of the app has had a 200. siwatch asks nothing for it until the pause is over, and the code waits for its deadline.
    @Test func blamePausesTheAppAndACodeExpires() async throws {
        monitor.endpoint.answerCodes(.misconfigured("invalid_client"))
        try await monitor.signIn(code: "c")
        #expect(try await monitor.grantLog() == [])
        for budget in [monitor.budget, monitor.codeBudget] {
            #expect(budget.pauses.quotas(at: monitor.clock.now) == [Monitor.clients[0]: 0, Monitor.clients[1]: 0])
        }
        #expect(try await monitor.settle(monitor.codeHandler, after: .seconds(9)) == 0)
        for _ in 1...300 { try await monitor.settle(monitor.codeHandler, after: .seconds(1)) }
        // Apple never judged it, so another code would not fare better.
        #expect(try await monitor.grantLog() == ["rejected invalid_client"])
        #expect(try await monitor.value("SELECT detail FROM grant_log") == "invalid_client")
        #expect(monitor.endpoint.exchanges.count > 1 && monitor.endpoint.exchanges.count < 16)
    }

    /// siwatch sends one question at the end of each pause, about the oldest code. The others would look as if they had come late.
    @Test func aCodeThatWasNeverSentEndsAsWhatAppleSaysOfTheClient() async throws {
        monitor.endpoint.answerCodes(.misconfigured("invalid_client: bad key"))
        let handler = monitor.codeHandler
        try await monitor.signIn(code: "a", by: handler)
        for code in ["b", "c"] { try await monitor.code(code) }
        for _ in 1...310 { try await monitor.settle(handler, after: .seconds(1)) }
        #expect(try await monitor.grantLog() == Array(repeating: "rejected invalid_client", count: 3))
        #expect(try await monitor.count("SELECT COUNT(*) FROM grant_log WHERE detail = 'invalid_client: bad key'") == 3)
        #expect(Set(monitor.endpoint.exchanges.map(\.code.reveal)) == ["a"])
        #expect(monitor.counter("siwatch_code_exchanges_total", ("outcome", "invalid_client")) == 3)
    }

    /// A 200 accepts the client, whatever the outcome of the code.
    @Test func onceAppleHasAcceptedTheClientALateCodeIsOnlyLate() async throws {
        monitor.endpoint.answerCodes(.misconfigured("invalid_client"), .issued("bob"))
        let handler = monitor.codeHandler
        try await monitor.signIn(code: "a", "ann", by: handler)
        #expect(try await monitor.value("SELECT refusal FROM client WHERE refused_at IS NOT NULL") == "invalid_client")
        try await monitor.settle(handler, after: .seconds(13))
        try await monitor.signIn(code: "late", at: monitor.clock.now.advanced(by: .minutes(-5)), by: handler)
        #expect(try await monitor.grantLog() == ["rejected user_mismatch", "rejected code_expired"])
        #expect(try await monitor.count("SELECT COUNT(*) FROM client WHERE refused_at IS NOT NULL") == 0)
    }

    /// A client secret that siwatch cannot sign is no refusal by Apple.
    @Test func whatAppleWasNotAskedItHasNotRefused() async throws {
        monitor.endpoint.answerCodes(.misconfigured("the client secret cannot be signed"))
        try await monitor.signIn(code: "a")
        #expect(try await monitor.count("SELECT COUNT(*) FROM client WHERE refused_at IS NOT NULL") == 0)
    }

    @Test func whyACodeWasNotAnsweredStaysWithIt() async throws {
        monitor.endpoint.answerCodes(Self.down)
        try await monitor.code()
        let handler = monitor.codeHandler
        try await monitor.settle(handler)
        #expect(try await monitor.value("SELECT detail FROM grant_queue") == "status 503")
        try await monitor.settle(handler, after: .minutes(5))
        #expect(try await monitor.grantLog() == ["rejected code_expired"])
        #expect(try await monitor.value("SELECT detail FROM grant_log") == "status 503")
    }

    @Test func aClientThatAppleRefusesHoldsUpNoCodeOfAnother() async throws {
        let handler = monitor.codeHandler
        monitor.endpoint.answerCodes(.issued("ann"), .misconfigured("invalid_client"), .issued("bob"))
        try await monitor.signIn(code: "a", by: handler)
        try await monitor.signIn(code: "b", client: Monitor.clients[1], by: handler)
        try await monitor.code("c")
        try await monitor.signIn(code: "d", client: Monitor.clients[1], by: handler)
        #expect(try await monitor.grantLog() == ["applied", "applied"])
        #expect(monitor.endpoint.exchanges.map(\.code.reveal) == ["a", "b", "c"])
    }

    @Test func afterOneRefusalTheCodesOfAnAcceptedClientGoOnWithinTwoSeconds() async throws {
        monitor.endpoint.answerCodes(.issued("ann"), .misconfigured("invalid_client"), .issued("bob"), .issued("cid"))
        try await monitor.signIn(code: "a")
        monitor.clock.advance(by: .seconds(1))
        try await monitor.signIn(code: "b")
        try await monitor.signIn(code: "c")
        #expect(monitor.endpoint.exchanges.count == 2)
        try await monitor.settle(monitor.codeHandler, after: .seconds(1))
        try await monitor.settle(monitor.codeHandler, after: .milliseconds(900))
        #expect(try await monitor.grantLog() == ["applied", "applied", "applied"])
        #expect(monitor.endpoint.exchanges.count == 4)
    }

    @Test func aCodeThatWasClaimedBesideTheRefusedOneGoesOnWithinTwoSeconds() async throws {
        let handler = monitor.codeHandler
        monitor.endpoint.answerCodes(.issued("ann"), .misconfigured("invalid_client"), .issued("bob"), .issued("cid"))
        try await monitor.signIn(code: "a", by: handler)
        monitor.clock.advance(by: .seconds(1))
        for code in ["b", "c"] { try await monitor.code(code) }
        for work in try await handler.claim(upTo: 64) { try await monitor.writer.submit(handler.resolve(work)) }
        #expect(monitor.endpoint.exchanges.count == 2)
        for _ in 1...2 { try await monitor.settle(handler, after: .seconds(1)) }
        #expect(try await monitor.grantLog() == ["applied", "applied", "applied"])
    }

    @Test func whatWasClaimedBeforeThePauseIsNotSent() async throws {
        monitor.endpoint.answerCodes(.misconfigured("invalid_client"))
        for code in ["a", "b"] { try await monitor.code(code) }
        let handler = monitor.codeHandler
        let claimed = try await handler.claim(upTo: 64)
        #expect(claimed.count == 2)
        for work in claimed { try await monitor.writer.submit(handler.resolve(work)) }
        #expect(monitor.endpoint.exchanges.count == 1)
        #expect(try await monitor.count("SELECT COUNT(*) FROM grant_queue WHERE claimed_by IS NULL AND attempts = 0") == 2)
    }

    @Test func aGoodAnswerEndsTheBlame() async throws {
        monitor.endpoint.answerCodes(.misconfigured("invalid_client"), .issued("ann"))
        try await monitor.signIn(code: "c")
        try await monitor.settle(monitor.codeHandler, after: .seconds(13))
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(monitor.budget.pauses.quotas(at: monitor.clock.now).isEmpty)
    }

    /// Apple refuses these codes, which proves nothing of the client. Without the check, they would go on one by one and hold up good ones.
    @Test func aGoodAnswerToACheckEndsTheBlameOfCodesToo() async throws {
        try await monitor.signIn("bob")
        monitor.clock.advance(by: .days(2))
        monitor.endpoint.answerCodes(.misconfigured("invalid_client"), .refused(.rejectedByApple, detail: "invalid_grant"))
        try await monitor.signIn(code: "a")
        #expect(monitor.endpoint.exchanges.count == 1)
        for code in ["b", "c"] { try await monitor.code(code) }
        #expect(try await monitor.settle(monitor.refreshHandler, after: .seconds(13)) > 0)
        try await monitor.settle(monitor.codeHandler)
        #expect(monitor.endpoint.exchanges.count == 4)
    }

    // MARK: Wrong clocks

    /// The host's clock is an hour ahead of the backend's, and siwatch knows it. It asks Apple, which knows best.
    @Test func byAClockThatIsAheadNothingIsGivenUp() async throws {
        let handler = monitor.codeHandler
        let right = monitor.clock.now
        monitor.clock.set(to: right.advanced(by: .hours(1)))
        monitor.endpoint.answerCodes(.issued("ann"))
        try await monitor.signIn(code: "c", at: right, by: handler)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
    }

    /// To the store such a code looks late and needs no permit. It takes one all the same, and hurries no backend.
    @Test(arguments: ["paused", "no keys", "down"]) func byAClockThatIsAheadNobodyHurries(_ how: String) async throws {
        let handler = monitor.codeHandler
        let right = monitor.clock.now
        monitor.clock.set(to: right.advanced(by: .hours(1)))
        monitor.endpoint.answerCodes(Self.down)
        if how == "paused" { monitor.codeBudget.pause(for: .minutes(4), at: monitor.clock.now) }
        if how == "no keys" { monitor.identities.forgetKeys() }
        try await monitor.code(at: right)
        try await monitor.code(client: "com.example.forgotten", at: right)
        #expect(try await monitor.loop(handler).round() == 2)
        #expect(try await monitor.loop(handler).round() == 0, "not at once again")
        #expect(monitor.endpoint.exchanges.count == (how == "down" ? 1 : 0))
        try await monitor.settle(handler, after: .minutes(5))
        #expect(try await monitor.grantLog().sorted() == ["rejected code_expired", "rejected unknown_client_expired"])
    }

    @Test func aCodeFromTheFutureIsSentAtOnce() async throws {
        monitor.endpoint.answerCodes(.issued("ann"))
        try await monitor.signIn(code: "c", at: monitor.clock.now.advanced(by: .hours(1)))
        #expect(try await monitor.state(of: "ann") == "authorized granted")
    }
}
