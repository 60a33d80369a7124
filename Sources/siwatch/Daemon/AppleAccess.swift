// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import AsyncHTTPClient
import CredentialCore
import CredentialMonitor
import Foundation
import Logging
import NIOConcurrencyHelpers

/// The transport to Apple, the signing keys and their verifiers. All apps share them.
struct AppleAccess: Sendable {
    let transport: ObservedTransport
    let notificationVerifier: AppleNotificationVerifier
    let identityTokenVerifier: AppleIdentityTokenVerifier
    private let signingKeys: SigningKeys
    private let context: DaemonContext
    private let asked = NIOLockedValueBox(false)

    /// Whether this process has asked Apple for its keys, and so for the time, even if no answer came.
    var wasAsked: Bool { asked.withLockedValue(\.self) }

    /// - Throws: `StoreError`, when it loads the signing keys that the store has kept.
    init(_ client: HTTPClient, _ context: DaemonContext) async throws {
        let (configuration, clock, telemetry, clockGuard) = (context.configuration, context.clock, context.telemetry, context.clockGuard)
        self.context = context
        transport = ObservedTransport(client: client, version: Version.current, timeout: configuration.refresh.timeout) { exchange in
            telemetry.count(.appleResponses, ["endpoint": exchange.endpoint.rawValue, "status": exchange.status])
            if let date = exchange.date { clockGuard.observe(date, after: exchange.duration) }
        }
        signingKeys = SigningKeys(
            url: configuration.apple.keysEndpoint.absoluteString,
            transport: transport,
            store: context.store,
            voucher: context.sealer,
            clock: clock,
            trustedTime: { clockGuard.trusted },
            tell: { telemetry.signingKeysChanged($0, $1, at: clock.now) }
        )
        try await signingKeys.load()
        telemetry.signingKeysRefreshed(count: signingKeys.count, at: signingKeys.lastRefresh)
        notificationVerifier = AppleNotificationVerifier(
            keys: signingKeys,
            policy: configuration.notificationPolicy,
            clock: clock,
            appleTime: { clockGuard.appleTime }
        )
        identityTokenVerifier = AppleIdentityTokenVerifier(keys: signingKeys, policy: configuration.notificationPolicy, clock: clock)
    }

    func refreshKeys() async {
        let (telemetry, outcome) = (context.telemetry, await signingKeys.refreshIfDue(tellsTime: context.clockGuard.needsApple))
        // A fetch that the end of the process cuts short says nothing of Apple or of the database.
        guard !Task.isCancelled else { return }
        switch outcome {
        case .notDue: return
        case .fetched(nil): break
        case .fetched(let unsaved?): telemetry.log(.signingKeysNotKept, ["error": "\(unsaved)"])
        case .failed(let reason): telemetry.log(.signingKeysFailed, ["error": "\(reason)"])
        }
        asked.withLockedValue { $0 = true }
        telemetry.signingKeysRefreshed(count: signingKeys.count, at: signingKeys.lastRefresh)
    }

    var keyRefresh: Recurring { Recurring(every: .seconds(1), onFailure: { _ in }) { await refreshKeys() } }
}
