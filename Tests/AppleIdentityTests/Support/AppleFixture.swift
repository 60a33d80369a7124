// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Crypto
import CryptoExtras

@testable import AppleIdentity

/// A signing key like Apple's, and the tokens that it signs, in the shape of captures.
struct AppleFixture: Sendable {
    let keyID: String
    let privateKey: _RSA.Signing.PrivateKey

    /// Made once per process, because making a key takes longer than most tests.
    static let apple = AppleFixture(keyID: "T8tIJ1zSrO")
    /// A second key of Apple's, for rotation.
    static let rotated = AppleFixture(keyID: "pggnQeNCOU")

    private init(keyID: String) {
        self.keyID = keyID
        self.privateKey = try! _RSA.Signing.PrivateKey(keySize: .bits2048)
    }

    var modulus: [UInt8] { Array(try! privateKey.publicKey.getKeyPrimitives().modulus) }

    /// The published key. A value replaces or adds a member, nil removes it; values are JSON.
    func jwk(_ changes: [String: String?] = [:]) -> String {
        object(
            [
                ("kty", #""RSA""#), ("kid", quoted(keyID)), ("use", #""sig""#), ("alg", #""RS256""#),
                ("n", quoted(Base64URL.encode(modulus))), ("e", #""AQAB""#),
            ],
            changes
        )
    }

    static func keySet(_ jwks: String...) -> [UInt8] { Array(#"{"keys":[\#(jwks.joined(separator: ","))]}"#.utf8) }

    /// A compact JWS over any header and claims, signed with SHA-256 by default.
    func sign(header: String? = nil, claims: String) -> String { sign(header: header, claims: claims) { SHA256.hash(data: $0) } }

    func sign(header: String?, claims: String, digest: ([UInt8]) -> some Digest) -> String {
        let header = header ?? #"{"kid":"\#(keyID)","alg":"RS256"}"#
        let signed = Base64URL.encode(header.utf8) + "." + Base64URL.encode(claims.utf8)
        let signature = try! privateKey.signature(for: digest(Array(signed.utf8)), padding: .insecurePKCS1v1_5)
        return signed + "." + Base64URL.encode(Array(signature.rawRepresentation))
    }

    /// A signed `consent-revoked`. A value replaces or adds a claim or a field of the event, nil removes it; values are JSON.
    func notification(_ claims: [String: String?] = [:], event: [String: String?] = [:], header: String? = nil) -> [UInt8] {
        Array(sign(header: header, claims: Self.claims(claims, event: event)).utf8)
    }

    static func claims(_ changes: [String: String?] = [:], event: [String: String?] = [:]) -> String {
        object(
            [
                ("iss", #""https://appleid.apple.com""#), ("aud", quoted(client)),
                ("iat", "\(issuedAt)"), ("exp", "\(issuedAt + 86_400)"),
                ("jti", #""uZmGepCUZyA_0by3Jh7JCQ""#), ("events", quoted(Self.event(event))),
            ],
            changes
        )
    }

    static func event(_ changes: [String: String?] = [:]) -> String {
        object([("type", #""consent-revoked""#), ("sub", quoted(user)), ("event_time", "\(issuedAt * 1000 - 12_345)")], changes)
    }

    static let client = "com.example.app"
    static let user = "760417.0123456789abcdef0123456789abcdef.1827"
    /// In seconds: 2025-10-09.
    static let issuedAt: Int64 = 1_760_000_000
    /// Half a minute after Apple issued them.
    static let now = Timestamp(milliseconds: issuedAt * 1000 + 30_000)
}

func quoted(_ text: String) -> String { "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\"" }

/// A JSON object of these members, with changes: a value replaces or adds, nil removes.
private func object(_ members: [(String, String)], _ changes: [String: String?]) -> String {
    let names = members.map(\.0)
    let kept = members.compactMap { name, value in (changes[name] ?? value).map { (name, $0) } }
    let added = changes.filter { !names.contains($0.key) }.sorted { $0.key < $1.key }.compactMap { name, value in value.map { (name, $0) } }
    return "{" + (kept + added).map { "\(quoted($0)):\($1)" }.joined(separator: ",") + "}"
}
