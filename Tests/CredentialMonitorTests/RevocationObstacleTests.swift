// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTables
import CredentialTesting
import Testing

@testable import SQLiteStore

/// What keeps a revocation from Apple: the configuration, a later sign-in, a bad road, a lack of permits.
struct RevocationObstacleTests {
    private let monitor = try! Monitor()

    @Test func whereTheConfigurationForbidsItAppleIsNotAsked() async throws {
        try await monitor.delete("ann")
        try await monitor.settle(monitor.revocationHandler(mayRevoke: false))
        #expect(try await monitor.revocationLog() == ["rejected revocations_disabled"])
        #expect(monitor.endpoint.revocations.isEmpty && monitor.endpoint.calls.isEmpty)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
    }

    /// siwatch opened a request, and restarts with another configuration. It does not send a revocation that it had not sent, and proves
    /// one that it had sent.
    @Test(arguments: [1, 2]) func aForbiddenRequestIsTakenBack(_ answered: Int) async throws {
        try await monitor.delete("ann", answers: .valid, .rejected)
        // The request itself, and then one question a round.
        let open = monitor.loop(monitor.revocationHandler)
        for _ in 0...answered { _ = try await open.round() }
        try await monitor.settle(monitor.revocationHandler(mayRevoke: false))
        let isSent = !monitor.endpoint.revocations.isEmpty
        #expect(isSent == (answered == 2))
        #expect(try await monitor.revocationLog() == [isSent ? "proved" : "rejected revocations_disabled"])
    }

    /// Otherwise its tokens would stay for ever, and the backend would never hear of them.
    @Test func anAppThatLeavesTheConfigurationLeavesNoTokenOpen() async throws {
        try await monitor.delete("ann", answers: .unavailable("timeout"), isSettled: true)
        let others = [AppClients(name: Monitor.app, clientIDs: []), AppClients(name: "other", clientIDs: ["org.example.app"])]
        try monitor.store.register(others)
        let clock = monitor.clock
        let clockGuard = ClockGuard(clock: clock.wallClock, uptime: { clock.uptime }, telemetry: monitor.telemetry)
        let handler = monitor.revocationHandler(isConfigured: false, clockGuard: clockGuard)
        clock.set(to: clock.now.advanced(by: .days(8)))
        try await monitor.settle(handler)
        #expect(try await monitor.revocationLog().isEmpty, "the clock has stepped")
        clock.advance(by: .hours(2))
        try await monitor.settle(handler)
        #expect(try await monitor.revocationLog() == ["rejected unknown_client"])
        #expect(try await monitor.count("SELECT COUNT(*) FROM revocation") == 0)
        #expect(monitor.endpoint.calls.count == 1 && monitor.endpoint.revocations.isEmpty)
    }

