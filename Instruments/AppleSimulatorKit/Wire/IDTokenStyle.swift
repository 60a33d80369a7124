// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A deviation of an id_token, while the rest of the answer is right.
package enum IDTokenStyle: String, Sendable, Codable, CaseIterable {
    /// The `sub` of another user. Only a program that knows the user can notice.
    case anotherSubject = "another_subject"
    /// Another client of the same app group, if it has one.
    case anotherAudience = "another_audience"
    /// The issuer that Apple's discovery document named for a day in June 2025. No token ever named it.
    case anotherIssuer = "another_issuer"
    /// A nonce that the sign-in did not have.
    case anotherNonce = "another_nonce"
    /// No nonce, although `nonce_supported` still says that there is one.
    case missingNonce = "missing_nonce"
    case expired
    case issuedInFuture = "issued_in_future"
    /// Signed with a foreign key under the `kid` of the signing key.
    case forged
    /// Signed with a foreign key under a `kid` that `/auth/keys` does not show.
    case unknownKey = "unknown_key"
    /// A text that is no JWT.
    case notAJWT = "not_a_jwt"
    case missing

    // MARK: No flaws

    /// No nonce, and `nonce_supported` false. Apple's documents do not say whether a reader must then insist on a nonce.
    case nonceUnsupported = "nonce_unsupported"
    /// `email_verified` and `is_private_email` as strings, as in captures until 2024.
    case stringFlags = "string_flags"

    /// The id_token, or `nil` where there is none.
    ///
    /// - Parameter otherClientID: the audience for ``anotherAudience``.
    func idToken(of claims: IDTokenClaims, otherClientID: String, key: SigningKey) throws -> String? {
        let day: Int64 = 86_400
        var claims = claims
        var key = key
        switch self {
        case .anotherSubject: claims.members["sub"] = Invented.userID()
        case .anotherAudience: claims.members["aud"] = otherClientID
        case .anotherIssuer: claims.members["iss"] = "https://account.apple.com"
        case .anotherNonce: (claims.members["nonce"], claims.members["nonce_supported"]) = (Invented.nonce(), true)
        case .missingNonce: claims.members["nonce"] = nil
        case .expired: claims.move(by: -30 * day)
        case .issuedInFuture: claims.move(by: day)
        case .forged: key = try .forged(id: key.id)
        case .unknownKey: key = try .forged()
        case .notAJWT: return "no JWT"
        case .missing: return nil
        case .nonceUnsupported:
            claims.members["nonce"] = nil
            claims.members["nonce_supported"] = false
        case .stringFlags:
            for name in ["email_verified", "is_private_email"] where claims.members[name] != nil { claims.members[name] = "true" }
        }
        return try key.sign(JSONText.encode(members: claims.members))
    }
}
