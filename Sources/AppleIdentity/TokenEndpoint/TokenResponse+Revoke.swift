// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore

extension TokenResponse {
    /// The answer to a revocation. A 200 has an empty body.
    var revokeAnswer: EndpointAnswer<RevokeNews> { answer(to200: .news(.accepted), to400: notRevoked) }

    private var notRevoked: EndpointAnswer<RevokeNews> {
        switch complaint {
        case .misconfigured: .misconfigured(complaintText)
        case .invalidGrant, .invalidRequest, .other: unavailable(complaintText)
        }
    }
}

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
        let hasToken = members?["access_token"]?.string?.isEmpty == false
        let isBlamed = members?["error"]?.string == "invalid_client"
        return answer(
            to200: hasToken ? .news(.accepted) : unavailable("200 without access_token"),
            to400: isBlamed ? .misconfigured(complaintText) : unavailable(complaintText)
        )
    }
}