    @Test(arguments: ["known", "code", "refused code"]) func whoSignsInAgainBeforeItIsSentStaysSignedIn(_ how: String) async throws {
        try await monitor.delete("ann", answers: .valid, .rejected)
        let loop = monitor.loop(monitor.revocationHandler)
        // Opened, and found good.
        for _ in 1...2 { #expect(try await loop.round() == 1) }
        monitor.clock.advance(by: .seconds(1))
        if how == "known" {
            try await monitor.signIn("ann", token: "new")
        } else {
            try await monitor.code("c", "ann")
            try await monitor.settle(monitor.revocationHandler)
            #expect(try await monitor.revocationLog().isEmpty, "whether it is a sign-in is not known yet")
            #expect(monitor.endpoint.revocations.isEmpty)
            monitor.endpoint.answerCodes(how == "code" ? .issued("ann") : .refused(.codeUsed, detail: "used"))
            try await monitor.settle(monitor.codeHandler)
            monitor.clock.advance(by: .minutes(1))
        }
        try await monitor.settle(monitor.revocationHandler)
        let isNoSignIn = how == "refused code"
        #expect(try await monitor.revocationLog() == [isNoSignIn ? "proved" : "superseded"])
        #expect(monitor.endpoint.revocations.isEmpty == !isNoSignIn)
        #expect(try await monitor.state(of: "ann") == (isNoSignIn ? "revoked revoked_by_app" : "authorized granted"))
    }

    /// Apple was down. siwatch exchanges the code after the deletion of the account, but the sign-in was before it.
    @Test func aCodeThatIsExchangedAfterTheRequestIsRevokedToo() async throws {
        monitor.endpoint.answer(.valid, .rejected)
        monitor.endpoint.answerCodes(.down, .issued("ann"))
        try await monitor.signIn(code: "c", "ann")
        monitor.clock.advance(by: .seconds(30))
        try await monitor.revoke("ann")
        try await monitor.settle(monitor.codeHandler, after: .seconds(30))
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        try await monitor.settle(monitor.revocationHandler, after: .seconds(60))
        #expect(try await monitor.revocationLog() == ["proved"])
        #expect(monitor.endpoint.revocations.count == 1)
        #expect(try await monitor.state(of: "ann") == "revoked revoked_by_app")
    }

    @Test func whoSignsInAgainAfterItWasSentStaysSignedIn() async throws {
        try await monitor.delete("ann", answers: .valid, .rejected)
        let loop = monitor.loop(monitor.revocationHandler)
        for _ in 1...3 { #expect(try await loop.round() == 1) }
        monitor.clock.advance(by: .seconds(1))
        try await monitor.signIn("ann", token: "new")
        try await monitor.settle(monitor.revocationHandler)
        #expect(try await monitor.revocationLog() == ["proved"])
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(try await monitor.due("ann") != nil, "its own token is asked about")
    }

    @Test func askedForTwiceIsProvedOnce() async throws {
        try await monitor.delete("ann", answers: .valid, .rejected)
        try await monitor.revoke("ann")
        try await monitor.settle(monitor.revocationHandler, after: .seconds(30))
        #expect(try await monitor.revocationLog() == ["proved", "no_token"])
        #expect(monitor.endpoint.revocations.count == 1)
    }

    @Test func badRequestsAreLogged() async throws {
        try await monitor.requestRevocation("nobody")
        try await monitor.requestRevocation("ann", client: "com.example.forgotten")
        let malformed = "('com.example.app', CAST(X'C328' AS TEXT), \(monitor.clock.now.milliseconds))"
        try await monitor.execute("INSERT INTO revocation_queue (client_id, user_id, requested_at) VALUES \(malformed)")
        try await monitor.settle(monitor.revocationHandler)
        // A task of its own judges each.
        #expect(try await monitor.revocationLog().sorted() == ["no_token", "rejected malformed", "rejected unknown_client"])
        try await monitor.requestRevocation("ann")
        try await monitor.execute("UPDATE revocation_queue SET attempts = 5")
        try await monitor.settle(monitor.revocationHandler)
        #expect(try await monitor.revocationLog().last == "rejected poison")
        #expect(monitor.endpoint.calls.isEmpty && monitor.endpoint.revocations.isEmpty)
    }

    // MARK: The road

    @Test(arguments: [
        EndpointAnswer<RevokeNews>.unavailable("status 503", isAnswerLost: false), .throttled(retryAfter: .seconds(20)),
        .misconfigured("invalid_client"),
    ])
    func whatAppleDoesNotTakeIsSentAgain(_ outcome: EndpointAnswer<RevokeNews>) async throws {
        monitor.endpoint.answer(.valid, .rejected)
        monitor.endpoint.answerRevocations(outcome, .accepted)
        try await monitor.delete("ann", isSettled: true)
        #expect(try await monitor.revocationLog() == [])
        // Apple's 200 to a revocation does not end a pause, because Apple answers 200 to everything.
        for _ in 1...2 { try await monitor.settle(monitor.revocationHandler, after: .seconds(40)) }
        #expect(try await monitor.revocationLog() == ["proved"])
        #expect(monitor.endpoint.revocations.count == 2 && monitor.endpoint.calls.count == 2, "what is known is not asked again")
    }

    /// The receipt says that siwatch sent it. So an auditor learns that it may have worked, whatever comes after.
    @Test(arguments: [true, false]) func aRevocationWhoseAnswerIsLostMayHaveWorked(_ hasWorked: Bool) async throws {
        monitor.endpoint.answer(.valid, hasWorked ? .rejected : .valid)
        monitor.endpoint.answerRevocations(.unavailable("reset", isAnswerLost: true))
        try await monitor.delete("ann", isSettled: true)
        monitor.clock.advance(by: .seconds(1))
        try await monitor.signIn("ann", token: "newer")
        for _ in 1...2 { try await monitor.settle(monitor.revocationHandler, after: .minutes(1)) }
        #expect(try await monitor.revocationLog() == [hasWorked ? "proved" : "superseded"])
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(monitor.endpoint.revocations.count == 1 && monitor.endpoint.calls.count == 2)
    }

    @Test(arguments: [
        EndpointAnswer<RefreshNews>.ambiguous("invalid_request"), .unavailable("timeout"), .misconfigured("invalid_client"),
    ])
    func whatProvesNothingIsAskedAgain(_ outcome: EndpointAnswer<RefreshNews>) async throws {
        try await monitor.delete("ann", answers: outcome, .valid, outcome, .anotherUser, .rejected)
        try await monitor.settle(monitor.revocationHandler)
        for _ in 2...5 { try await monitor.settle(monitor.revocationHandler, after: .minutes(3)) }
        #expect(try await monitor.revocationLog() == ["proved"])
        #expect(monitor.endpoint.revocations.count == 1)
    }

    /// Steps of a proof follow from committed answers. Only the request in flight comes again.
    @Test func aCrashBetweenTwoCallsRepeatsOneAtMost() async throws {
        try await monitor.delete("ann", answers: .valid, .rejected)
        for _ in 1...4 {
            for work in try await monitor.revocationHandler.claim(upTo: 64) {
                // Apple has answered, and the process has died before it could write the answer down.
                if case .token(let token) = work, token.proof.next == .revoke { _ = await monitor.revocationHandler.resolve(work) }
            }
            try monitor.store.recover()
            _ = try await monitor.loop(monitor.revocationHandler).round()
        }
        #expect(try await monitor.revocationLog() == ["proved"])
        #expect(monitor.endpoint.calls.count == 2 && monitor.endpoint.revocations.count == 2)
    }

    @Test func anAppThatIsPausedInTheMiddleOfAProofGoesOnLater() async throws {
        try await monitor.delete("ann", answers: .valid, .rejected)
        let loop = monitor.loop(monitor.revocationHandler)
        for _ in 1...3 { #expect(try await loop.round() == 1) }
        _ = try await monitor.ask(.pause(app: Monitor.app))
        try await monitor.revoke("ann")
        #expect(monitor.endpoint.calls.count == 1 && monitor.endpoint.revocations.count == 1)
        _ = try await monitor.ask(.resume(app: Monitor.app))
        try await monitor.settle(monitor.revocationHandler)
        #expect(try await monitor.revocationLog() == ["proved"])
    }

    // MARK: Permits

    @Test func revocationsGoAheadOfChecks() async throws {
        let monitor = try Monitor(requestsPerSecond: 5)
        monitor.endpoint.answer(.valid, .rejected)
        for number in 1...20 { try await monitor.signIn("user \(number)") }
        try await monitor.delete("ann")
        monitor.clock.advance(by: .hours(24 * 2))
        let (checks, revocations) = (monitor.refreshHandler, monitor.revocationHandler)
        _ = try await monitor.loop(revocations).round()
        _ = monitor.budget.take(upTo: 10, at: monitor.clock.now)
        #expect(try await monitor.loop(revocations).round() == 0)
        #expect(revocations.retryDelay() != nil)
        for _ in 1...3 {
            monitor.clock.advance(by: .milliseconds(200))
            #expect(try await monitor.loop(checks).round() == 0, "revocations go first")
            #expect(try await monitor.loop(revocations).round() == 1)
            #expect(try await monitor.loop(revocations).round() == 0)
        }
        #expect(try await monitor.revocationLog() == ["proved"])
        monitor.clock.advance(by: .milliseconds(200))
        #expect(try await monitor.loop(checks).round() == 1)
    }

    @Test func noPermitLeaks() async throws {
        let monitor = try Monitor(requestsPerSecond: 50)
        try await monitor.delete("ann", answers: .rejected)
        monitor.clock.advance(by: .seconds(1))
        for _ in 1...20 {
            _ = try await monitor.loop(monitor.revocationHandler).round()
            try await monitor.execute("UPDATE revocation SET due_at = 0")
        }
        #expect(monitor.endpoint.calls.count == 1)
        #expect(monitor.budget.take(upTo: 64, at: monitor.clock.now) == 9, "one of ten was used")
    }
}
