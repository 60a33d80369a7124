// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation

/// The claims of an id_token of the token endpoint.
struct IDTokenClaims: Sendable, Encodable {
    var issuer = "https://appleid.apple.com"
    var userID: String
    var clientID: String
    /// Seconds.
    private(set) var issuedAt: Int64
    /// A day later, as in captures from 2022 on. In 2020 it was ten minutes.
    private(set) var expiresAt: Int64
    /// Left half of the SHA-256 of the access token: OpenID Connect Core 1.0, section 3.1.3.6.
    let accessTokenHash: String
    /// Only in answer to a code whose sign-in had a nonce. Captures of refresh answers have none.
    var nonce: String?
    /// Only beside a nonce.
    var nonceSupported: Bool?
    let email: String?
    /// A boolean since 2024; before, the string "true".
    var emailVerified: Flag?
    /// Absent when false, as in many captures. A boolean or a string, as ``emailVerified``.
    var isPrivateEmail: Flag?

    init(userID: String, clientID: String, address: EmailAddress?, accessToken: String, nonce: String?, now: Moment) {
        self.userID = userID
        self.clientID = clientID
        self.issuedAt = now.seconds
        self.expiresAt = now.seconds + 86_400
        self.accessTokenHash = Base64URL.encode(SHA256.hash(data: Data(accessToken.utf8)).prefix(16))
        self.nonce = nonce
        self.nonceSupported = nonce.map { _ in true }
        self.email = address?.text
        self.emailVerified = address.map { _ in .bool(true) }
        self.isPrivateEmail = address.flatMap { $0.isPrivate ? .bool(true) : nil }
    }

    /// Moves its times later, or earlier by a negative number.
    mutating func move(by seconds: Int64) {
        issuedAt += seconds
        expiresAt += seconds
    }

    enum CodingKeys: String, CodingKey {
        case issuer = "iss"
        case userID = "sub"
        case clientID = "aud"
        case issuedAt = "iat"
        case expiresAt = "exp"
        case accessTokenHash = "at_hash"
        case nonce
        case nonceSupported = "nonce_supported"
        case email
        case emailVerified = "email_verified"
        case isPrivateEmail = "is_private_email"
    }
}
