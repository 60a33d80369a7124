// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTables
import CredentialTesting
import GRDB
import Testing

@testable import SQLiteStore

struct RevocationLaneTests {
    private let monitor = try! Monitor()

    /// Deletes the account of a user who signed in a minute ago.
    ///
    /// - Parameter answers: Apple's answers about all tokens from now on.
    private func delete(
        _ user: String,
        _ monitor: Monitor,
        clients: [String] = [Monitor.clients[0]],
        answers: EndpointAnswer<RefreshNews>...,
        isSettled: Bool = false
    ) async throws {
        if !answers.isEmpty { monitor.endpoint.answer(answers) }
        for client in clients { try await monitor.signIn(user, client: client, token: "r-\(client)") }
        try await monitor.accept(user)
        monitor.clock.advance(by: .minutes(1))
        try await monitor.requestRevocation(user)
        if isSettled { try await monitor.settle(monitor.revocationHandler) }
    }

    @Test func aDeletedAccountIsRevokedAndThatIsProved() async throws {
        try await delete("ann", monitor, answers: .valid, .rejected, isSettled: true)
        #expect(try await monitor.state(of: "ann") == "revoked revoked_by_app")
        #expect(try await monitor.revocationLog() == ["proved"])
        #expect(monitor.endpoint.revocations.map(\.token) == [Secret("r-com.example.app-of-ann")])
        #expect(monitor.endpoint.calls.count == 2)
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE sealed_token IS NOT NULL") == 0)
        #expect(try await monitor.count("SELECT COUNT(*) FROM revocation_queue") == 0)
        #expect(try await monitor.value("SELECT key_id FROM revocation_log") == "TESTKEY001")
        #expect(monitor.refreshes("valid") == 0, "no check")
        #expect(monitor.counter("siwatch_revocations_total", ("outcome", "proved")) == 1)
    }

