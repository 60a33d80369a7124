// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import BoundedHTTP
import CredentialCore
import CredentialSealing
import Foundation
import Webhooks

/// The keys that a configuration names, read and found usable.
struct Keys {
    /// The keys for client secrets, by app. The first key of an app signs.
    var clientSecretKeys: [String: [ClientSecretKey]] = [:]
    /// Nil if the file is absent. siwatch then creates the file, if nothing is sealed yet.
    var ring: KeyRing?
    let http: HTTPKeys
    /// By the name of the delivery.
    var deliveries: [String: DeliveryKeys] = [:]

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
        let tokens = read(configuration.readTokens) ?? [:]
        let certificate = read { try HTTPKeys.certificate(of: configuration.http) } ?? nil
        http = HTTPKeys(tokens: tokens, certificate: certificate)
        deliveries = read(configuration.readDeliveryKeys) ?? [:]
        ring = read(configuration.readKeyRing) ?? nil
        guard mistakes.isEmpty else { throw .unusable(mistakes) }
    }
}

extension Configuration {
    func readKeys() throws(InvalidConfiguration) -> [String: [ClientSecretKey]] {
        try read(.clientSecretKey, limit: Self.longestKeyFile) { try ClientSecretKey(id: $1.id, text: Secret($0)) }
    }

    func readTokens() throws(InvalidConfiguration) -> [String: [Secret]] {
        let shortest = 32
        let tokens = try read(.token, limit: 1024) { text, _ in
            let token = text.trimmingCharacters(in: .whitespaces)
            if token.hasPrefix("whsec_") { throw TextFileError.useless("is the secret of a [[delivery]], and no token") }
            guard token.utf8.count >= shortest, token.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
                throw TextFileError.useless("is no token of at least \(shortest) characters")
            }
            return Secret(token)
        }
        let all = tokens.values.flatMap(\.self)
        if Set(all).count == all.count { return tokens }
        throw InvalidConfiguration(source: source, mistakes: [.at("http.client", "two token files hold the same token")])
    }

    /// What every delivery signs with and trusts.
    func readDeliveryKeys() throws(InvalidConfiguration) -> [String: DeliveryKeys] {
        let secrets = try read(.webhookSecret, limit: 1024) { text, _ in
            if let secret = WebhookSecret(Secret(text.trimmingCharacters(in: .whitespaces))) { return secret }
            throw TextFileError.useless("is no secret of webhooks")
        }
        let authorities = try read(.authority, limit: 1 << 20) { text, _ in
            if let authorities = try? TrustedAuthorities(pem: text) { return authorities }
            throw TextFileError.useless("holds no certificate in PEM (-----BEGIN CERTIFICATE-----), or a broken one")
        }
        return deliveries.reduce(into: [:]) { keys, delivery in
            keys[delivery.name] = DeliveryKeys(secrets: secrets[delivery.name] ?? [], authorities: authorities[delivery.name]?.first)
        }
    }

    /// In bytes. Apple's key files are 257 bytes long.
    static let longestKeyFile = 16_384

    /// In bytes.
    static let longestKeyRing = 65_536

    func readKeyRing() throws(CommandFailure) -> KeyRing? {
        let path = encryption.keyFile
        do {
            return try KeyRing(parsing: TextFile.read(path, limit: Self.longestKeyRing, isSecret: true))
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

    /// Seals and names as the daemon on this database does.
    func sealer(of store: any CredentialStore) throws -> CredentialSealer {
        if let sealer = try sealer(of: store, readKeyRing()) { return sealer }
        throw CommandFailure.unusable(["the database has no key yet: no siwatch has run on it"])
    }

    /// Nil if no siwatch has run on the database. Throws if the sealing key is not there, or does not open what the database holds.
    func sealer(of store: any CredentialStore, _ ring: @autoclosure () throws -> KeyRing?) throws -> CredentialSealer? {
        guard let sealed = try store.sealedSecret(named: CredentialSealer.fingerprintKeyName) else { return nil }
        guard let ring = try ring() else { throw CommandFailure.missingKey(of: self) }
        do {
            return try CredentialSealer(ring: ring, sealedFingerprintKey: sealed)
        } catch {
            throw CommandFailure.wrongKey(of: self, error)
        }
    }
}
