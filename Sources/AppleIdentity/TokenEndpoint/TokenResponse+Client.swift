// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore

/// What Apple can say to a `client_credentials` grant, apart from its blame of the client.
package enum ClientNews: EndpointNews {
    /// A 200 with an access token: key, team and client id belong together.
    case accepted

    package var provesClient: Bool { true }
}

extension TokenResponse {
    /// The answer to a `client_credentials` grant.
    ///
    /// Only `invalid_client` blames key, team or client. `unauthorized_client`, `invalid_scope` and `unsupported_grant_type` may say that
    /// Apple does not give this grant to a client whose sign-ins work, so they prove nothing.
    var clientAnswer: EndpointAnswer<ClientNews> {
        switch response.status {
        case 200:
            guard let accessToken = members?["access_token"]?.string, !accessToken.isEmpty else {
                return unavailable("200 without access_token")
            }
            return .news(.accepted)
        case 400:
            guard members?["error"]?.string == "invalid_client" else { return unavailable(complaintText) }
            return .misconfigured(complaintText)
        case 429: return .throttled(retryAfter: retryAfter)
        default: return unavailable("status \(response.status)")
        }
    }
}
