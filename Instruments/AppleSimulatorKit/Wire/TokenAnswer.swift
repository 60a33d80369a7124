// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import NIOCore

enum TokenAnswer {
    /// - Parameter others: nothing in answer to `client_credentials`, and a refresh token only in answer to a code.
    static func body(_ accessToken: String, _ others: [String: String] = [:]) -> ByteBuffer {
        // `expires_in` is in seconds.
        var members: [String: any Sendable] = ["access_token": accessToken, "token_type": "Bearer", "expires_in": 3600]
        for (name, value) in others { members[name] = value }
        return ByteBuffer(bytes: JSONText.encode(members: members))
    }
}

/// An answer of the token endpoint before its id_token is signed. The world drafts it under the lock, and the simulator signs it outside.
struct TokenAnswerDraft: Sendable {
    let grant: Int
    let accessToken: String
    let refreshToken: String?
    let claims: IDTokenClaims?
    let style: IDTokenStyle?
    /// A client that the token does not belong to.
    let otherClientID: String
    let key: SigningKey
    let madeAt: Moment

    func signed() throws -> ByteBuffer {
        var others: [String: String] = [:]
        others["refresh_token"] = refreshToken
        others["id_token"] = try claims.flatMap(idToken)
        return TokenAnswer.body(accessToken, others)
    }

    private func idToken(of claims: IDTokenClaims) throws -> String? {
        guard let style else { return try key.sign(JSONText.encode(members: claims.members)) }
        return try style.idToken(of: claims, otherClientID: otherClientID, key: key)
    }
}

/// Why the token endpoint refuses. The answer is always 400, and the texts are Apple's, letter by letter.
package enum TokenError: Error, Equatable {
    /// A parameter is missing, occurs twice or does not decode.
    case invalidRequest
    /// A grant that this endpoint does not know.
    case unsupportedGrantType
    /// Another scope than `user.migration`, the only one that Apple documents for `client_credentials`.
    case invalidScope
    /// The client secret is bad. Apple never says why; the counters of the simulator do.
    case invalidClient(ClientSecretFlaw)
    /// The refresh token is dead, unknown, of another client, or no refresh token.
    case deadToken
    /// The code is unknown, no code, older than five minutes, or of a sign-in that has ended.
    case deadCode
    case usedCode
    /// The code belongs to another client, not to this one.
    case clientMismatch(String)
    case redirectMismatch(String)

    var code: String {
        switch self {
        case .invalidRequest: "invalid_request"
        case .unsupportedGrantType: "unsupported_grant_type"
        case .invalidScope: "invalid_scope"
        case .invalidClient: "invalid_client"
        case .deadToken, .deadCode, .usedCode, .clientMismatch, .redirectMismatch: "invalid_grant"
        }
    }

    private var text: String? {
        switch self {
        case .invalidRequest, .unsupportedGrantType, .invalidScope, .invalidClient: nil
        case .deadToken: "The token has expired or has been revoked."
        case .deadCode: "The code has expired or has been revoked."
        case .usedCode: "The code has already been used."
        case .clientMismatch(let clientID): "client_id mismatch. The code was not issued to \(clientID)."
        case .redirectMismatch(let uri): "redirect_uri mismatch. The code was not issued to \(uri)."
        }
    }

    /// Apple's JSON answer. `error_description` is undocumented, so it occurs only where a capture has it.
    var body: Data {
        var members = ["error": code]
        members["error_description"] = text
        return JSONText.encode(members)
    }
}
