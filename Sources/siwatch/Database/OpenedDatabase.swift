// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialSealing
import Foundation
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
            lock = try DatabaseLock.patiently(database: file.path)
        } catch {
            throw CommandFailure(database: error)
        }
        do {
            if keys.ring == nil, try file.inspect() != .none, try SQLiteStore.hasSealedRows(in: file) {
                throw CommandFailure.missingKey(of: configuration)
            }
            store = try SQLiteStore.open(file, retention: Retention(configuration.retention))
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

extension Retention {
    init(_ configuration: Configuration.Retention) {
        self.init()
        notificationLog = configuration.notificationLog
        quarantine = configuration.quarantine
        changes = configuration.changes
        grantLog = configuration.grantLog
        revocationLog = configuration.revocationLog
        rejectedToken = configuration.rejectedToken
    }
}

extension Configuration {
    var clientsOfApps: [AppClients] { apps.map { AppClients(name: $0.name, clientIDs: $0.clientIDs) } }
}

extension CommonOptions {
    /// Opens the configured database beside a daemon that may be at work, to look at it.
    func withStore<Value>(_ body: (SQLiteStore) async throws -> Value) async throws -> Value {
        let configuration = try readConfiguration()
        do {
            let store = try SQLiteStore.openForReading(DatabaseFile.existing(in: configuration))
            defer { try? store.close() }
            return try await body(store)
        } catch {
            throw CommandFailure(database: error)
        }
    }
}

extension CommandFailure {
    static func missingKey(of configuration: Configuration) -> CommandFailure {
        .unusable([
            """
            encryption.key_file: \(configuration.encryption.keyFile) is missing, and the database holds tokens that were sealed \
            with it; restore it from its backup
            """
        ])
    }

    static func wrongKey(of configuration: Configuration, _ error: SealingError) -> CommandFailure {
        .unusable(["encryption.key_file: \(configuration.encryption.keyFile) does not open this database: \(error)"])
    }

    /// A database that is in use or has no room is worth another try soon; one that is not ours or damaged is not.
    init(database error: any Error) {
        switch error {
        case let failure as CommandFailure: self = failure
        case let error as DatabaseLockError:
            switch error {
            case .held: self = .unavailable("\(error)")
            case .unavailable: self = .unusable(["\(error)"])
            }
        case StoreError.busy: self = .unavailable("the database is locked by another program")
        case StoreError.full: self = .unavailable("the disk has no space for the database")
        case StoreError.outcomeUnknown(let reason): self = .unavailable("the database cannot be read or written: \(reason)")
        case StoreError.readOnly(let reason):
            self = .unusable(["database.path: the database cannot be written: \(reason); siwatch check, as the service's user, says why"])
        case StoreError.damaged(let reason): self = .unusable(["database.path: the database is damaged: \(reason)"])
        case let error as DatabaseFile.Unusable: self = .unusable(["database.path: \(error)"])
        default: self = .unusable(["\(error)"])
        }
    }
}
