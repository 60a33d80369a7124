// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import GRDB
import Testing

@testable import SQLiteStore

/// Apple has used a code up, and its answer waits for a key or for the store.
struct WaitingAnswerTests {
    private let monitor = try! Monitor()

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
        monitor.endpoint.answerCodes(.issued("ann", as: "new-key"), .used)
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
        monitor.endpoint.answerCodes(.down, .issued("ann"))
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
}
