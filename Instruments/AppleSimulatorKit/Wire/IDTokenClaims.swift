// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation

struct IDTokenClaims: Sendable, Encodable {
    var issuer = "https://appleid.apple.com"
    var userID: String
    var clientID: String
    /// Seconds.
    private(set) var issuedAt: Int64
    /// A day later, as in captures from 2022 on. In 2020 it was ten minutes.
    private(set) var expiresAt: Int64
    /// Left half of the SHA-256 of the access token: OpenID Connect Core 1.0, section 3.1.3.6.
    private(set) var accessTokenHash: String?
    /// The same of the code. Captures have it beside a code only: section 3.3.2.11.
    private(set) var codeHash: String?
    /// Seconds. In captures it stands beside a code.
    private(set) var authenticatedAt: Int64?
    /// Only in answer to a code whose sign-in had a nonce. Captures of refresh answers have none.
    var nonce: String?
    /// Only beside a nonce.
    var nonceSupported: Bool?
    let email: String?
    /// A boolean since 2024; before, the string "true".
    var emailVerified: Flag?
    /// Absent when false, as in many captures. A boolean or a string, as ``emailVerified``.
    var isPrivateEmail: Flag?

    /// As the token endpoint answers.
    init(userID: String, clientID: String, address: EmailAddress?, accessToken: String, nonce: String?, now: Moment) {
        self.init(userID: userID, clientID: clientID, address: address, nonce: nonce, now: now)
        accessTokenHash = Self.hash(of: accessToken)
    }

    /// As the device or the browser gets it.
    init(of signIn: SignIn) {
        let address = signIn.email.map { EmailAddress(text: $0, isPrivate: signIn.emailIsPrivate ?? false) }
        self.init(userID: signIn.userID, clientID: signIn.clientID, address: address, nonce: signIn.nonce, now: signIn.grantedAt)
        codeHash = signIn.code.map(Self.hash)
        authenticatedAt = issuedAt
    }

    private init(userID: String, clientID: String, address: EmailAddress?, nonce: String?, now: Moment) {
        (self.userID, self.clientID) = (userID, clientID)
        self.issuedAt = now.seconds
        self.expiresAt = now.seconds + 86_400
        self.nonce = nonce
        self.nonceSupported = nonce.map { _ in true }
        self.email = address?.text
        self.emailVerified = address.map { _ in .bool(true) }
        self.isPrivateEmail = address.flatMap { $0.isPrivate ? .bool(true) : nil }
    }

    private static func hash(of text: String) -> String { Base64URL.encode(SHA256.hash(data: Data(text.utf8)).prefix(16)) }

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
        case codeHash = "c_hash"
        case authenticatedAt = "auth_time"
        case nonce
        case nonceSupported = "nonce_supported"
        case email
        case emailVerified = "email_verified"
        case isPrivateEmail = "is_private_email"
    }
}
