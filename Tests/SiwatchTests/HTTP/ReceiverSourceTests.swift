// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import DaemonHarness
import Foundation
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

    private func isSilent(_ source: ReceiverSource) async throws -> Bool {
        if case .silent = try await source.receiver().send(message, at: .earliest) { true } else { false }
    }

    /// Such as `localhost`, if the backend listens on one of its two addresses.
    @Test func anAddressWhereNobodyAnswersIsLeftForTheNext() async throws {
        try await HookReceiver().serve { port in
            let (delivery, keys) = try configured(port: port)
            let source = ReceiverSource(delivery, keys) { _, _ in ["127.0.0.2", "127.0.0.1"] }
            #expect(try await isSilent(source))
            #expect(await source.goesToAnotherAddress())
            for _ in 1...2 { #expect(try await source.receiver().send(message, at: .earliest) == .taken) }
            // Both were tried in vain now, so a pause comes first.
            #expect(await !source.goesToAnotherAddress())
            await source.close()
        }
    }

    @Test func aHostWithOneAddressHasNoOther() async throws {
        let (delivery, keys) = try configured(port: 1)
        let source = ReceiverSource(delivery, keys) { _, _ in ["127.0.0.1"] }
        for _ in 1...3 {
            #expect(try await isSilent(source))
            #expect(await !source.goesToAnotherAddress())
        }
        await source.close()
    }
}