    /// Each token at the client that Apple issued it to.
    @Test func everyTokenOfTheAppHasItsReceipt() async throws {
        try await delete("ann", monitor, clients: Monitor.clients, answers: .valid, .valid, .rejected, isSettled: true)
        #expect(try await monitor.revocationLog() == ["proved", "proved"])
        #expect(Set(monitor.endpoint.revocations.map { "\($0.clientID) \($0.token.reveal)" }).count == 2)
        #expect(monitor.endpoint.revocations.allSatisfy { $0.token.reveal == "r-\($0.clientID)-of-ann" })
        for client in Monitor.clients { #expect(try await monitor.state(of: "ann", client: client) == "revoked revoked_by_app") }
    }

    /// Thousands of requests may wait for sign-ins and come again and again.
    @Test func aTokenGoesBeforeRequests() async throws {
        let handler = monitor.revocationHandler
        try await delete("ann", monitor)
        for work in try await handler.claim(upTo: 8) { try await monitor.writer.submit(handler.resolve(work)) }
        for user in ["bob", "cid"] { try await monitor.requestRevocation(user) }
        let claimed = try await handler.claim(upTo: 2).map { work in
            switch work {
            case .token(let token): token.id.userID
            case .request: "a request"
            }
        }
        #expect(claimed == ["ann", "a request"])
    }

    @Test func whatAppleStillAcceptsIsRevokedAgain() async throws {
        try await delete("ann", monitor, answers: .valid, .valid, .valid, .rejected, isSettled: true)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(monitor.endpoint.revocations.count == 1)
        for wait in [13, 38] { try await monitor.settle(monitor.revocationHandler, after: .seconds(wait)) }
        #expect(try await monitor.revocationLog() == ["proved"])
        #expect(monitor.endpoint.revocations.count == 3 && monitor.endpoint.calls.count == 4)
    }

    /// A second key may be wrong, or Apple may have an incident. siwatch believes that a token was dead only if Apple repeats it after a
    /// 200, and after an incident would be over.
    @Test func whatWasDeadIsBelievedOnceAppleRepeatsItAfterA200() async throws {
        monitor.endpoint.answer(.rejected, for: "ann")
        try await monitor.signIn("ann", isAccepted: true)
        monitor.clock.advance(by: .minutes(1))
        try await monitor.revoke("ann")
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        try await monitor.settle(monitor.revocationHandler, after: .minutes(1))
        #expect(monitor.endpoint.calls.count == 1, "looked at, not asked again")

        try await delete("bob", monitor)
        monitor.endpoint.answer(.valid, .rejected, for: "bob")
        try await monitor.settle(monitor.revocationHandler)
        try await monitor.settle(monitor.revocationHandler, after: .minutes(12))
        #expect(try await monitor.revocationLog() == ["proved"], "an incident may last as long")
        monitor.endpoint.answer(.rejected, for: "ann")
        try await monitor.settle(monitor.revocationHandler, after: .minutes(1))
        #expect(try await monitor.revocationLog() == ["proved", "already_invalid"])
        #expect(try await monitor.state(of: "ann") == "revoked revoked_by_app")
        #expect(monitor.endpoint.revocations.count == 1, "what is dead is not revoked")
    }

    /// By the clock the 200 comes after the rejection, but it came before.
    @Test func a200FromAClockThatWasSetBackProvesNothing() async throws {
        for user in ["ann", "bob"] { try await monitor.signIn(user, isAccepted: true) }
        let now = monitor.clock.now
        monitor.clock.advance(by: .hours(2))
        monitor.endpoint.answer(.valid, .rejected, for: "bob")
        try await monitor.revoke("bob")
        monitor.clock.set(to: now.advanced(by: .minutes(1)))
        monitor.endpoint.answer(.rejected, .rejected, for: "ann")
        try await monitor.revoke("ann")
        let calls = monitor.endpoint.calls.count
        try await monitor.settle(monitor.revocationHandler, after: .hours(3))
        #expect(monitor.endpoint.calls.count == calls, "nothing has been accepted since")
        #expect(try await monitor.revocationLog() == ["proved"])
        #expect(try await monitor.state(of: "ann") == "authorized granted")
    }

    /// An incident at Apple, or a mistake of ours, gave a wrong answer about a live token.
    @Test func whatAppleAcceptsWhenItIsAskedAgainIsRevoked() async throws {
        for user in ["ann", "bob"] { try await monitor.signIn(user, isAccepted: true) }
        monitor.clock.advance(by: .minutes(1))
        monitor.endpoint.answer(.rejected, for: "ann")
        try await monitor.revoke("ann")
        try await monitor.settle(monitor.revocationHandler, after: .minutes(16))
        #expect(try await monitor.revocationLog() == [], "nobody of the client has been accepted since")
        monitor.endpoint.answer(.valid, .valid, .rejected, for: "ann")
        try await monitor.settle(monitor.refreshHandler, after: .days(1))
        for _ in 1...3 { try await monitor.settle(monitor.revocationHandler, after: .minutes(1)) }
        #expect(monitor.endpoint.revocations.map(\.token.reveal) == ["token-of-ann"])
        #expect(try await monitor.revocationLog() == ["proved"])
    }

    /// Apple accepted the token for one team and rejects it to another. siwatch cannot know whether it is dead, and the receipt says so.
    @Test func aTokenOfTheOldTeamIsNeitherProvedNorTakenForDead() async throws {
        for user in ["ann", "bob"] { try await monitor.signIn(user, isAccepted: true) }
        monitor.endpoint.sign(with: "NEWKEY0001", of: "NEWTEAM001")
        monitor.endpoint.answer(.rejected)
        for user in ["ann", "bob"] { try await monitor.requestRevocation(user, at: monitor.clock.now.advanced(by: .seconds(60))) }
        try await monitor.settle(monitor.revocationHandler, after: .minutes(2))
        #expect(try await monitor.revocationLog().isEmpty, "the team may be a mistake: it waits")
        // Apple accepts the new team.
        try await monitor.signIn("new")
        monitor.endpoint.answer(.valid, for: "new")
        for _ in 1...2 { try await monitor.settle(monitor.refreshHandler, after: .seconds(91_000)) }
        for wait in [Duration.zero, .minutes(1)] { try await monitor.settle(monitor.revocationHandler, after: wait) }
        #expect(try await monitor.revocationLog() == ["rejected other_team", "rejected other_team"])
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(monitor.endpoint.revocations.isEmpty)
    }

    @Test func anOpenBreakerDelaysWhatWasDeadAlone() async throws {
        for user in ["ann", "bob", "eve"] { try await monitor.signIn(user, isAccepted: true) }
        monitor.endpoint.answer(.rejected, for: "ann")
        monitor.endpoint.answer(.valid, .rejected, for: "bob")
        for user in ["ann", "bob"] { try await monitor.revoke(user) }
        #expect(try await monitor.revocationLog() == ["proved"])
        // Apple blames the configuration in the answer to a user's check.
        monitor.endpoint.answer(.misconfigured("invalid_client"), .valid, for: "eve")
        try await monitor.settle(monitor.refreshHandler, after: .minutes(11))
        #expect(try await monitor.storedBreaker?.isOpen == true)
        try await monitor.settle(monitor.revocationHandler)
        #expect(try await monitor.revocationLog() == ["proved"], "held")
        try await monitor.settle(monitor.refreshHandler, after: .minutes(2))
        #expect(try await monitor.storedBreaker?.isOpen == false)
        monitor.endpoint.answer(.rejected, for: "ann")
        try await monitor.settle(monitor.revocationHandler, after: .minutes(2))
        #expect(try await monitor.revocationLog() == ["proved", "already_invalid"])
    }

    /// A later sign-in brought a truncated token. Apple rejects it and still accepts the live one.
    @Test func aTruncatedTokenMakesNoReceipt() async throws {
        try await monitor.signIn("ann", token: "good")
        try await monitor.signIn("bob")
        try await monitor.settle(monitor.refreshHandler, after: .minutes(11))
        try await monitor.signIn("ann", token: "go")
        monitor.clock.advance(by: .minutes(1))
        try await monitor.requestRevocation("ann")
        // siwatch asks about both. The newer one is invalid. The older one is good, is revoked, and is dead.
        monitor.endpoint.answer(.valid, .rejected, for: "ann")
        monitor.endpoint.reject(token: "go-of-ann")
        try await monitor.settle(monitor.revocationHandler)
        for _ in 1...300 {
            try await monitor.settle(monitor.refreshHandler, after: .minutes(10))
            try await monitor.settle(monitor.revocationHandler)
        }
        #expect(try await monitor.revocationLog() == ["proved", "no_valid_token"])
        #expect(monitor.endpoint.revocations.map(\.token.reveal) == ["good-of-ann"])
        #expect(try await monitor.state(of: "ann") == "revoked revoked_by_app")
    }

    /// Apple names another user, or sends no id_token. Revoking the token would sign out another person.
    @Test(arguments: [(EndpointAnswer<RefreshNews>.anotherUser, "another_user"), (.unnamed, "unnamed_user")])
    func aTokenThatNamesAnotherUserOrNobodyIsNotRevoked(_ answer: EndpointAnswer<RefreshNews>, _ reason: String) async throws {
        monitor.endpoint.answer(answer)
        try await monitor.signIn("ann")
        monitor.clock.advance(by: .minutes(1))
        try await monitor.revoke("ann")
        #expect(try await monitor.revocationLog() == ["rejected \(reason)"])
        #expect(monitor.endpoint.revocations.isEmpty)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
    }

    @Test func aClientThatAppleRefusesHoldsUpNoDeletionAtAnother() async throws {
        monitor.endpoint.answer(.misconfigured("invalid_client"), for: "eve")
        monitor.endpoint.answer(.valid, .rejected, for: "ann")
        try await delete("eve", monitor, clients: [Monitor.clients[1]], isSettled: true)
        try await delete("ann", monitor, isSettled: true)
        #expect(try await monitor.revocationLog() == ["proved"])
        #expect(try await monitor.state(of: "ann") == "revoked revoked_by_app")
        // siwatch tries the other one more and more rarely.
        for _ in 1...60 { try await monitor.settle(monitor.revocationHandler, after: .seconds(10)) }
        let asked = monitor.asked("eve")
        #expect((3...6).contains(asked), "\(asked)")
        let refused = "SELECT client_id || ' ' || refusal FROM client WHERE refused_at IS NOT NULL"
        #expect(try await monitor.value(refused) == "\(Monitor.clients[1]) invalid_client")
        monitor.endpoint.answer(.valid, .rejected, for: "eve")
        try await monitor.settle(monitor.revocationHandler, after: .hours(6))
        #expect(try await monitor.revocationLog() == ["proved", "proved"])
        #expect(try await monitor.count("SELECT COUNT(*) FROM client WHERE refused_at IS NOT NULL") == 0)
    }

    // MARK: Not revoked

    @Test func whereTheConfigurationForbidsItAppleIsNotAsked() async throws {
        try await delete("ann", monitor)
        try await monitor.settle(monitor.revocationHandler(mayRevoke: false))
        #expect(try await monitor.revocationLog() == ["rejected revocations_disabled"])
        #expect(monitor.endpoint.revocations.isEmpty && monitor.endpoint.calls.isEmpty)
        #expect(try await monitor.state(of: "ann") == "authorized granted")
    }

    /// siwatch opened a request, and restarts with another configuration. It does not send a revocation that it had not sent, and proves
    /// one that it had sent.
    @Test(arguments: [1, 2]) func aForbiddenRequestIsTakenBack(_ answered: Int) async throws {
        try await delete("ann", monitor, answers: .valid, .rejected)
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
        try await delete("ann", monitor, answers: .unavailable("timeout"), isSettled: true)
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
        try await delete("ann", monitor, answers: .valid, .rejected)
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
        monitor.endpoint.answerCodes(.unavailable("status 503", isAnswerLost: false), .issued("ann"))
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
        try await delete("ann", monitor, answers: .valid, .rejected)
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
        try await delete("ann", monitor, answers: .valid, .rejected)
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
        try await delete("ann", monitor, isSettled: true)
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
        try await delete("ann", monitor, isSettled: true)
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
        try await delete("ann", monitor, answers: outcome, .valid, outcome, .anotherUser, .rejected)
        try await monitor.settle(monitor.revocationHandler)
        for _ in 2...5 { try await monitor.settle(monitor.revocationHandler, after: .minutes(3)) }
        #expect(try await monitor.revocationLog() == ["proved"])
        #expect(monitor.endpoint.revocations.count == 1)
    }

    /// Steps of a proof follow from committed answers. Only the request in flight comes again.
    @Test func aCrashBetweenTwoCallsRepeatsOneAtMost() async throws {
        try await delete("ann", monitor, answers: .valid, .rejected)
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
        try await delete("ann", monitor, answers: .valid, .rejected)
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
        try await delete("ann", monitor)
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
        try await delete("ann", monitor, answers: .rejected)
        monitor.clock.advance(by: .seconds(1))
        for _ in 1...20 {
            _ = try await monitor.loop(monitor.revocationHandler).round()
            try await monitor.execute("UPDATE revocation SET due_at = 0")
        }
        #expect(monitor.endpoint.calls.count == 1)
        #expect(monitor.budget.take(upTo: 64, at: monitor.clock.now) == 9, "one of ten was used")
    }

    // MARK: Beside the rest

    /// The daily check of the same token is under way during the revocation. The proof stands with any answer to it.
    @Test(arguments: [.valid, .rejected, .unavailable("timeout")] as [EndpointAnswer<RefreshNews>])
    func aCheckThatIsUnderWayChangesNothing(_ outcome: EndpointAnswer<RefreshNews>) async throws {
        try await delete("ann", monitor)
        monitor.clock.advance(by: .minutes(11))
        let check = try await monitor.refreshHandler.claim(upTo: 64)[0]
        monitor.endpoint.answer(outcome)
        let settlements = await monitor.refreshHandler.resolve(check)
        monitor.endpoint.answer(.valid, .rejected)
        try await monitor.settle(monitor.revocationHandler)
        try await monitor.writer.submit(settlements)
        #expect(try await monitor.state(of: "ann") == "revoked revoked_by_app")
        #expect(try await monitor.due("ann") == nil)
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE pending_since IS NOT NULL") == 0)
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_change WHERE kind = 'state'") == 2, "nobody is brought back")
        #expect(try await monitor.settle(monitor.refreshHandler, after: .hours(48)) == 0)
    }

    /// Apple may report it before the proof or after. The table of rules gives the reason.
    @Test(arguments: [2, 3, 4, 5]) func applesOwnWordIsTolerated(_ rounds: Int) async throws {
        try await delete("ann", monitor, answers: .valid, .rejected)
        for _ in 1..<rounds { _ = try await monitor.loop(monitor.revocationHandler).round() }
        monitor.clock.advance(by: .seconds(1))
        try await monitor.hear("consent-revoked ann \(monitor.clock.now.milliseconds)")
        try await monitor.settle(monitor.revocationHandler)
        #expect(try await monitor.state(of: "ann") == "revoked revoked_by_app")
        #expect(try await monitor.revocationLog() == ["proved"])
    }

    @Test func noTokenStandsInTheReceipt() async throws {
        try await delete("ann", monitor, answers: .valid, .rejected, isSettled: true)
        let rows = try await monitor.store.writer.read { try Row.fetchAll($0, sql: "SELECT * FROM revocation_log").map { "\($0)" } }
        #expect(rows.count == 1)
        #expect(rows.allSatisfy { !$0.contains("r-com.example.app") && !$0.contains("ppa.elpmaxe.moc-r") })
    }
}
