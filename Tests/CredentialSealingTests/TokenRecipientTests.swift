// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialSealing
import Crypto
import Foundation
import Testing

/// Tokens that backends seal to the public key. Here the backend is Swift's own HPKE. The examples of `Examples/sql` are two more.
@Suite struct TokenRecipientTests {
    private let ring = KeyRing.generate()
    private let ann = CredentialID(clientID: "com.example.app", userID: "000123.ann")

    private func seal(_ token: String, for credential: CredentialID, info: String = "siwatch-token-sealed-1") throws -> [UInt8] {
        let key = try #require(Data(base64Encoded: String(ring.publicKey.trimmingPrefix("siwatch-public-key-1:"))))
        var sender = try HPKE.Sender(
            recipientKey: try Curve25519.KeyAgreement.PublicKey(rawRepresentation: key),
            ciphersuite: .Curve25519_SHA256_ChachaPoly,
            info: Data(info.utf8)
        )
        let associated = Data("\(credential.clientID)\0\(credential.userID)".utf8)
        let box = try sender.seal(Data(token.utf8), authenticating: associated)
        return [1] + SHA256.hash(data: key).prefix(4) + sender.encapsulatedKey + box
    }

    @Test func opensWhatABackendSealed() throws {
        let sealed = try seal("r1.token", for: ann)
        #expect(sealed.count == 1 + 4 + 32 + 8 + 16)
        #expect(try newSealer(ring).open(delivered: sealed, for: ann) == Secret("r1.token"))
    }

    @Test func opensForItsUserAndClientAlone() throws {
        let sealed = try seal("r1.token", for: ann)
        let sealer = try newSealer(ring)
        for other in [
            CredentialID(clientID: ann.clientID, userID: "000123.bob"), CredentialID(clientID: "com.example.web", userID: ann.userID),
        ] { #expect(throws: DeliveryError.unreadable) { try sealer.open(delivered: sealed, for: other) } }
    }

    @Test func refusesEveryFlippedBit() throws {
        let sealed = try seal("r1.token", for: ann)
        let sealer = try newSealer(ring)
        for index in sealed.indices {
            var tampered = sealed
            tampered[index] ^= 1
            #expect(throws: DeliveryError.self) { try sealer.open(delivered: tampered, for: ann) }
        }
        for length in 0..<sealed.count {
            #expect(throws: DeliveryError.self) { try sealer.open(delivered: Array(sealed.prefix(length)), for: ann) }
        }
    }

    @Test func anOldKeyStillOpensAndAnUnknownOneIsNamed() throws {
        let sealed = try seal("r1.token", for: ann)
        let newer = KeyRing.generate()
        let both = try KeyRing(parsing: line(of: newer) + "\n" + line(of: ring))
        #expect(both.publicKey == newer.publicKey)
        #expect(try newSealer(both).open(delivered: sealed, for: ann) == Secret("r1.token"))
        let id = sealed[1...4].map { String(format: "%02x", $0) }.joined()
        #expect(throws: DeliveryError.unknownKey(id: id)) { try newSealer(newer).open(delivered: sealed, for: ann) }
    }

    @Test func whatIsNoTokenIsRefused() throws {
        let sealer = try newSealer(ring)
        for text in ["", "a\0b"] {
            let sealed = try seal(text, for: ann)
            #expect(throws: DeliveryError.unreadable) { try sealer.open(delivered: sealed, for: ann) }
        }
        let elsewhere = try seal("r1.token", for: ann, info: "another purpose")
        #expect(throws: DeliveryError.unreadable) { try sealer.open(delivered: elsewhere, for: ann) }
    }

    /// siwatch derives it from the key file, so it stays with that file.
    @Test func thePublicKeyIsThatOfTheKeyFile() throws {
        #expect(try KeyRing(parsing: line(of: ring)).publicKey == ring.publicKey)
        #expect(ring.publicKey != KeyRing.generate().publicKey)
    }
}
