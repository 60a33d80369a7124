// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Crypto

/// Proves that siwatch has got a signing key from Apple, because other programs can write into the database.
///
/// The proof is an HMAC-SHA-256 under a key derived from the fingerprint key. So it holds for the life of the database, on whichever store,
/// and for no other database.
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
