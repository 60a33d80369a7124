// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The sealed bytes of the tables, so that a new sealing key can take over from an old one.
package protocol SealedBlobs: Sendable {
    /// How many sealed values stand under each key, by the key's id in hexadecimal; those that backends have sealed stand under the id of
    /// the public key. It reads whole tables.
    func sealedBlobs() async throws -> [String: Int]
    /// Gives up every token, because its key is lost, and keeps the state of every user. Takes the new fingerprint key in place of the old.
    /// - Returns: how many tokens were given up.
    func abandonTokens(fingerprintKey: [UInt8]) async throws -> Int
}
