// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Why the token endpoint says no. The answer is always 400, and these are Apple's texts, letter by letter.
package enum TokenError: Error, Equatable {
    /// A parameter is missing, stands there twice or cannot be decoded.
    case invalidRequest
    /// A grant that this endpoint does not know. `client_credentials`, which serves team transfers, is not simulated.
    case unsupportedGrantType
    /// The client secret is not good. Apple never says why; the counters of the simulator do.
    case invalidClient(ClientSecretFlaw)
    /// A refresh token that is dead, unknown, of another client, or no refresh token at all.
    case deadToken
    /// A code that is unknown, no code at all, older than five minutes, or of a sign-in that is over.
    case deadCode
    case usedCode
    /// The code belongs to another client than the one named here.
    case clientMismatch(String)
    case redirectMismatch(String)

    var code: String {
        switch self {
        case .invalidRequest: "invalid_request"
        case .unsupportedGrantType: "unsupported_grant_type"
        case .invalidClient: "invalid_client"
        case .deadToken, .deadCode, .usedCode, .clientMismatch, .redirectMismatch: "invalid_grant"
        }
    }

    private var text: String? {
        switch self {
        case .invalidRequest, .unsupportedGrantType, .invalidClient: nil
        case .deadToken: "The token has expired or has been revoked."
        case .deadCode: "The code has expired or has been revoked."
        case .usedCode: "The code has already been used."
        case .clientMismatch(let clientID): "client_id mismatch. The code was not issued to \(clientID)."
        case .redirectMismatch(let uri): "redirect_uri mismatch. The code was not issued to \(uri)."
        }
    }

    /// The JSON that Apple answers with. `error_description` is undocumented and stands only where it was seen.
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
