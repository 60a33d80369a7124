// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Believes a notification only if Apple signed it, for one of our clients, in time.
///
/// It does no I/O and awaits nothing. It notes an unknown key with `SigningKeys`, which fetches on its own schedule, so a flood of forged
/// key names cannot hold up other tokens. Call it from as many tasks as there are cores.
package struct AppleNotificationVerifier: NotificationVerifier {
    private let keys: SigningKeys
    private let policy: NotificationPolicy
    private let clock: WallClock
    private let appleTime: @Sendable () -> Timestamp

    /// - Parameter appleTime: now by Apple's clock, as far as siwatch knows; our clock's time by default.
    package init(keys: SigningKeys, policy: NotificationPolicy, clock: WallClock, appleTime: (@Sendable () -> Timestamp)? = nil) {
        self.keys = keys
        self.policy = policy
        self.clock = clock
        self.appleTime = appleTime ?? { clock.now }
    }

    package func verify(_ payload: [UInt8], receivedAt: Timestamp) async throws(VerificationError) -> VerifiedNotification {
        let token = try CompactJWS(NotificationBody.token(in: payload))
        guard let key = keys.key(token.keyID) else {
            throw keys.absence(of: token.keyID, receivedAt: receivedAt, skew: policy.clockSkew)
        }
        guard key.isValid(token.signature, over: token.signedBytes) else {
            throw .rejected(.badSignature, detail: token.keyID)
        }
        return try NotificationClaims(token.claims)
            .notification(receivedAt: receivedAt, now: clock.now, appleTime: appleTime(), under: policy)
    }
}

/// The rules for which signed notifications siwatch believes.
package struct NotificationPolicy: Sendable, Equatable {
    /// The issuers accepted in `iss`. Apple's own is `https://appleid.apple.com`. In June 2025 Apple's discovery document named another
    /// issuer for a day, while tokens kept this one.
    package var issuers: Set<String>
    /// The clients of all configured apps. `aud` must name one.
    package var clientIDs: Set<String>
    /// The greatest accepted difference between Apple's clock and ours.
    package var clockSkew: Duration

    package init(issuers: Set<String>, clientIDs: Set<String>, clockSkew: Duration) {
        self.issuers = issuers
        self.clientIDs = clientIDs
        self.clockSkew = clockSkew
    }
}
