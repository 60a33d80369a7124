// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import NIOCore

struct TokenAnswer: Encodable {
    let accessToken: String
    let tokenType = "Bearer"
    /// Seconds.
    let expiresIn = 3600
    /// Only in answer to a code: a refresh never returns one.
    let refreshToken: String?
    let idToken: String?

    enum CodingKeys: String, CodingKey {
        case accessToken = "access_token"
        case tokenType = "token_type"
        case expiresIn = "expires_in"
        case refreshToken = "refresh_token"
        case idToken = "id_token"
    }
}

extension TokenAnswer {
    /// A new answer to `client_credentials`: an access token and nothing else.
    static var migration: ByteBuffer {
        ByteBuffer(bytes: JSONText.encode(TokenAnswer(accessToken: Invented.accessToken(), refreshToken: nil, idToken: nil)))
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
        let answer = try TokenAnswer(accessToken: accessToken, refreshToken: refreshToken, idToken: claims.flatMap(idToken))
        return ByteBuffer(bytes: JSONText.encode(answer))
    }

    private func idToken(of claims: IDTokenClaims) throws -> String? {
        guard let style else { return try key.sign(JSONText.encode(claims)) }
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
        struct Body: Encodable {
            let error: String
            let description: String?

            enum CodingKeys: String, CodingKey {
                case error
                case description = "error_description"
            }
        }
        return JSONText.encode(Body(error: code, description: text))
    }
}
