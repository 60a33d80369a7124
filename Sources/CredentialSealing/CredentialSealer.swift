// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Crypto
import NIOConcurrencyHelpers

/// Seals refresh tokens under a key ring, and fingerprints them with a key of the database.
///
/// The fingerprint key is random, made once, and kept sealed in the database. So a change of the sealing keys changes no fingerprint, and a
/// fingerprint tells nothing without the key file.
package final class CredentialSealer: TokenSealer {
    let keys: NIOLockedValueBox<SharedRing>
    private let fingerprintKey: SymmetricKey
    private let pseudonymKey: SymmetricKey
    let voucherKey: SymmetricKey
    let decisionKey: SymmetricKey
    /// Names this database and its copies. No secret.
    private let installation: [UInt8]

    package static let fingerprintKeyName = "token-fingerprint"

    /// Makes a sealed fingerprint key for a database that has none yet.
    package static func newFingerprintKey(sealedBy ring: KeyRing) throws -> [UInt8] {
        let key = SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) }
        return try ring.seal(key, named: fingerprintKeyName)
    }

    /// - Throws: `SealingError` if the key file does not open this database.
    package init(ring: KeyRing, sealedFingerprintKey: [UInt8]) throws(SealingError) {
        let key = try ring.open(sealedFingerprintKey, named: Self.fingerprintKeyName)
        guard key.count == 32 else { throw .damaged }
        fingerprintKey = SymmetricKey(data: key)
        pseudonymKey = Self.key("siwatch/forgotten-user/1", from: fingerprintKey)
        voucherKey = Self.key("siwatch/signing-key/1", from: fingerprintKey)
        decisionKey = Self.key("siwatch/decision/1", from: fingerprintKey)
        installation = Self.key("siwatch/installation/1", from: fingerprintKey).withUnsafeBytes { Array($0) }
        keys = NIOLockedValueBox(SharedRing(ring, of: installation))
    }

    private static func key(_ purpose: String, from key: SymmetricKey) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(inputKeyMaterial: key, info: Array(purpose.utf8), outputByteCount: 32)
    }

    var opening: KeyRing { keys.withLockedValue(\.opening) }

    /// The names of users in logs, the same for the life of the database.
    package var userPseudonyms: UserPseudonyms { UserPseudonyms(Self.key("siwatch/user-pseudonym/1", from: fingerprintKey)) }

    package var intakeTest: IntakeTestKey { IntakeTestKey(Self.key("siwatch/intake-test/1", from: fingerprintKey)) }

    /// The public keys to which backends seal tokens for this database, first that of the sealing key, then the others in the order of the
    /// ring. They tell nothing about the sealing keys.
    package var publicKeys: [String] {
        keys.withLockedValue { keys in
            var texts = keys.recipients.map(\.publicText)
            let first = texts.remove(at: keys.ring.keyIDs.firstIndex(of: keys.sealingKey.id.hexadecimal)!)
            return [first] + texts
        }
    }

    package func fingerprint(of token: Secret) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: Array(token.reveal.utf8), using: fingerprintKey))
    }

    package func seal(_ token: Secret, for credential: CredentialID, grantedAt: Timestamp) throws -> SealedToken {
        let context = SealingContext.refreshToken(of: credential, grantedAt: grantedAt, installation: installation)
        return SealedToken(bytes: try seal(Array(token.reveal.utf8), for: context))
    }

    package func open(_ sealed: SealedToken, for credential: CredentialID, grantedAt: Timestamp) throws(SealingError) -> Secret {
        let context = SealingContext.refreshToken(of: credential, grantedAt: grantedAt, installation: installation)
        return Secret(String(decoding: try opening.open(sealed.bytes, for: context), as: UTF8.self))
    }

    package func open(delivered sealed: [UInt8], for credential: CredentialID) throws(DeliveryError) -> DeliveredToken {
        guard let id = TokenRecipient.keyID(of: sealed) else { throw .unreadable }
        let recipients = keys.withLockedValue(\.recipients)
        guard let recipient = recipients.first(where: { $0.id == id }) else { throw .unknownKey(id: id.map(\.hexadecimal).joined()) }
        let grantedAt = TokenRecipient.grantedAt(of: sealed)
        guard let bytes = recipient.open(sealed, for: credential), let token = String(validating: bytes, as: UTF8.self),
            !token.isEmpty, !bytes.contains(0), Timestamp.legal.contains(grantedAt)
        else { throw .unreadable }
        return DeliveredToken(token: Secret(token), grantedAt: grantedAt)
    }

    func seal(_ bytes: [UInt8], for context: SealingContext) throws -> [UInt8] {
        try keys.withLockedValue { $0.countSeal() }.seal(bytes, for: context)
    }
}

extension CredentialSealer: UserPseudonymizer {
    /// `ForgottenUser.prefix` and 32 hex digits of an HMAC-SHA-256.
    package func pseudonym(of userID: String) -> String {
        let code = HMAC<SHA256>.authenticationCode(for: Array(userID.utf8), using: pseudonymKey)
        return ForgottenUser.prefix + code.prefix(16).map(\.hexadecimal).joined()
    }
}

extension CredentialSealer: CustomStringConvertible, CustomReflectable {
    package var description: String { "[sealer with \(opening)]" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Proves that siwatch has got a signing key from Apple, because other programs can write into the database. The proof holds for the life
/// of the database, on whichever store, and for no other database.
extension CredentialSealer: SigningKeyVoucher {
    package func prove(_ record: SigningKeyRecord) -> SigningKeyRecord {
        var proved = record
        proved.proof = Array(HMAC<SHA256>.authenticationCode(for: Self.contents(of: record), using: voucherKey))
        return proved
    }

    package func isProved(_ record: SigningKeyRecord) -> Bool {
        HMAC<SHA256>.isValidAuthenticationCode(record.proof, authenticating: Self.contents(of: record), using: voucherKey)
    }

    private static func contents(of record: SigningKeyRecord) -> [UInt8] {
        LengthPrefixed.join([Array(record.keyID.utf8), Array(record.jwk.utf8), LengthPrefixed.bigEndian(record.lastSeenAt.milliseconds)])
    }
}
