// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import CryptoExtras

/// One of Apple's public keys, fit to verify RS256.
struct SigningKey: Sendable {
    let id: String
    /// The key as one JSON Web Key, for the store.
    let jwk: String
    private let publicKey: _RSA.Signing.PublicKey

    private static let legalBits = 2048...4096
    /// 65537: Apple's exponent, which rules out attacks on small exponents.
    private static let exponent: [UInt8] = [1, 0, 1]
    private static let privateMembers: Set<String> = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"]

    /// Takes a published key if it is an RSA key for RS256 signatures; nil for any other key.
    ///
    /// It requires `kty` RSA, 2048 to 4096 bits, `e` 65537, `use` absent or `sig`, `key_ops` absent or with `verify` (RFC 7517,
    /// section 4.3), `alg` absent or `RS256`, a `kid`, and no private member.
    init?(_ jwk: JSON) {
        guard let members = jwk.object,
            members["kty"] == .string("RSA"),
            members["use"].map({ $0 == .string("sig") }) ?? true,
            members["key_ops"].map({ $0.array?.contains(.string("verify")) ?? false }) ?? true,
            members["alg"].map({ $0 == .string(CompactJWS.algorithm) }) ?? true,
            Self.privateMembers.isDisjoint(with: members.keys),
            let id = members["kid"]?.string, CompactJWS.isKeyID(id),
            let modulus = members["n"]?.unsignedInteger,
            let exponent = members["e"]?.unsignedInteger, exponent == Self.exponent,
            Self.legalBits.contains(modulus.count * 8 - (modulus.first?.leadingZeroBitCount ?? 0)),
            let publicKey = try? _RSA.Signing.PublicKey(n: modulus, e: exponent)
        else { return nil }
        self.id = id
        self.publicKey = publicKey
        let n = Base64URL.encode(modulus)
        self.jwk = #"{"kty":"RSA","kid":"\#(id)","use":"sig","alg":"RS256","n":"\#(n)","e":"AQAB"}"#
    }

    /// Whether this key made the signature: RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, section 3.3).
    ///
    /// swift-crypto calls the padding insecure because newer protocols use PSS. RS256 has no other padding.
    func isValid(_ signature: [UInt8], over message: ArraySlice<UInt8>) -> Bool {
        publicKey.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: signature),
            for: SHA256.hash(data: message),
            padding: .insecurePKCS1v1_5
        )
    }
}

extension JSON {
    /// A Base64urlUInt (RFC 7518, section 2), without the leading zeros that some encoders leave.
    fileprivate var unsignedInteger: [UInt8]? {
        string.flatMap { Base64URL.decode($0.utf8) }.map { Array($0.drop { $0 == 0 }) }
    }
}
