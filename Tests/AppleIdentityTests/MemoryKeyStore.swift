// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Synchronization

/// A key store that is gone with the test.
final class MemoryKeyStore: SigningKeyStore {
    struct Full: Error {}

    private let records: Mutex<[String: SigningKeyRecord]>
    private let isFull: Bool

    init(_ records: [SigningKeyRecord] = [], isFull: Bool = false) {
        self.records = Mutex(Dictionary(uniqueKeysWithValues: records.map { ($0.keyID, $0) }))
        self.isFull = isFull
    }

    var all: [SigningKeyRecord] {
        records.withLock { $0.values.sorted { $0.keyID < $1.keyID } }
    }

    func signingKeys() async throws -> [SigningKeyRecord] { all }

    func remember(_ keys: [SigningKeyRecord], fetchedAt: Timestamp) async throws {
        guard !isFull else { throw Full() }
        records.withLock { records in
            for key in keys { records[key.keyID] = key }
        }
    }
}
