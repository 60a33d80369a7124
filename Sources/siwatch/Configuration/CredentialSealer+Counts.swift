// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialSealing

/// What stands under each key, so that no key goes before what it has sealed.
extension CredentialSealer {
    /// Notes keys before they seal anything, so that `missingKey` knows them from then on.
    func note(_ keyIDs: [String], in store: any CredentialStore) async throws {
        let known = try await store.sealedCounts().keys
        let new = keyIDs.filter { known[$0] == nil }
        try await store.noteSeals(Dictionary(uniqueKeysWithValues: new.map { ($0, 0) }))
    }

    /// The id of a noted key that the ring lacks, and under which more stands than was lost with the key at hand. Reads whole tables if the
    /// ring lacks a noted key.
    func missingKey(in store: any CredentialStore) async throws -> String? {
        let held = keyIDs
        let noted = try await store.sealedCounts().keys.filter { !held.contains($0.key) }
        guard !noted.isEmpty else { return nil }
        let found = try await store.sealedBlobs()
        return noted.sorted { $0.key < $1.key }.first { found[$0.key, default: 0] > $0.value.lost }?.key
    }

    struct Count {
        /// By the id of each key here, its values that open. Those of the sealing key are not tried.
        var standing: [String: Int]
        /// The values that do not open. The key saves none of them.
        var lost: [String: Int]
        /// By the ids of the public keys too, which sealed the tokens of backends that wait.
        var all: [String: Int]
    }

    /// Counts what stands under the keys here, and notes it for all.
    @discardableResult
    func count(in store: any CredentialStore, at now: Timestamp) async throws -> Count {
        let all = try await store.sealedBlobs()
        let (held, sealing) = (openingKeyIDs, sealingKeyID)
        var lost: [String: Int] = [:]
        if held.contains(where: { $0 != sealing && all[$0] != nil }) {
            lost = try await store.sealedBlobs(where: { $0.keyID != sealing && !self.opens($0) })
        }
        let standing: [String: Int] = held.reduce(into: [:]) { $0[$1] = max(0, all[$1, default: 0] - lost[$1, default: 0]) }
        try await store.noteSealedBlobs(standing, lost: lost, at: now)
        return Count(standing: standing, lost: lost, all: all)
    }

    /// - Returns: how many values stand under a key and do not open.
    /// - Throws: `CommandFailure` if anything else stands under it, because it would be lost without the key.
    @discardableResult
    func requireNothing(sealedUnder keyID: String, in store: any CredentialStore, at now: Timestamp) async throws -> Int {
        let count = try await self.count(in: store, at: now)
        // An unreadable one leaves the queue by itself.
        let (own, delivered) = (count.standing[keyID] ?? 0, publicKeyID(of: keyID).flatMap { count.all[$0] } ?? 0)
        let found = [
            own > 0 ? "\(own.counted("sealed value")) in the tables" : nil,
            delivered > 0 ? "\(delivered.counted("token")) of backends in grant_queue" : nil,
        ].compactMap(\.self)
        guard !found.isEmpty else { return count.lost[keyID] ?? 0 }
        let sentence = "\(found.joined(separator: " and ")) would be lost without the key \(keyID)"
        let remedy = "siwatch seals values anew and settles grant_queue while it runs, once its first key is another"
        throw CommandFailure.failed("\(sentence); \(remedy)")
    }
}

extension SealedBlob {
    fileprivate var keyID: String? {
        switch self {
        case .token(let sealed, _, _): CredentialSealer.keyID(of: sealed.bytes)
        case .secret(let sealed, _): CredentialSealer.keyID(of: sealed)
        }
    }
}
