// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore

extension TokenResponse {
    /// The answer to a `refresh_token` grant.
    func refreshAnswer(for userID: String) -> EndpointAnswer<RefreshNews> { answer(to200: refreshed(userID), to400: notRefreshed) }

    private func refreshed(_ userID: String) -> EndpointAnswer<RefreshNews> {
        guard let members else { return unavailable(response.body == nil ? "200 too large" : "200 without JSON") }
        guard let accessToken = members["access_token"]?.string, !accessToken.isEmpty else {
            return unavailable("200 without access_token")
        }
        switch members["id_token"] {
        case nil, .null: return .news(.unnamed)
        case .string(let token):
            guard let subject = Self.subject(ofIDToken: token) else { return unavailable("200 with an unreadable id_token") }
            return subject.isIdentical(to: userID) ? .news(.valid) : .news(.anotherUser)
        default: return unavailable("200 with an unreadable id_token")
        }
    }

    private var notRefreshed: EndpointAnswer<RefreshNews> {
        switch complaint {
        case .invalidGrant(let description): .news(Self.isRejection(description) ? .rejected : .ambiguous(complaintText))
        case .invalidRequest: .news(.ambiguous(complaintText))
        case .misconfigured: .misconfigured(complaintText)
        case .other(nil): unavailable(complaintText)
        case .other: unavailable("unknown error: \(complaintText)")
        }
    }

    /// Whether an `invalid_grant` is about the token: it has no description, or "The token has expired or has been revoked."
    ///
    /// A mismatch of client or redirect_uri, or a code in the text, shows a mistake of ours. An unknown text does not count against a user
    /// either.
    private static func isRejection(_ description: JSON?) -> Bool {
        switch description {
        case nil, .null, .string(""): return true
        case .string(let text):
            let text = text.lowercased()
            return text.contains("token") && (text.contains("revoked") || text.contains("expired"))
                && !text.contains("mismatch") && !text.contains("code")
        default: return false
        }
    }
}
