// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import GRDB
import Testing

@testable import SQLiteStore

struct RevocationLaneTests {
    private let monitor = try! Monitor()

    @Test func aDeletedAccountIsRevokedAndThatIsProved() async throws {
        try await monitor.delete("ann", answers: .valid, .rejected, isSettled: true)
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
        try await monitor.delete("ann", clients: Monitor.clients, answers: .valid, .valid, .rejected, isSettled: true)
        #expect(try await monitor.revocationLog() == ["proved", "proved"])
        #expect(Set(monitor.endpoint.revocations.map { "\($0.clientID) \($0.token.reveal)" }).count == 2)
        #expect(monitor.endpoint.revocations.allSatisfy { $0.token.reveal == "r-\($0.clientID)-of-ann" })
        for client in Monitor.clients { #expect(try await monitor.state(of: "ann", client: client) == "revoked revoked_by_app") }
    }

    /// Thousands of requests may wait for sign-ins and come again and again.
    @Test func aTokenGoesBeforeRequests() async throws {
        let handler = monitor.revocationHandler
        try await monitor.delete("ann")
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
        try await monitor.delete("ann", answers: .valid, .valid, .valid, .rejected, isSettled: true)
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

        try await monitor.delete("bob")
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
        try await monitor.delete("eve", clients: [Monitor.clients[1]], isSettled: true)
        try await monitor.delete("ann", isSettled: true)
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

    // MARK: Beside the rest

    /// The daily check of the same token is under way during the revocation. The proof stands with any answer to it.
    @Test(arguments: [.valid, .rejected, .unavailable("timeout")] as [EndpointAnswer<RefreshNews>])
    func aCheckThatIsUnderWayChangesNothing(_ outcome: EndpointAnswer<RefreshNews>) async throws {
        try await monitor.delete("ann")
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
        try await monitor.delete("ann", answers: .valid, .rejected)
        for _ in 1..<rounds { _ = try await monitor.loop(monitor.revocationHandler).round() }
        monitor.clock.advance(by: .seconds(1))
        try await monitor.hear("consent-revoked ann \(monitor.clock.now.milliseconds)")
        try await monitor.settle(monitor.revocationHandler)
        #expect(try await monitor.state(of: "ann") == "revoked revoked_by_app")
        #expect(try await monitor.revocationLog() == ["proved"])
    }

    @Test func noTokenStandsInTheReceipt() async throws {
        try await monitor.delete("ann", answers: .valid, .rejected, isSettled: true)
        let rows = try await monitor.store.writer.read { try Row.fetchAll($0, sql: "SELECT * FROM revocation_log").map { "\($0)" } }
        #expect(rows.count == 1)
        #expect(rows.allSatisfy { !$0.contains("r-com.example.app") && !$0.contains("ppa.elpmaxe.moc-r") })
    }
}
