// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import BoundedHTTP
import CredentialCore
import Foundation
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import Webhooks

/// The secrets that a delivery signs with, and the authorities that it trusts, read and found usable.
struct DeliveryKeys: Sendable {
    /// Two while a secret changes.
    var secrets: [WebhookSecret] = []
    /// Nil for the authorities of the host.
    var authorities: TrustedAuthorities?
}

/// Finds where a delivery goes, and keeps connections to there.
///
/// It looks the host up itself and connects to the address that it has judged, so that a name cannot lead elsewhere in between.
actor ReceiverSource {
    private let delivery: Configuration.Delivery
    private let keys: NIOLockedValueBox<DeliveryKeys>
    private let resolve: @Sendable (_ host: String, _ allowingAny: Bool) throws -> [String]
    private var current: Way?

    private struct Way {
        var address: String
        var authorities: TrustedAuthorities?
        var validUntil: ContinuousClock.Instant
        var client: HTTPClient
        var transport: HTTPTransport
    }

    /// How long an address is believed.
    private static let validity = Duration.minutes(1)
    private static let mostTried = 4

    /// - Parameter resolve: looks a host up, on the thread of the caller.
    init(
        _ delivery: Configuration.Delivery,
        _ keys: DeliveryKeys,
        resolve: @escaping @Sendable (_ host: String, _ allowingAny: Bool) throws -> [String] = HostAddress.resolve(_:allowingAny:)
    ) {
        self.delivery = delivery
        self.resolve = resolve
        self.keys = NIOLockedValueBox(keys)
    }

    nonisolated func use(_ new: DeliveryKeys) { keys.withLockedValue { $0 = new } }

    func receiver() async throws -> Receiver {
        let now = ContinuousClock.now
        let keys = self.keys.withLockedValue(\.self)
        let isKnown = current.map { now < $0.validUntil && $0.authorities == keys.authorities } ?? false
        if !isKnown { try await find(at: now, trusting: keys.authorities) }
        return Receiver(url: delivery.url, secrets: keys.secrets, transport: current!.transport)
    }

    /// Looks the host up anew for the next round, because nobody has taken a message.
    func lookAgain() { current?.validUntil = .now }

    private func find(at now: ContinuousClock.Instant, trusting authorities: TrustedAuthorities?) async throws {
        let host = delivery.url.host() ?? ""
        let addresses = try await onOwnThread { [resolve, allowingAny = delivery.allowAnyAddress] in try resolve(host, allowingAny) }
        let address = await bestOf(addresses)
        if let known = current, known.address == address, known.authorities == authorities {
            current?.validUntil = now + Self.validity
            return
        }
        // Connections that other authorities have opened end here.
        await close()
        var configuration = HTTPClient.Configuration.bounded
        configuration.dnsOverride = [host: address]
        if let authorities { configuration.trust(authorities) }
        let client = HTTPClient(eventLoopGroupProvider: .shared(HTTPClient.defaultEventLoopGroup), configuration: configuration)
        let transport = HTTPTransport(toAnybodyBy: client)
        current = Way(address: address, authorities: authorities, validUntil: now + Self.validity, client: client, transport: transport)
    }

    /// The first of several addresses that takes a connection; if none does, the first. The present one comes first, so that a resolver that
    /// changes their order ends no connection.
    private func bestOf(_ addresses: [String]) async -> String {
        let ordered = addresses.filter { $0 == current?.address } + addresses.filter { $0 != current?.address }
        guard ordered.count > 1 else { return ordered[0] }
        let port = delivery.url.port ?? (delivery.url.scheme == "http" ? 80 : 443)
        for address in ordered.prefix(Self.mostTried) {
            let connecting = ClientBootstrap(group: HTTPClient.defaultEventLoopGroup).connectTimeout(.seconds(3))
            guard let channel = try? await connecting.connect(host: address, port: port).get() else { continue }
            try? await channel.close()
            return address
        }
        return ordered[0]
    }

    func close() async {
        try? await current?.client.shutdown()
        current = nil
    }
}

extension HTTPTransport {
    /// For URLs that are not Apple's. Standard Webhooks asks for a patience of 15 to 30 seconds.
    init(toAnybodyBy client: HTTPClient) {
        self.init(client: client, userAgent: "siwatch/\(Version.current)", timeout: .seconds(20), largestBody: 65_536)
    }
}
