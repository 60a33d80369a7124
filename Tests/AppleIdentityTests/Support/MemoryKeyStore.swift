// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// A key store in memory.
final class MemoryKeyStore: SigningKeyStore {
    struct Full: Error {}

    private let records: NIOLockedValueBox<[String: SigningKeyRecord]>
    private let isFull: Bool

    init(_ records: [SigningKeyRecord] = [], isFull: Bool = false) {
        self.records = NIOLockedValueBox(Dictionary(uniqueKeysWithValues: records.map { ($0.keyID, $0) }))
        self.isFull = isFull
    }

    var all: [SigningKeyRecord] {
        records.withLockedValue { $0.values.sorted { $0.keyID < $1.keyID } }
    }

    func signingKeys() async throws -> [SigningKeyRecord] { all }

    func remember(_ keys: [SigningKeyRecord], forgetting others: [SigningKeyRecord]) async throws {
        guard !isFull else { throw Full() }
        records.withLockedValue { records in
            for key in others where records[key.keyID]?.proof == key.proof { records[key.keyID] = nil }
            for key in keys { records[key.keyID] = key }
        }
    }
}
