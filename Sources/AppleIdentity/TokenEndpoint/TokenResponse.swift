// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What an answer of the token endpoints means.
///
/// Pure: the tables of docs/architecture.md and nothing else. Apple documents 200 and 400 only, and no wording of
/// `error_description`; so whatever is not listed says nothing about a user.
struct TokenResponse {
    let response: AppleResponse
    /// What was sent and must not come back in a text of ours.
    let secrets: [Secret]
    let receivedAt: Timestamp

    var retryAfter: Duration? {
        RetryAfter.duration(response.retryAfter, at: receivedAt)
    }

    /// The body as a JSON object, whatever `Content-Type` says: Apple has been seen to name ISO-8859-1.
    var members: [String: JSON]? {
        response.body.flatMap { (try? JSON($0))?.object }
    }

    /// What a 400 says.
    enum Complaint {
        case invalidGrant(description: JSON?)
        case invalidRequest
        /// It is about the client and its secret, or about siwatch, and not about what they came with.
        case misconfigured
        /// - Parameter error: nil where the body is no complaint at all.
        case other(error: String?)
    }

    var complaint: Complaint {
        switch members?["error"]?.string {
        case "invalid_grant": .invalidGrant(description: members?["error_description"])
        case "invalid_request": .invalidRequest
        case "invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope": .misconfigured
        case let error: .other(error: error)
        }
    }

    /// The error and its description, fit for a log line; without the description where it echoes what we sent.
    var complaintText: String {
        guard let members else { return response.body == nil ? "\(response.status) too large" : "\(response.status) without JSON" }
        guard let error = members["error"]?.string else { return "\(response.status) without error" }
        let texts = [error, members["error_description"]?.string ?? ""]
        return texts.filter { text in !text.isEmpty && !secrets.contains { text.contains($0.reveal) } }
            .map { $0.excerpt() }
            .joined(separator: ": ")
    }

    /// The `sub` of an id_token that came straight from the token endpoint.
    ///
    /// Its signature is not checked: TLS has told who sent it, which OpenID Connect Core (section 3.1.3.7) accepts in its place.
    /// Nothing but `sub` is read, and only to notice that two users' tokens were mixed up, or whom it might harm to revoke one.
    static func subject(ofIDToken token: String) -> String? {
        let parts = Array(token.utf8).split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3, let claims = Base64URL.decode(parts[1]) else { return nil }
        return (try? JSON(claims))?.object?["sub"]?.string
    }
}
