// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A well-formed request to the revocation endpoint. `token_type_hint` is not looked at: RFC 7009 section 2.1 makes it no more than a hint.
struct RevocationRequest: Sendable {
    let clientID: String
    let clientSecret: String
    let token: String

    init(_ form: FormBody) throws(TokenError) {
        // Not `invalid_request`, as at the token endpoint: this is what an empty body was seen to get.
        guard let clientID = form["client_id"], let clientSecret = form["client_secret"] else { throw .invalidClient(.malformed) }
        guard let token = form["token"] else { throw .invalidRequest }
        self.clientID = clientID
        self.clientSecret = clientSecret
        self.token = token
    }
}
