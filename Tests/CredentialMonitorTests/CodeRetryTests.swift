// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import GRDB
import Testing

@testable import SQLiteStore

/// Codes that Apple does not answer at once: the road to Apple is bad, there is no permit, or Apple refuses the client.
struct CodeRetryTests {
    private let monitor = try! Monitor()

    @Test func theRoadIsTriedAgain() async throws {
        monitor.endpoint.answerCodes(.down, .down, .down, .down, .down, .issued("ann"))
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
        monitor.endpoint.answerCodes(.down)
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
        case "503": monitor.endpoint.answerCodes(.down, .used)
        default: monitor.endpoint.answerCodes(.lost, .refused(.codeExpired, detail: "expired"))
        }
        if how == "crash" {
            monitor.endpoint.answerCodes(.used)
            try monitor.store.recover()
        } else {
            try await monitor.settle(handler)
        }
        try await monitor.settle(handler, after: how == "late" ? .minutes(5) : .seconds(1))
        #expect(try await monitor.grantLog() == ["rejected answer_lost"])
        #expect(try await monitor.state(of: "ann") == nil, "never authorized")
        #expect(monitor.endpoint.exchanges.count == (["crash", "late"].contains(how) ? 1 : 2))
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
        monitor.endpoint.answerCodes(.down)
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
}
