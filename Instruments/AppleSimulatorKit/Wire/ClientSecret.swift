// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation

/// A client secret with a good signature: a JWT that a developer signs with a `.p8` key.
struct ClientSecret: Sendable {
    /// The longest remaining life of a secret, in seconds: about six months, as Apple documents it.
    static let longestLife = 15_777_000.0

    private let keyID: String
    private let claims: Claims

    /// Parses the compact JWS and checks its header and signature against the keys of `group`.
    init(_ text: String, group: AppGroup) throws(ClientSecretFlaw) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3,
            let header = Base64URL.decode(parts[0]).flatMap({ try? JSONText.decode(Header.self, from: $0) }),
            let claims = Base64URL.decode(parts[1]).flatMap({ try? JSONText.decode(Claims.self, from: $0) }),
            let signature = Base64URL.decode(parts[2])
        else { throw .malformed }
        guard header.alg == "ES256" else { throw .wrongAlgorithm }
        guard let key = group.keys.first(where: { $0.id == header.kid }) else { throw .unknownKey }
        // R and S side by side, 64 bytes: RFC 7518 section 3.4. OpenSSL writes the longer DER form, which fails here.
        guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature),
            key.publicKey.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8))
        else { throw .badSignature }
        self.keyID = header.kid
        self.claims = claims
    }

    /// Checks the claims by Apple's clock, with no leeway.
    func check(clientID: String, group: AppGroup, now: Moment) throws(ClientSecretFlaw) {
        let now = Double(now.milliseconds) / 1000
        guard claims.iss == group.teamID else { throw .wrongIssuer }
        guard claims.aud == "https://appleid.apple.com" else { throw .wrongAudience }
        guard claims.sub == clientID else { throw .wrongSubject }
        guard claims.iat <= now else { throw .issuedInFuture }
        guard claims.exp > now else { throw .expired }
        guard claims.exp <= now + Self.longestLife else { throw .livesTooLong }
    }

    private struct Header: Decodable {
        let alg: String
        let kid: String
    }

    /// The times are seconds. Some libraries write fractions of seconds.
    private struct Claims: Decodable {
        let iss: String
        let sub: String
        let aud: String
        let iat: Double
        let exp: Double
    }
}

/// A flaw of a client secret. Apple answers `invalid_client` to all of them and never gives the reason.
package enum ClientSecretFlaw: String, Error, Sendable, CaseIterable, Codable, CodingKeyRepresentable {
    /// No group has this client.
    case unknownClient = "unknown_client"
    /// Not three parts of base64url, or a header or claim is missing.
    case malformed
    case wrongAlgorithm = "wrong_algorithm"
    /// The `kid` is not registered for the group of this client.
    case unknownKey = "unknown_key"
    case badSignature = "bad_signature"
    case wrongIssuer = "wrong_issuer"
    case wrongAudience = "wrong_audience"
    case wrongSubject = "wrong_subject"
    case issuedInFuture = "issued_in_future"
    case expired
    case livesTooLong = "lives_too_long"
    /// The body was no form, so it held no secret.
    case notAForm = "not_a_form"
}
