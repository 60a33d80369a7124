// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import CryptoExtras
import Foundation

/// Apple's keys: the published ones, and the one of them that signs.
///
/// The signing key is the last in the list, to catch programs that take the first. In February 2020 Apple published three keys instead of
/// one, and users of such programs could not sign in any more.
struct SigningKeys: Sendable {
    private(set) var current: SigningKey
    /// The body of `/auth/keys`, made once per change.
    private(set) var document: Data
    private var published: [PublishedKey]

    /// - Parameter count: the number of published keys. All but the last never sign.
    init(count: Int, signingBy current: SigningKey) {
        precondition(count > 0, "Apple signs with at least one key")
        let others = (1..<count).map { _ in PublishedKey.unused }
        self.current = current
        published = others + [current.published]
        document = Self.document(of: published)
    }

    /// In the order of publication.
    var ids: [String] { published.map(\.kid) }

    /// Makes `new` the signing key, and withdraws the former ones unless `keepingFormer`.
    mutating func rotate(to new: SigningKey, keepingFormer: Bool) {
        current = new
        published = (keepingFormer ? published : []) + [new.published]
        document = Self.document(of: published)
    }

    private static func document(of keys: [PublishedKey]) -> Data {
        struct Document: Encodable { let keys: [PublishedKey] }
        return JSONText.encode(Document(keys: keys))
    }
}

/// One of Apple's own RSA keys: it signs id_tokens and notifications alike.
package struct SigningKey: Sendable {
    let id: String
    private let privateKey: _RSA.Signing.PrivateKey
    /// The public half as `/auth/keys` shows it.
    let published: PublishedKey

    /// It takes a tenth of a second and more to find its primes.
    package init() throws { try self.init(id: Invented.keyID(), privateKey: _RSA.Signing.PrivateKey(keySize: .bits2048)) }

    /// A key of somebody else, whatever its id. It is made once.
    static func forged(id: String = Invented.keyID()) throws -> SigningKey { try SigningKey(id: id, privateKey: strangersKey.get()) }
    func renamed() throws -> SigningKey { try SigningKey(id: Invented.keyID(), privateKey: privateKey) }

    private static let strangersKey = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }

    private init(id: String, privateKey: _RSA.Signing.PrivateKey) throws {
        (self.id, self.privateKey) = (id, privateKey)
        let numbers = try privateKey.publicKey.getKeyPrimitives()
        self.published = PublishedKey(kid: id, n: Base64URL.encode(numbers.modulus), e: Base64URL.encode(numbers.publicExponent))
    }

    /// A compact JWS over `claims`. Its header has the members of Apple's: `kid` and `alg`, and no `typ`.
    func sign(_ claims: Data) throws -> String {
        let signed = Base64URL.encode(#"{"kid":"\#(id)","alg":"RS256"}"#.utf8) + "." + Base64URL.encode(claims)
        // RS256 is RSASSA-PKCS1-v1_5 over SHA-256: RFC 7518 section 3.3. swift-crypto calls its padding insecure.
        let signature = try privateKey.signature(for: SHA256.hash(data: Data(signed.utf8)), padding: .insecurePKCS1v1_5)
        return signed + "." + Base64URL.encode(signature.rawRepresentation)
    }
}

/// A JSON web key with the members of Apple's: RFC 7517.
struct PublishedKey: Sendable, Encodable {
    let kty = "RSA"
    let kid: String
    let use = "sig"
    let alg = "RS256"
    let n: String
    let e: String

    /// A key with which nobody signs, so its modulus need not be a product of two primes: those take long to find. It passes for one at
    /// libraries that look for small divisors, as BouncyCastle does.
    static var unused: PublishedKey {
        var words: [UInt32]
        repeat {
            words = (0..<64).map { _ in UInt32.random(in: .min ... .max) }
            words[0] |= 1 << 31
            words[63] |= 1
        } while smallPrimes.contains { prime in words.reduce(0) { ($0 << 32 | UInt64($1)) % prime } == 0 }
        let modulus = words.flatMap { word in withUnsafeBytes(of: word.bigEndian, Array.init) }
        return PublishedKey(kid: Invented.keyID(), n: Base64URL.encode(modulus), e: "AQAB")
    }

    private static let smallPrimes: [UInt64] = (3...751).filter { number in
        !(2..<number).prefix { $0 * $0 <= number }.contains { number.isMultiple(of: $0) }
    }
}
