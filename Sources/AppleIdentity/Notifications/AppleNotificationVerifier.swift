// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Believes a notification only if Apple signed it, for one of our clients, in time.
///
/// It awaits nothing. `SigningKeys` fetches an unknown key on its own schedule, so a flood of forged key names cannot hold up other tokens.
package struct AppleNotificationVerifier: NotificationVerifier {
    private let keys: SigningKeys
    private let policy: NotificationPolicy
    private let clock: WallClock
    private let appleTime: @Sendable () -> Timestamp

    /// - Parameter appleTime: now by Apple's clock, as far as siwatch knows; our clock's time by default.
    package init(keys: SigningKeys, policy: NotificationPolicy, clock: WallClock, appleTime: (@Sendable () -> Timestamp)? = nil) {
        (self.keys, self.policy, self.clock) = (keys, policy, clock)
        self.appleTime = appleTime ?? { clock.now }
    }

    package func verify(_ payload: [UInt8], receivedAt: Timestamp) async throws(VerificationError) -> VerifiedNotification {
        let claims = try keys.claims(of: NotificationBody.token(in: payload), receivedAt: receivedAt, skew: policy.clockSkew)
        return try NotificationClaims(claims)
            .notification(receivedAt: receivedAt, now: clock.now, appleTime: appleTime(), under: policy)
    }
}

package struct NotificationPolicy: Sendable, Equatable {
    /// Apple's is `https://appleid.apple.com`. In June 2025 its discovery document named another for a day, while tokens kept this one.
    package var issuers: Set<String>
    /// Of all configured apps.
    package var clientIDs: Set<String>
    /// Between Apple's clock and ours, at most.
    package var clockSkew: Duration

    package init(issuers: Set<String>, clientIDs: Set<String>, clockSkew: Duration) {
        (self.issuers, self.clientIDs, self.clockSkew) = (issuers, clientIDs, clockSkew)
    }
}
