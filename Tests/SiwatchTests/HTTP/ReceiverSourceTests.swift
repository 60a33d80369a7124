// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import DaemonHarness
import Foundation
import NIOConcurrencyHelpers
import Testing
import Webhooks

@testable import siwatch

/// Where webhooks go if a host has several addresses.
@Suite(.timeLimit(.minutes(5))) struct ReceiverSourceTests {
    private let message = WebhookMessage(test: .earliest, nonce: 1)

    private func configured(port: Int) throws -> (Configuration.Delivery, DeliveryKeys) {
        var delivery = Configuration.Delivery()
        delivery.url = try #require(URL(string: "http://receiver.test:\(port)/"))
        return (delivery, DeliveryKeys(secrets: [try #require(WebhookSecret(Secret(Hook.secret)))]))
    }

    private func answer(of source: ReceiverSource) async throws -> Receiver.Answer {
        try await source.receiver().send(message, at: .earliest)
    }

    /// Such as `localhost`, if the backend listens on one of its two addresses.
    @Test func anAddressThatTakesNoConnectionIsLeftForTheNext() async throws {
        try await HookReceiver().serve { port in
            let (delivery, keys) = try configured(port: port)
            let source = ReceiverSource(delivery, keys) { _, _ in ["127.0.0.2", "127.0.0.1"] }
            for _ in 1...2 {
                #expect(try await answer(of: source) == .taken)
                await source.lookAgain()
            }
            await source.close()
        }
    }

    @Test func aFailureLooksTheHostUpAnew() async throws {
        try await HookReceiver().serve { port in
            let (delivery, keys) = try configured(port: port)
            let address = NIOLockedValueBox("127.0.0.2")
            let source = ReceiverSource(delivery, keys) { _, _ in [address.withLockedValue(\.self)] }
            guard case .silent = try await answer(of: source) else { throw HarnessError("somebody listens there") }
            address.withLockedValue { $0 = "127.0.0.1" }
            guard case .silent = try await answer(of: source) else { throw HarnessError("an address is believed for a minute") }
            await source.lookAgain()
            #expect(try await answer(of: source) == .taken)
            await source.close()
        }
    }
}
