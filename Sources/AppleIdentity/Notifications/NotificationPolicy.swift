// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Which signed notifications are ours to believe.
package struct NotificationPolicy: Sendable, Equatable {
    /// The issuers accepted in `iss`. Apple's own is `https://appleid.apple.com`; in June 2025 its discovery document named another
    /// for a day, while tokens kept this one.
    package var issuers: Set<String>
    /// The clients of all configured apps: `aud` must name one.
    package var clientIDs: Set<String>
    /// How far Apple's clock and ours may stand apart.
    package var clockSkew: Duration

    package init(issuers: Set<String>, clientIDs: Set<String>, clockSkew: Duration) {
        self.issuers = issuers
        self.clientIDs = clientIDs
        self.clockSkew = clockSkew
    }
}
