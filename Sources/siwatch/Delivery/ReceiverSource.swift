// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import BoundedHTTP
import CredentialCore
import Foundation
import NIOConcurrencyHelpers
import Webhooks

/// Finds where a delivery goes, and keeps connections to there.
///
/// It looks the host up itself and connects to the address that it has judged, so that a name cannot lead elsewhere in between.
actor ReceiverSource {
    private let delivery: Configuration.Delivery
    private let keys: NIOLockedValueBox<DeliveryKeys>
    private var current: Way?

    private struct Way {
        var address: String
        var authorities: TrustedAuthorities?
        var foundAt: ContinuousClock.Instant
        var client: HTTPClient
        var transport: HTTPTransport
    }

    /// How long an address is believed.
    private static let validity = Duration.minutes(1)
    /// Of Standard Webhooks: 15 to 30 seconds.
    private static let timeout = Duration.seconds(20)
    private static let largestAnswer = 65_536

    init(_ delivery: Configuration.Delivery, _ keys: DeliveryKeys) {
        self.delivery = delivery
        self.keys = NIOLockedValueBox(keys)
    }

    nonisolated func use(_ new: DeliveryKeys) { keys.withLockedValue { $0 = new } }

    /// - Throws: `HostAddress.Refused`
    func receiver() async throws -> Receiver {
        let now = ContinuousClock.now
        let keys = self.keys.withLockedValue(\.self)
        let isKnown = current.map { now - $0.foundAt <= Self.validity && $0.authorities == keys.authorities } ?? false
        if !isKnown { try await find(at: now, trusting: keys.authorities) }
        return Receiver(url: delivery.url, secrets: keys.secrets, transport: current!.transport)
    }

    private func find(at now: ContinuousClock.Instant, trusting authorities: TrustedAuthorities?) async throws {
        let host = delivery.url.host() ?? ""
        let address = try await lookUp(host)
        if let known = current, known.address == address, known.authorities == authorities {
            current?.foundAt = now
            return
        }
        // Connections that other authorities have opened end here.
        await close()
        var configuration = HTTPClient.Configuration.bounded
        configuration.dnsOverride = [host: address]
        if let authorities { configuration.trust(authorities) }
        let client = HTTPClient(eventLoopGroupProvider: .shared(HTTPClient.defaultEventLoopGroup), configuration: configuration)
        let transport = HTTPTransport(
            client: client,
            userAgent: "siwatch/\(Version.current)",
            timeout: Self.timeout,
            largestBody: Self.largestAnswer
        )
        current = Way(address: address, authorities: authorities, foundAt: now, client: client, transport: transport)
    }

    /// On a thread of its own, because the system's resolver blocks.
    private func lookUp(_ host: String) async throws -> String {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { [allowingAny = delivery.allowAnyAddress] in
                continuation.resume(with: Result { try HostAddress.resolve(host, allowingAny: allowingAny) })
            }
        }
    }

    func close() async {
        try? await current?.client.shutdown()
        current = nil
    }
}
