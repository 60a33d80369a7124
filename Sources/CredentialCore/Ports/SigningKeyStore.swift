// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Apple's published keys, remembered across restarts and outages.
package protocol SigningKeyStore: Sendable {
    func signingKeys() async throws -> [SigningKeyRecord]
    /// Stores fetched keys, and deletes others whose records are still as given. Notifications that waited for a new key become due, and so
    /// do quarantined ones.
    func remember(_ keys: [SigningKeyRecord], forgetting others: [SigningKeyRecord]) async throws
}

package struct SigningKeyRecord: Sendable, Hashable {
    package var keyID: String
    /// The key as published: one JSON Web Key.
    package var jwk: String
    /// When Apple was last asked and still published the key.
    package var lastSeenAt: Timestamp
    /// Shows that siwatch wrote the record: a code of `SigningKeyVoucher`.
    package var proof: [UInt8]

    package init(keyID: String, jwk: String, lastSeenAt: Timestamp, proof: [UInt8] = []) {
        self.keyID = keyID
        self.jwk = jwk
        self.lastSeenAt = lastSeenAt
        self.proof = proof
    }
}

/// Tells the records that siwatch wrote from those of anybody else who can write into the database.
package protocol SigningKeyVoucher: Sendable {
    /// The record with its proof, which covers all of its other fields.
    func prove(_ record: SigningKeyRecord) -> SigningKeyRecord
    func isProved(_ record: SigningKeyRecord) -> Bool
}

package enum SigningKeyChange: String, Sendable, CaseIterable {
    case new
    case retired
    /// It was retired for so long that it does not count any more.
    case forgotten
    /// A record in the database that siwatch has not written as it is.
    case disbelieved
}
