// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import NIOCore

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
        default: throw .unsupportedGrantType
        }
        (self.clientID, self.clientSecret) = (clientID, clientSecret)
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
        (self.clientID, self.clientSecret, self.token) = (clientID, clientSecret, token)
    }
}

/// The fields of an `application/x-www-form-urlencoded` body, decoded.
struct FormBody: Sendable {
    private var fields: [String: String] = [:]

    /// - Throws: `TokenError.invalidRequest` if a name occurs twice, or an escape or its UTF-8 is broken.
    init(_ body: ByteBuffer) throws(TokenError) {
        for pair in body.readableBytesView.split(separator: UInt8(ascii: "&")) {
            let halves = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decode(halves[0]), let value = halves.count == 2 ? Self.decode(halves[1]) : "",
                fields.updateValue(value, forKey: name) == nil
            else { throw .invalidRequest }
        }
    }

    /// A field that is present and not empty.
    subscript(name: String) -> String? { text(of: name).flatMap { $0.isEmpty ? nil : $0 } }

    func text(of name: String) -> String? { fields[name] }

    private static func decode(_ escaped: ByteBufferView) -> String? {
        String(validating: escaped, as: UTF8.self)?.replacing("+", with: " ").removingPercentEncoding
    }
}
