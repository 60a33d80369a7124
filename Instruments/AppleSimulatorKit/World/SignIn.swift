// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How a person signs in, as members of a message.
package struct SignInOptions: Sendable, Codable {
    /// The client; the primary App ID of the first group, if absent.
    package var clientID: String?
    /// A refresh token, if absent.
    package var credential: Credential?
    /// The `redirect_uri` that the exchange of the code must name, as after a sign-in on the web.
    package var redirectURI: String?
    package var nonce: String?
    /// Whether the sign-in comes with the id_token that Apple hands to the device or the browser; false, if absent.
    package var withIDToken: Bool?
    /// When; now, if absent.
    package var at: Moment?

    package init(
        clientID: String? = nil,
        credential: Credential? = nil,
        redirectURI: String? = nil,
        nonce: String? = nil,
        withIDToken: Bool? = nil,
        at: Moment? = nil
    ) {
        self.clientID = clientID
        self.credential = credential
        self.redirectURI = redirectURI
        self.nonce = nonce
        self.withIDToken = withIDToken
        self.at = at
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case clientID = "client_id"
        case credential
        case redirectURI = "redirect_uri"
        case nonce
        case withIDToken = "id_token"
        case at = "granted_at"
    }

    /// The credential that the app's backend holds afterwards.
    package enum Credential: String, Sendable, Codable {
        case refreshToken = "refresh_token"
        case code = "authorization_code"
        /// The backend read the id_token and threw the code away.
        case nothing = "none"
    }
}

package enum AddressKind: String, Sendable, Codable {
    /// An address at Apple's mail relay.
    case relay
    /// The user's own address, shared with the app.
    case own
    /// None: the app did not ask for it.
    case none
}

/// The facts that an app's backend learns from a sign-in.
package struct SignIn: Sendable, Codable, Equatable {
    package let userID: String
    package let clientID: String
    package var refreshToken: String?
    package let code: String?
    /// Apple's word to the device or the browser, if it was asked for.
    package var idToken: String?
    /// The app's own values for the sign-in: the `redirect_uri` and the nonce.
    package let redirectURI: String?
    package let nonce: String?
    package let email: String?
    package let emailIsPrivate: Bool?
    /// By Apple's clock. The `iat` of an id_token is this moment, rounded down to a second.
    package var grantedAt: Moment

    enum CodingKeys: String, CodingKey {
        case userID = "user_id"
        case clientID = "client_id"
        case refreshToken = "refresh_token"
        case code = "authorization_code"
        case idToken = "id_token"
        case redirectURI = "redirect_uri"
        case nonce, email
        case emailIsPrivate = "email_is_private"
        case grantedAt = "granted_at"
    }
}
