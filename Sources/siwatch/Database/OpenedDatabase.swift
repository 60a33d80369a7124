// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialSealing
import SQLiteStore

/// The database of a configuration, locked, migrated and unsealed.
struct OpenedDatabase {
    var store: SQLiteStore
    var sealer: CredentialSealer
    var pseudonyms: UserPseudonyms

    private let lock: DatabaseLock

    /// Takes the lock, then looks at the file before anything is written to it.
    init(_ configuration: Configuration, _ keys: Keys) throws(CommandFailure) {
        let file = DatabaseFile(path: configuration.database.path)
        let obstacles = file.obstacles
        guard obstacles.isEmpty else { throw .unusable(obstacles) }
        do {
            lock = try DatabaseLock.retrying(database: file.path)
        } catch {
            throw CommandFailure(database: error)
        }
        do {
            if keys.ring == nil, try file.inspect() != .none, try SQLiteStore.hasSealedRows(in: file) {
                throw CommandFailure.missingKey(of: configuration)
            }
            store = try SQLiteStore.open(file, retention: configuration.retention)
            let ring = try keys.ring ?? KeyRing.create(at: configuration.encryption.keyFile)
            let sealed = try store.sealedSecret(named: CredentialSealer.fingerprintKeyName) {
                try CredentialSealer.newFingerprintKey(sealedBy: ring)
            }
            sealer = try CredentialSealer(ring: ring, sealedFingerprintKey: sealed)
            pseudonyms = UserPseudonyms(ring)
            try store.recover()
            try store.register(configuration.clientsOfApps)
        } catch let failure as CommandFailure {
            throw failure
        } catch let error as SealingError {
            throw .wrongKey(of: configuration, error)
        } catch {
            throw CommandFailure(database: error)
        }
    }

    func close() {
        try? store.close()
        lock.release()
    }
}
