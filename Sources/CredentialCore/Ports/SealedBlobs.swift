// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The sealed bytes of the tables, so that a new sealing key can take over from an old one.
package protocol SealedBlobs: Sendable {
    /// How many sealed values stand under each key, by the key's id in hexadecimal; those that backends have sealed stand under the id of
    /// the public key. It reads whole tables.
    func sealedBlobs() async throws -> [String: Int]
    /// The same of siwatch's own values that meet a condition. A value of a client that the tables do not hold counts too, because nothing
    /// opens it.
    func sealedBlobs(where isMeant: @Sendable (SealedBlob) -> Bool) async throws -> [String: Int]
    /// Gives up every token, because its key is lost, and keeps the state of every user. Takes the new fingerprint key in place of the old.
    /// - Returns: how many tokens were given up.
    func abandonTokens(fingerprintKey: [UInt8]) async throws -> Int
    /// Seals a portion of the tables anew, where the last one ended, and writes each value only if the old one still stands there. A new
    /// process begins at the start. Queues drain by themselves.
    ///
    /// - Parameters:
    ///   - limit: how many rows it looks at.
    ///   - seal: the new bytes, or nil for a value that stays as it is. It runs outside of transactions.
    func reseal(upTo limit: Int, _ seal: @Sendable (SealedBlob) async throws -> [UInt8]?) async throws -> Resealing
    /// Writes down how many values stand under each key and open, and how many are lost, so that others need not count. Forgets the counts
    /// and seals of all other keys.
    func noteSealedBlobs(_ counts: [String: Int], lost: [String: Int], at now: Timestamp) async throws
    /// Adds to the number of seals of each key, by its id. It may be 0: from then on `sealedCounts` knows the key.
    func noteSeals(_ counts: [String: Int]) async throws
    func sealedCounts() async throws -> SealedCounts
}

package enum SealedBlob: Sendable {
    case token(SealedToken, of: CredentialID, grantedAt: Timestamp)
    case secret([UInt8], named: String)
}

/// What became of a portion.
package struct Resealing: Sendable, Equatable {
    package var resealed: Int
    /// Values that somebody has written or locked meanwhile, for the next walk.
    package var left: Int
    /// Whether it was the last one.
    package var isDone: Bool

    package init(resealed: Int, left: Int = 0, isDone: Bool) { (self.resealed, self.left, self.isDone) = (resealed, left, isDone) }
}

/// What stands under each sealing key, as the housekeeping last counted, and how often each has sealed.
package struct SealedCounts: Sendable, Equatable {
    package var countedAt: Timestamp?
    /// By the key's id in hexadecimal.
    package var keys: [String: OfKey] = [:]

    package struct OfKey: Sendable, Equatable, Codable {
        package var blobs = 0
        /// Those besides that did not open with the key.
        package var lost = 0
        package var seals = 0

        package init(blobs: Int = 0, lost: Int = 0, seals: Int = 0) { (self.blobs, self.lost, self.seals) = (blobs, lost, seals) }
    }

    /// The seals at which a key should be replaced: half of those that AES-GCM allows with random nonces (NIST SP 800-38D, 8.3).
    package static let mostSeals = 1 << 31

    package init() {}
}
