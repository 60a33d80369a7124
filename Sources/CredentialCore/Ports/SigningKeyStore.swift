// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Apple's published keys, remembered across restarts and outages.
package protocol SigningKeyStore: Sendable {
    func signingKeys() async throws -> [SigningKeyRecord]

    /// Stores fetched keys. Notifications that waited for a new key become due, and so do quarantined ones.
    func remember(_ keys: [SigningKeyRecord], fetchedAt: Timestamp) async throws
}

package struct SigningKeyRecord: Sendable, Hashable {
    package var keyID: String
    /// The key as published: one JSON Web Key.
    package var jwk: String
    package var firstSeenAt: Timestamp
    package var lastSeenAt: Timestamp

    package init(keyID: String, jwk: String, firstSeenAt: Timestamp, lastSeenAt: Timestamp) {
        self.keyID = keyID
        self.jwk = jwk
        self.firstSeenAt = firstSeenAt
        self.lastSeenAt = lastSeenAt
    }
}
