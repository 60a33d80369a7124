// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What an answer of the token endpoint means.
///
/// Pure: the table of docs/architecture.md and nothing else. Apple documents 200 and 400 only, and no wording of
/// `error_description`; so whatever is not listed says nothing about a user.
struct TokenResponse {
    let response: AppleResponse
    /// Whose token was asked about, to compare with the `sub` of an id_token.
    let userID: String
    /// What was sent and must not come back in a text of ours.
    let secrets: [Secret]
    let receivedAt: Timestamp

    /// The outcome of a `refresh_token` grant.
    var refreshOutcome: RefreshOutcome {
        switch response.status {
        case 200: success
        case 400: failure
        case 429: .throttled(retryAfter: retryAfter)
        default: unavailable("status \(response.status)")
        }
    }

    private func unavailable(_ reason: String) -> RefreshOutcome {
        .unavailable(reason, retryAfter: retryAfter)
    }

    private var retryAfter: Duration? {
        RetryAfter.duration(response.retryAfter, at: receivedAt)
    }

    /// The body as a JSON object, whatever `Content-Type` says: Apple has been seen to name ISO-8859-1.
    private var members: [String: JSON]? {
        response.body.flatMap { (try? JSON($0))?.object }
    }
}

// MARK: 200

extension TokenResponse {
    private var success: RefreshOutcome {
        guard let members else { return unavailable(response.body == nil ? "200 too large" : "200 without JSON") }
        guard let accessToken = members["access_token"]?.string, !accessToken.isEmpty else {
            return unavailable("200 without access_token")
        }
        switch members["id_token"] {
        case nil, .null: return .valid
        case .string(let token):
            guard let subject = Self.subject(ofIDToken: token) else { return unavailable("200 with an unreadable id_token") }
            return subject.isIdentical(to: userID) ? .valid : .anotherUser
        default: return unavailable("200 with an unreadable id_token")
        }
    }

    /// The `sub` of an id_token that came straight from the token endpoint.
    ///
    /// Its signature is not checked: TLS has told who sent it, which OpenID Connect Core (section 3.1.3.7) accepts in its place.
    /// Nothing but `sub` is read, and only to notice that two users' tokens were mixed up.
    private static func subject(ofIDToken token: String) -> String? {
        let parts = token.utf8.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3, let claims = Base64URL.decode(parts[1]) else { return nil }
        return (try? JSON(claims))?.object?["sub"]?.string
    }
}

// MARK: 400

extension TokenResponse {
    private var failure: RefreshOutcome {
        guard let members else { return unavailable(response.body == nil ? "400 too large" : "400 without JSON") }
        guard let error = members["error"]?.string else { return unavailable("400 without error") }
        switch error {
        case "invalid_grant": return isRejection(members["error_description"]) ? .rejected : .ambiguous(text(of: members))
        case "invalid_request": return .ambiguous(text(of: members))
        case "invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope":
            return .misconfigured(text(of: members))
        default: return unavailable("unknown error: \(text(of: members))")
        }
    }

    /// Whether an `invalid_grant` speaks of the token: it says nothing more, or "The token has expired or has been revoked."
    ///
    /// A mismatch of client or redirect_uri, or talk of a code, is a mistake of ours; wording nobody has seen yet is not taken
    /// as the word on a user either.
    private func isRejection(_ description: JSON?) -> Bool {
        switch description {
        case nil, .null, .string(""): return true
        case .string(let text):
            let text = text.lowercased()
            return text.contains("token") && (text.contains("revoked") || text.contains("expired"))
                && !text.contains("mismatch") && !text.contains("code")
        default: return false
        }
    }

    /// The error and its description, fit for a log line; without the description where it echoes what we sent.
    private func text(of members: [String: JSON]) -> String {
        let error = members["error"]?.string ?? ""
        let texts = [error, members["error_description"]?.string ?? ""]
        return texts.filter { text in !text.isEmpty && !secrets.contains { text.contains($0.reveal) } }
            .map { $0.excerpt() }
            .joined(separator: ": ")
    }
}
