// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore

extension TokenResponse {
    /// The answer to a revocation. A 200 has an empty body.
    var revokeAnswer: EndpointAnswer<RevokeNews> {
        switch response.status {
        case 200: .news(.accepted)
        case 400: notRevoked
        case 429: .throttled(retryAfter: retryAfter)
        default: unavailable("status \(response.status)")
        }
    }

    private var notRevoked: EndpointAnswer<RevokeNews> {
        switch complaint {
        case .misconfigured: .misconfigured(complaintText)
        case .invalidGrant, .invalidRequest, .other: unavailable(complaintText)
        }
    }
}
