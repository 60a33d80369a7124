// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Why the token endpoint refuses. The answer is always 400, and the texts are Apple's, letter by letter.
package enum TokenError: Error, Equatable {
    /// A parameter is missing, occurs twice or does not decode.
    case invalidRequest
    /// A grant that this endpoint does not know. `client_credentials`, which serves team transfers, is not simulated.
    case unsupportedGrantType
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
