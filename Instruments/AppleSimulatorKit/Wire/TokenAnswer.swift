// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The JSON of a 200 from the token endpoint.
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
