// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore

extension TokenResponse {
    /// The outcome of a revocation. A 200 has an empty body, and Apple gives it to nearly any request.
    var revokeOutcome: RevokeOutcome {
        switch response.status {
        case 200: .accepted
        case 400: notRevoked
        case 429: .throttled(retryAfter: retryAfter)
        default: .unavailable("status \(response.status)", isAnswerLost: false, retryAfter: retryAfter)
        }
    }

    private var notRevoked: RevokeOutcome {
        switch complaint {
        case .misconfigured: .misconfigured(complaintText)
        case .invalidGrant, .invalidRequest, .other: .unavailable(complaintText, isAnswerLost: false, retryAfter: retryAfter)
        }
    }
}
