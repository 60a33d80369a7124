// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialSealing

/// The database of a configuration, locked, migrated and unsealed.
struct OpenedDatabase {
    var location: DatabaseLocation
    var store: any CredentialStore
    /// For what comes in over HTTP, if that does not go to the store as well.
    private(set) var doorStore: (any CredentialStore)?
    var sealer: CredentialSealer
    var program: String
    let cutMemory: String?
    let hasNewKey: Bool
    let replica: Replica

    private let lock: DatabaseLock?

    /// Takes the lock, then examines the database before anything is written to it.
    init(_ configuration: Configuration, _ keys: Keys) async throws(CommandFailure) {
        let database = try configuration.namedDatabase()
        location = database
        cutMemory = database.cutMemory
        let obstacles = database.obstacles(besideKey: configuration.encryption.keyFile)
        guard obstacles.isEmpty else { throw .unusable(obstacles) }
        var lock: DatabaseLock?
        do {
            lock = try database.lock()
            self.lock = lock
            if keys.ring == nil, try database.hasSealedRows() { throw CommandFailure.missingKey(of: configuration) }
            store = try database.open(retention: configuration.retention)
            program = try await database.program(of: store)
            hasNewKey = keys.ring == nil
            let ring = try keys.ring ?? configuration.newKeyRing()
            let sealed = try store.sealedSecret(named: CredentialSealer.fingerprintKeyName) {
                try CredentialSealer.newFingerprintKey(sealedBy: ring)
            }
            sealer = try CredentialSealer(ring: ring, sealedFingerprintKey: sealed)
            if let id = try await sealer.missingKey(in: store) { throw SealingError.unknownKey(id: id) }
            try await sealer.note(sealer.keyIDs, in: store)
            store.trust(sealer, since: Invocation.current.clock.now, DecisionFile(beside: configuration.operations.socket))
            // Frees what a former holder of the lock had claimed. Not on a server, because replicas there may still work on their claims.
            try store.recover()
            replica = Replica(configuration)
            try await replica.join(store, sharing: sealer)
            do {
                try store.register(configuration.clientsOfApps)
                if configuration.http.listen != nil { doorStore = try location.openForDoor() }
            } catch {
                await leave()
                throw error
            }
        } catch {
            lock?.release()
            switch error {
            case let failure as CommandFailure: throw failure
            case let error as SealingError: throw .wrongKey(of: configuration, error)
            default: throw CommandFailure(database: error)
            }
        }
    }

    func leave() async { try? await store.fleet?.release() }

    func close() async {
        try? await doorStore?.close()
        try? await store.close()
        lock?.release()
    }
}

extension Configuration {
    /// Makes the sealing key. A service often may not write the folder of its keys.
    fileprivate func newKeyRing() throws(CommandFailure) -> KeyRing {
        do {
            return try KeyRing.create(at: encryption.keyFile)
        } catch {
            let remedy = "run siwatch migrate once before the first start, as this user, in a shell that may write that folder"
            throw .unusable(["encryption.key_file: \(error); \(remedy)"])
        }
    }
}
