// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
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

    /// Takes a published key for RS256 signatures (RFC 7517, section 4); nil for any other key, or one with a private member.
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

    /// By RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, section 3.3). swift-crypto calls the padding insecure; RS256 has no other.
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

/// The keys of one answer from Apple's keys endpoint.
package struct SigningKeySet: Sendable {
    /// Those that siwatch can use; never none.
    let keys: [SigningKey]

    package var count: Int { keys.count }

    /// - Throws: `TransportFailure`, or `UnusableKeySet`.
    package init(from url: String, over transport: any AppleTransport) async throws {
        let response = try await transport.send(AppleRequest(endpoint: .keys, url: url))
        guard response.status == 200 else { throw UnusableKeySet(description: "status \(response.status)") }
        guard let body = response.body else { throw UnusableKeySet(description: "larger than 64 KiB") }
        try self.init(body)
    }

    /// - Throws: a sentence. Two keys of one name make the whole set ambiguous, and a set needs a usable key.
    init(_ body: [UInt8]) throws(UnusableKeySet) {
        guard let published = JSON(body)?.object?["keys"]?.array else { throw UnusableKeySet(description: "not a JSON Web Key Set") }
        // Apple publishes about three.
        guard published.count <= 32 else { throw UnusableKeySet(description: "more than 32 keys") }
        let names = published.compactMap { $0.object?["kid"]?.string }
        guard Set(names).count == names.count else { throw UnusableKeySet(description: "two keys with one kid") }
        keys = published.compactMap(SigningKey.init)
        guard !keys.isEmpty else { throw UnusableKeySet(description: "no usable key") }
    }
}

package struct UnusableKeySet: Error, Equatable, CustomStringConvertible {
    package let description: String
}
