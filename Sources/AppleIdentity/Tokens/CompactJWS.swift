// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A signed token, split and checked as far as possible without a key.
///
/// The checks come before any cryptography, because libraries are lax here. jwt-kit 5.7 verifies a token of an unknown `kid` with its first
/// key, and takes the algorithm from the token if the key names none.
struct CompactJWS: Sendable {
    let keyID: String
    /// The bytes under the signature: header and claims as sent, with the dot between them.
    let signedBytes: ArraySlice<UInt8>
    let claims: [UInt8]
    let signature: [UInt8]

    /// The only algorithm, whatever the token says (RFC 8725, section 3.1).
    static let algorithm = "RS256"

    /// - Throws: `malformed`, `forbidden_header`, `wrong_algorithm`.
    init(_ token: ArraySlice<UInt8>) throws(VerificationError) {
        let dot = UInt8(ascii: ".")
        guard let first = token.firstIndex(of: dot), let last = token.lastIndex(of: dot), first < last else {
            throw .rejected(.malformed, detail: "not three parts")
        }
        // A third dot would be in the middle part, where it is not base64url.
        guard let header = Base64URL.decode(token[..<first]),
            let claims = Base64URL.decode(token[(first + 1)..<last]),
            let signature = Base64URL.decode(token[(last + 1)...])
        else { throw .rejected(.malformed, detail: "not base64url") }
        (self.keyID, signedBytes) = (try Self.keyID(inHeader: header), token[..<last])
        (self.claims, self.signature) = (claims, signature)
    }

    /// The decoded claims of a token whose signature nobody has checked. Nil if it has not three parts.
    static func uncheckedClaims(of token: ArraySlice<UInt8>) -> [UInt8]? {
        let parts = token.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        return parts.count == 3 ? Base64URL.decode(parts[1]) : nil
    }

    /// Refuses `crit` and `b64`, because they change the meaning of the signature. Ignores `jku`, `jwk`, `x5u` and `x5c`, which only offer
    /// a key, because a key comes only from Apple's published set.
    private static func keyID(inHeader bytes: [UInt8]) throws(VerificationError) -> String {
        guard let header = JSON(bytes)?.object else { throw .rejected(.malformed, detail: "header is not a JSON object") }
        for name in ["crit", "b64"] where header[name] != nil {
            throw .rejected(.forbiddenHeader, detail: name)
        }
        guard let named = header["alg"]?.string, named.isIdentical(to: algorithm) else {
            throw .rejected(.wrongAlgorithm, detail: header["alg"]?.string?.excerpt(limit: 40) ?? "none")
        }
        guard let keyID = header["kid"]?.string, isKeyID(keyID) else {
            throw .rejected(.malformed, detail: header["kid"] == nil ? "no kid" : "kid")
        }
        return keyID
    }

    /// 1 to 64 of `[A-Za-z0-9_-]`. Apple's have seven or ten.
    static func isKeyID(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count) && text.utf8.allSatisfy { $0.isLetterOrDigit || "-_".utf8.contains($0) }
    }
}

extension String {
    /// Whether the bytes are equal. `==` is also true for canonically equivalent text: the Kelvin sign equals the letter K.
    func isIdentical(to other: String) -> Bool { utf8.elementsEqual(other.utf8) }
}
