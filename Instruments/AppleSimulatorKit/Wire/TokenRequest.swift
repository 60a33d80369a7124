// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A well-formed request to the token endpoint.
struct TokenRequest: Sendable {
    enum Grant: Sendable {
        case code(String, redirectURI: String?)
        case refreshToken(String)
        /// Asks for an access token that moves users to another team. It names no user.
        case clientCredentials
    }

    let clientID: String
    let clientSecret: String
    let grant: Grant

    /// The `grant_type` that is about a client alone.
    static let clientCredentials = "client_credentials"

    init(_ form: FormBody) throws(TokenError) {
        guard let grantType = form["grant_type"], let clientID = form["client_id"], let clientSecret = form["client_secret"] else {
            throw .invalidRequest
        }
        switch grantType {
        case "authorization_code":
            guard let code = form["code"] else { throw .invalidRequest }
            // An empty redirect URI counts as one, and Apple issued no code to it.
            grant = .code(code, redirectURI: form.text(of: "redirect_uri"))
        case "refresh_token":
            guard let token = form["refresh_token"] else { throw .invalidRequest }
            grant = .refreshToken(token)
        case Self.clientCredentials:
            guard let scope = form["scope"] else { throw .invalidRequest }
            guard scope == "user.migration" else { throw .invalidScope }
            grant = .clientCredentials
        default:
            throw .unsupportedGrantType
        }
        self.clientID = clientID
        self.clientSecret = clientSecret
    }
}

/// A well-formed request to the revocation endpoint. It ignores `token_type_hint`, which RFC 7009 section 2.1 makes a mere hint.
struct RevocationRequest: Sendable {
    let clientID: String
    let clientSecret: String
    let token: String

    init(_ form: FormBody) throws(TokenError) {
        // Not `invalid_request`, as at the token endpoint: a capture shows this answer to an empty body.
        guard let clientID = form["client_id"], let clientSecret = form["client_secret"] else { throw .invalidClient(.malformed) }
        guard let token = form["token"] else { throw .invalidRequest }
        self.clientID = clientID
        self.clientSecret = clientSecret
        self.token = token
    }
}
