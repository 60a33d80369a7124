// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation

/// The claims of an id_token, by name. Times are seconds.
struct IDTokenClaims: Sendable {
    var members: [String: any Sendable]

    /// As the token endpoint answers. `at_hash` is the left half of a SHA-256: OpenID Connect Core 1.0, section 3.1.3.6.
    init(userID: String, clientID: String, address: EmailAddress?, accessToken: String, nonce: String?, now: Moment) {
        self.init(userID: userID, clientID: clientID, address: address, nonce: nonce, now: now)
        members["at_hash"] = Self.hash(of: accessToken)
    }

    /// As the device or the browser gets it. Captures have `c_hash` (section 3.3.2.11) and `auth_time` beside a code only.
    init(of signIn: SignIn) {
        let address = signIn.email.map { EmailAddress(text: $0, isPrivate: signIn.emailIsPrivate ?? false) }
        self.init(userID: signIn.userID, clientID: signIn.clientID, address: address, nonce: signIn.nonce, now: signIn.grantedAt)
        if let code = signIn.code { members["c_hash"] = Self.hash(of: code) }
        members["auth_time"] = signIn.grantedAt.seconds
    }

    /// `exp` is a day later, as in captures from 2022 on. In 2020 it was ten minutes. Captures of refresh answers have no nonce.
    private init(userID: String, clientID: String, address: EmailAddress?, nonce: String?, now: Moment) {
        members = ["iss": "https://appleid.apple.com", "sub": userID, "aud": clientID]
        (members["iat"], members["exp"]) = (now.seconds, now.seconds + 86_400)
        if let nonce { (members["nonce"], members["nonce_supported"]) = (nonce, true) }
        // The flags are booleans since 2024. Many captures have no `is_private_email` where it is false.
        if let address { (members["email"], members["email_verified"]) = (address.text, true) }
        if address?.isPrivate == true { members["is_private_email"] = true }
    }

    private static func hash(of text: String) -> String { Base64URL.encode(SHA256.hash(data: Data(text.utf8)).prefix(16)) }

    /// Moves its times later, or earlier by a negative number.
    mutating func move(by seconds: Int64) {
        for name in ["iat", "exp"] { members[name] = (members[name] as? Int64 ?? 0) + seconds }
    }
}
