// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import CredentialCore
import CredentialSealing
import Foundation

/// The keys that a configuration names, read and found usable.
struct Keys {
    /// The keys for client secrets, by app. The first key of an app signs.
    var clientSecretKeys: [String: [ClientSecretKey]] = [:]
    /// Nil if the file is absent. siwatch then creates the file, if nothing is sealed yet.
    var ring: KeyRing?
    let http: HTTPKeys
    /// By the name of the delivery.
    var deliveries: [String: DeliveryKeys] = [:]

    /// - Throws: every unusable file at once.
    init(_ configuration: Configuration) throws(CommandFailure) {
        var mistakes = configuration.exposedFiles.map { "\(configuration.source): \($0)" }
        func read<Value>(_ body: () throws -> Value) -> Value? {
            do {
                return try body()
            } catch {
                mistakes += (error as? InvalidConfiguration)?.lines ?? CommandFailure(database: error).messages
                return nil
            }
        }
        clientSecretKeys = read(configuration.readKeys) ?? [:]
        let http = read { try HTTPKeys(configuration.http) }
        deliveries = read(configuration.readDeliveryKeys) ?? [:]
        ring = read(configuration.readKeyRing) ?? nil
        guard mistakes.isEmpty, let http else { throw .unusable(mistakes) }
        self.http = http
    }
}

extension Configuration {
    /// Reads the keys of every app, in the order of the file. It is a separate step, so that mistakes in the TOML file are found on
    /// machines without the keys.
    ///
    /// - Returns: By the name of the app.
    /// - Throws: All mistakes at once. None quotes what a file holds.
    func readKeys() throws(InvalidConfiguration) -> [String: [ClientSecretKey]] {
        var keys: [String: [ClientSecretKey]] = [:]
        var mistakes: [ConfigurationMistake] = []
        for (index, app) in apps.enumerated() {
            for (position, key) in app.keys.enumerated() {
                let place = "app[\(index)].key[\(position)].file"
                do {
                    let text = try TextFile.read(key.file, limit: Self.longestKeyFile, isSecret: true, mayBeDER: true)
                    keys[app.name, default: []].append(try ClientSecretKey(id: key.id, text: Secret(text)))
                } catch let error as TextFileError {
                    mistakes.append(.at(place, "\(key.file) \(error)"))
                } catch {
                    mistakes.append(.at(place, "\(key.file): \(error)"))
                }
            }
        }
        guard mistakes.isEmpty else { throw InvalidConfiguration(source: source, mistakes: mistakes) }
        return keys
    }

    /// In bytes. Apple's key files are 257 bytes long.
    static let longestKeyFile = 16_384

    /// The sealing keys; nil if their file is not there.
    func readKeyRing() throws(CommandFailure) -> KeyRing? {
        let path = encryption.keyFile
        do {
            // Some hundreds of keys.
            return try KeyRing(parsing: TextFile.read(path, limit: 65_536, isSecret: true))
        } catch TextFileError.missing {
            return nil
        } catch let error as TextFileError {
            throw .unusable(["encryption.key_file: \(path) \(error)"])
        } catch {
            throw .unusable(["encryption.key_file: \(path): \(error)"])
        }
    }

    /// Why a start with the key file as it is now would not open what this process seals; nil if it would.
    func keyFileTrouble(of sealer: CredentialSealer) -> String? {
        do {
            guard let ring = try readKeyRing() else { return "\(encryption.keyFile) is not there" }
            let lost = sealer.keyIDs(lackingIn: ring)
            return lost.isEmpty ? nil : "\(encryption.keyFile) no longer holds the key \(lost.joined(separator: " "))"
        } catch {
            return error.description
        }
    }
}

extension Keys {
    /// Checks that the sealing key is there and opens what a database holds.
    func check(_ store: any CredentialStore, of configuration: Configuration) throws {
        _ = try configuration.sealer(of: store, ring)
    }
}

extension Configuration {
    /// Seals and names as the daemon on this database does.
    func sealer(of store: any CredentialStore) throws -> CredentialSealer {
        if let sealer = try sealer(of: store, readKeyRing()) { return sealer }
        throw CommandFailure.unusable(["the database has no key yet: no siwatch has run on it"])
    }

    /// Nil if no siwatch has run on the database.
    fileprivate func sealer(of store: any CredentialStore, _ ring: @autoclosure () throws -> KeyRing?) throws -> CredentialSealer? {
        guard let sealed = try store.sealedSecret(named: CredentialSealer.fingerprintKeyName) else { return nil }
        guard let ring = try ring() else { throw CommandFailure.missingKey(of: self) }
        do {
            return try CredentialSealer(ring: ring, sealedFingerprintKey: sealed)
        } catch {
            throw CommandFailure.wrongKey(of: self, error)
        }
    }
}
