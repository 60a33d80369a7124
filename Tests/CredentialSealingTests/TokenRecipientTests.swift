// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Crypto
import Foundation
import Testing

@testable import CredentialSealing

/// Tokens that backends seal to the public key. Here the backend is Swift's own HPKE. The examples of `Examples/sql` are two more.
@Suite struct TokenRecipientTests {
    private let ring = KeyRing.generate()
    private let fingerprintKey: [UInt8]
    private let sealer: CredentialSealer
    private let ann = CredentialID(clientID: "com.example.app", userID: "000123.ann")
    private let granted = Timestamp(milliseconds: 1_700_000_000_999)

    init() throws {
        fingerprintKey = try CredentialSealer.newFingerprintKey(sealedBy: ring)
        sealer = try CredentialSealer(ring: ring, sealedFingerprintKey: fingerprintKey)
    }

    /// - Parameter time: in milliseconds; nil stands for `granted`.
    private func seal(
        _ token: String,
        for credential: CredentialID,
        at time: Int64? = nil,
        info: String = "siwatch-token-sealed-1"
    ) throws -> [UInt8] {
        let time = time ?? granted.milliseconds
        let key = try publicKey(of: sealer)
        var sender = try HPKE.Sender(
            recipientKey: try Curve25519.KeyAgreement.PublicKey(rawRepresentation: key),
            ciphersuite: .Curve25519_SHA256_ChachaPoly,
            info: Data(info.utf8)
        )
        let associated = Data("\(credential.clientID)\0\(credential.userID)\0\(time)".utf8)
        let box = try sender.seal(Data(token.utf8), authenticating: associated)
        var sealed: [UInt8] = [1] + id(of: key)
        sealed += LengthPrefixed.bigEndian(time)
        sealed += sender.encapsulatedKey
        sealed += box
        return sealed
    }

    private func publicKey(of sealer: CredentialSealer) throws -> Data {
        try #require(Data(base64Encoded: String(sealer.publicKeys[0].trimmingPrefix("siwatch-public-key-1:"))))
    }

    private func id(of key: Data) -> [UInt8] { Array(SHA256.hash(data: key).prefix(4)) }

    @Test func opensWhatABackendSealed() throws {
        let sealed = try seal("r1.token", for: ann)
        #expect(sealed.count == 1 + 4 + 8 + 32 + 8 + 16)
        let delivered = try sealer.open(delivered: sealed, for: ann)
        #expect(delivered.token == Secret("r1.token") && delivered.grantedAt == granted)
    }

    @Test func opensForItsUserAndClientAlone() throws {
        let sealed = try seal("r1.token", for: ann)
        for other in [
            CredentialID(clientID: ann.clientID, userID: "000123.bob"), CredentialID(clientID: "com.example.web", userID: ann.userID),
        ] { #expect(throws: DeliveryError.unreadable) { try sealer.open(delivered: sealed, for: other) } }
    }

    /// A staging database with the same key file has other public keys. A token that was sealed for the other one says so by its key id.
    @Test func opensInItsOwnDatabaseAlone() throws {
        let staging = try newSealer(ring)
        #expect(staging.publicKeys != sealer.publicKeys)
        let sealed = try seal("r1.token", for: ann)
        #expect(throws: DeliveryError.unknownKey(id: hex(sealed[1...4]))) { try staging.open(delivered: sealed, for: ann) }
        var renamed = sealed
        renamed.replaceSubrange(1...4, with: id(of: try publicKey(of: staging)))
        #expect(throws: DeliveryError.unreadable) { try staging.open(delivered: renamed, for: ann) }
    }

    @Test func refusesEveryFlippedBit() throws {
        let sealed = try seal("r1.token", for: ann)
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
        let both = try CredentialSealer(
            ring: KeyRing(parsing: line(of: newer) + "\n" + line(of: ring)),
            sealedFingerprintKey: fingerprintKey
        )
        #expect(both.publicKeys.count == 2 && both.publicKeys[1] == sealer.publicKeys[0])
        #expect(try both.open(delivered: sealed, for: ann).token == Secret("r1.token"))
        #expect(throws: DeliveryError.unknownKey(id: hex(sealed[1...4]))) { try newSealer(newer).open(delivered: sealed, for: ann) }
    }

    @Test func whatIsNoTokenIsRefused() throws {
        for text in ["", "a\0b"] {
            let sealed = try seal(text, for: ann)
            #expect(throws: DeliveryError.unreadable) { try sealer.open(delivered: sealed, for: ann) }
        }
        // A time in seconds, and the ends of what eight bytes can say. No table takes them.
        for time: Int64 in [1_700_000_000, .min, .max] {
            let sealed = try seal("r1.token", for: ann, at: time)
            #expect(throws: DeliveryError.unreadable) { try sealer.open(delivered: sealed, for: ann) }
        }
        let elsewhere = try seal("r1.token", for: ann, info: "another purpose")
        #expect(throws: DeliveryError.unreadable) { try sealer.open(delivered: elsewhere, for: ann) }
    }

    /// Backends keep the public key, and rows wait in queues. So a later version derives the same key and opens the same bytes, which
    /// `Examples/sql/seal_token.py` has made.
    @Test func theFormStays() throws {
        let material = SymmetricKey(data: Array<UInt8>(0..<32))
        let recipient = TokenRecipient(SealingKey(material), of: Array<UInt8>(32..<64))
        #expect(recipient.publicText == "siwatch-public-key-1:eQ9/T5rHuP4pgThDYGBHjbsLsQBHD6G493IWNDhNlkI=")
        let sealed = bytes(
            """
            01624e24900000018bcfe56be7aca4a1507c1f849e299fafbe607be81e653727961edcba3a8231aaa04ca2c153c9cedbcd\
            aeb44018c40654913aabab6f6c732055475deeef
            """
        )
        #expect(TokenRecipient.keyID(of: sealed) == recipient.id && TokenRecipient.grantedAt(of: sealed) == granted)
        #expect(recipient.open(sealed, for: ann) == Array("r1.token".utf8))
    }

    private func hex(_ bytes: some Sequence<UInt8>) -> String { bytes.map { String(format: "%02x", $0) }.joined() }

    private func bytes(_ hex: String) -> [UInt8] {
        let digits = hex.compactMap(\.hexDigitValue)
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}
