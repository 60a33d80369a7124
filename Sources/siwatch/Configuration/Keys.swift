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
        do {
            for (app, keys) in try configuration.readKeys() {
                for key in keys {
                    do {
                        clientSecretKeys[app, default: []].append(try ClientSecretKey(id: key.id, pem: key.pem))
                    } catch {
                        mistakes.append("app \(app.printable): \(error)")
                    }
                }
            }
        } catch {
            mistakes += error.lines
        }
        var http: HTTPKeys?
        do {
            http = try HTTPKeys(configuration.http)
        } catch {
            mistakes += error.messages
        }
        do {
            deliveries = try configuration.readDeliveryKeys()
        } catch {
            mistakes += error.lines
        }
        do {
            ring = try KeyRing(contentsOf: configuration.encryption.keyFile)
        } catch KeyFileError.missing {
            ring = nil
        } catch KeyFileError.exposed(let path, _) {
            var status = stat()
            stat(path, &status)
            mistakes.append("encryption.key_file: \(path) \(TextFileError.exposed(mode: status.modeText, closing: status.closing(path)))")
        } catch {
            mistakes.append("encryption.key_file: \(error)")
        }
        guard mistakes.isEmpty, let http else { throw .unusable(mistakes) }
        self.http = http
    }
}

/// A key that signs client secrets, as read from its file.
struct AppKey: Sendable, Equatable {
    var id: String
    var pem: Secret
}

extension Configuration {
    /// Reads the keys of every app, in the order of the file. It is a separate step, so that mistakes in the TOML file are found on
    /// machines without the keys.
    ///
    /// - Returns: By the name of the app.
    /// - Throws: All mistakes at once. None quotes what a file holds.
    func readKeys() throws(InvalidConfiguration) -> [String: [AppKey]] {
        var keys: [String: [AppKey]] = [:]
        var mistakes: [ConfigurationMistake] = []
        for (index, app) in apps.enumerated() {
            for (position, key) in app.keys.enumerated() {
                let place = "app[\(index)].key[\(position)].file"
                do {
                    let pem = try TextFile.read(key.file, limit: Self.longestKeyFile, isSecret: true)
                    if pem.isPrivateKey {
                        keys[app.name, default: []].append(AppKey(id: key.id, pem: Secret(pem)))
                    } else {
                        let form = "as Apple hands it out (PEM, PKCS#8: -----BEGIN PRIVATE KEY-----)"
                        mistakes.append(.at(place, "\(key.file) is not a private key \(form)"))
                    }
                } catch {
                    mistakes.append(.at(place, "\(key.file) \(error)"))
                }
            }
        }
        guard mistakes.isEmpty else { throw InvalidConfiguration(source: source, mistakes: mistakes) }
        return keys
    }

    /// In bytes. Apple's key files are 257 bytes long.
    static let longestKeyFile = 16_384
}

extension String {
    /// Whether the text looks like one PEM block of a private key. The content is judged when the key is used.
    var isPrivateKey: Bool {
        let lines = split(whereSeparator: \.isWhitespace).joined(separator: " ")
        guard
            let body = lines.wholeMatch(of: /-----BEGIN PRIVATE KEY----- ([A-Za-z0-9+\/= ]+) -----END PRIVATE KEY-----/)
        else { return false }
        return body.1.count > 100
    }
}

extension Keys {
    /// Checks that the sealing key is there and opens what a database holds.
    func check(_ store: any CredentialStore, of configuration: Configuration) throws {
        guard let sealed = try store.sealedSecret(named: CredentialSealer.fingerprintKeyName) else { return }
        guard let ring else { throw CommandFailure.missingKey(of: configuration) }
        do {
            _ = try CredentialSealer(ring: ring, sealedFingerprintKey: sealed)
        } catch {
            throw CommandFailure.wrongKey(of: configuration, error)
        }
    }
}
