// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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
