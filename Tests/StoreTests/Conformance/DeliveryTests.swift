// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import BoundedHTTP
import CredentialCore
import CredentialTesting
import DaemonHarness
import Foundation
import NIOConcurrencyHelpers
import Testing
import Webhooks

/// When a change is sent again: a real store, a real receiver, and the test's own time.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct DeliveryTests: ConformanceSuite {
    private let clock = TestClock(now: .start)
    private let receiver = HookReceiver()
    private let news = NIOLockedValueBox<[DeliveryNews]>([])

    private func withDelivery(_ body: (Delivery) async throws -> Void) async throws {
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: .bounded)
        let transport = HTTPTransport(client: client, userAgent: "test", timeout: .seconds(20), largestBody: 1024)
        let secret = try #require(WebhookSecret(Secret("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")))
        do {
            try await receiver.serve { [news] port in
                let url = try #require(URL(string: "http://127.0.0.1:\(port)/"))
                let delivery = Delivery(
                    "hook",
                    store.ports,
                    apps: nil,
                    types: Set(WebhookType.allCases),
                    withAddress: false,
                    clock: clock.wallClock,
                    receiver: { Receiver(url: url, secrets: [secret], transport: transport) },
                    note: { told in news.withLockedValue { $0.append(told) } }
                )
                try await store.ports.beginDelivery("hook")
                try await body(delivery)
            }
        } catch {
            try await client.shutdown()
            throw error
        }
        try await client.shutdown()
    }

    /// Answers what is about `user` with one status, and all else with another.
    private func answer(_ status: Int, to user: String, others: Int = 200) {
        receiver.answer { $0.body.contains("\"\(user)\"") ? status : others }
    }

    /// A round in which the receiver takes the change of `good`, and answers that of `bad` with a status.
    private func fail(_ status: Int, _ delivery: Delivery) async throws {
        answer(status, to: "bad")
        for user in ["bad", "good"] { try await store.signIn(user) }
        #expect(try await delivery.round() == .none)
    }

    /// How long a change waits for its next try; nil if it does not.
    private func wait() async throws -> Duration? {
        let due = try await store.column("SELECT due_at FROM delivery_retry").first?.integer
        return due.map { clock.now.duration(to: Timestamp(milliseconds: $0)) }
    }

    /// Nothing is sent about a forgotten user: neither what failed, nor what was still to come, nor the row that stays.
    @Test func aForgottenUserIsInNoWebhook() async throws {
        try await withDelivery { delivery in
            answer(500, to: "ann")
            for user in ["ann", "bob"] { try await store.signIn(user, token: user) }
            _ = try await delivery.round()
            #expect(try await store.count("delivery_retry") == 1)
            guard case .forgotten(let failed) = try await store.forget("ann", evenIfAuthorized: true) else { return _ = Issue.record() }
            #expect(failed.unsentWebhooks == ["hook": 1])
            #expect(try await store.count("delivery_retry") == 0)

            try await store.signIn("eve", token: "eve")
            guard case .forgotten(let unsent) = try await store.forget("eve", evenIfAuthorized: true) else { return _ = Issue.record() }
            #expect(unsent.unsentWebhooks == ["hook": 1])
            let before = receiver.hooks.count
            _ = try await delivery.round()
            let position = try #require(try await store.ports.delivery("hook"))
            #expect(position.behind == 0 && position.waiting == 0 && receiver.hooks.count == before)
            #expect(!receiver.hooks.contains { $0.body.contains("forgotten") || $0.body.contains("eve") })
        }
    }

    private func tries(of user: String) -> Int { receiver.hooks.count { $0.body.contains("\"\(user)\"") } }

    @Test func anAbsentReceiverHearsSoonAfterItsReturn() async throws {
        try await withDelivery { delivery in
            try await fail(503, delivery)
            #expect(try await wait() == .seconds(5))
            answer(503, to: "bad", others: 503)
            for _ in 1...100 {
                clock.advance(by: .minutes(2))
                #expect(try await delivery.round() == .idle)
            }
            #expect(tries(of: "bad") < 50)
            answer(200, to: "bad")
            clock.advance(by: .minutes(5))
            #expect(try await delivery.round() == .idle)
            #expect(try await wait() == nil)
        }
    }

    /// Nobody knows yet whether the receiver is away or hangs at that one change.
    @Test func aChangeWithoutAnAnswerHoldsUpNoNewOne() async throws {
        try await withDelivery { delivery in
            try await fail(503, delivery)
            for _ in 1...5 {
                clock.advance(by: try #require(try await wait()))
                #expect(try await delivery.round() == .idle)
            }
            try await store.signIn("new", at: clock.now)
            #expect(try await delivery.round() == .none)
            #expect(tries(of: "new") == 1)
        }
    }

    /// It cuts requests off, and says nothing of the receiver or of a change.
    @Test func aStopIsNoFailure() async throws {
        try await withDelivery { delivery in
            try await fail(503, delivery)
            // The receiver is there, so each further silence would count against the change.
            clock.advance(by: try #require(try await wait()) - .seconds(1))
            try await store.signIn("other", at: clock.now)
            #expect(try await delivery.round() == .none)
            clock.advance(by: .seconds(1))

            let failures = try await store.column("SELECT failures FROM delivery_retry").first?.integer
            let round = NIOLockedValueBox<Task<Void, Never>?>(nil)
            receiver.answer { _ in
                round.withLockedValue { $0?.cancel() }
                return 503
            }
            round.withLockedValue { $0 = Task { _ = try? await delivery.round() } }
            await round.withLockedValue(\.self)?.value
            #expect(tries(of: "bad") == 2)
            #expect(try await store.column("SELECT failures FROM delivery_retry").first?.integer == failures)
        }
    }

    @Test func aChangeAtWhichAReceiverHangsIsTriedMoreAndMoreRarely() async throws {
        try await withDelivery { delivery in
            try await fail(503, delivery)
            var waits: [Duration] = []
            for count in 1...12 {
                waits.append(try #require(try await wait()))
                clock.advance(by: waits[waits.count - 1] - .seconds(1))
                try await store.signIn("good\(count)", at: clock.now)
                #expect(try await delivery.round() == .none)
                clock.advance(by: .seconds(1))
                #expect(try await delivery.round() == .idle)
            }
            #expect(waits.prefix(5) == [.seconds(5), .minutes(5), .minutes(30), .hours(2), .hours(5)])
            #expect(waits.last == .hours(24))
            #expect(tries(of: "bad") == 13)
            #expect(!news.withLockedValue { $0.contains(.sent(.dead, 1)) })
        }
    }

    @Test func aRefusedChangeIsDeadAfterTheTenthTry() async throws {
        try await withDelivery { delivery in
            try await fail(400, delivery)
            while let wait = try await wait() {
                clock.advance(by: wait)
                _ = try await delivery.round()
            }
            #expect(tries(of: "bad") == 10)
            #expect(news.withLockedValue { $0.contains(.sent(.dead, 1)) })
            let life = Timestamp.start.duration(to: clock.now)
            #expect(life == .hours(75) + .seconds(35 * 60 + 5))
            #expect(try await store.ports.replay("hook", at: clock.now) == 1)
            answer(200, to: "bad")
            #expect(try await delivery.round() == .idle)
            #expect(try await store.count("delivery_retry") == 0)
        }
    }

    /// The next try is set by a clock that is a month ahead.
    @Test func aClockThatIsSetBackDelaysNoTry() async throws {
        try await withDelivery { delivery in
            answer(400, to: "bad")
            let now = clock.now
            clock.set(to: now + .days(30))
            for user in ["bad", "good"] { try await store.signIn(user) }
            _ = try await delivery.round()
            clock.set(to: now)
            answer(200, to: "bad")
            _ = try await delivery.round()
            #expect(tries(of: "bad") == 2)
            #expect(try await store.count("delivery_retry") == 0)
        }
    }

    @Test func whatWasNeverTakenIsCountedWhenItGoes() async throws {
        try await withDelivery { delivery in
            try await fail(400, delivery)
            #expect(try await store.ports.forgetUndeliverable() == [:])
            let end: Timestamp = .start + Retention().changes
            try await store.ports.maintain(at: end + .seconds(1))
            #expect(try await store.ports.forgetUndeliverable() == ["hook": 1])
            #expect(try await store.ports.forgetUndeliverable() == [:])
        }
    }
}
