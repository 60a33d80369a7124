// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import GRDB
import Logging
import Testing

struct CodeLaneTests {
    private let monitor = try! Monitor()

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
        monitor.endpoint.answerCodes(.issued("ann"), .used)
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

    /// Anybody who can insert codes can have what they bring revoked.
    @Test func anHourRevokesNoMoreThanTheRevocationLimit() async throws {
        let handler = monitor.codeHandler
        for round in 0...50 {
            for user in 0..<4 {
                monitor.endpoint.answerCodes(.issued("good-\(round)-\(user)"))
                try await monitor.signIn(code: "good-\(round)-\(user)", by: handler)
            }
            monitor.endpoint.answerCodes(.issued("bob-\(round)"))
            try await monitor.signIn(code: "c\(round)", "ann", by: handler)
        }
        #expect(monitor.endpoint.revocations.count == 50)
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

    @Test func noLineOfTheLogTellsASecretOrAName() async throws {
        let log = LogRecorder(logLevel: .trace)
        let telemetry = Telemetry(logger: Logger(label: "test") { _ in log }, factory: monitor.metrics, pseudonym: { _ in "pseudonym" })
        let handler = monitor.codeHandler(clockGuard: nil, telemetry: telemetry)
        monitor.endpoint.answerCodes(.issued("ann", token: "r-secret", as: "forged"), .used, .lost)
        try await monitor.signIn("ann")
        for code in ["c-secret 1", "c-secret 2", "c-secret 3"] { try await monitor.code(code, "ann", nonce: "n-secret") }
        try await monitor.signIn(code: "c-secret 4", "ann", client: "secret of a backend", by: handler)
        #expect(log.lines.count >= 4)
        for line in log.lines { #expect(!line.contains("secret") && !line.contains("ann") && !line.contains("forged"), "\(line)") }
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
        monitor.endpoint.answerCodes(.down)
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
