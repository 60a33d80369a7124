// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore

/// The meaning of an answer of the token endpoints.
///
/// Pure: the tables of docs/truth.md and nothing else. Apple documents only 200 and 400, and no `error_description`. So an unlisted
/// answer says nothing about a user.
struct TokenResponse {
    let response: TransportResponse
    /// The sent secrets, which no text of ours may repeat.
    let secrets: [Secret]
    let receivedAt: Timestamp

    var retryAfter: Duration? {
        RetryAfter.duration(response.retryAfter, at: receivedAt)
    }

    /// The body as a JSON object, whatever `Content-Type` says. Apple has named ISO-8859-1 there.
    var members: [String: JSON]? {
        response.body.flatMap { (try? JSON($0))?.object }
    }

    /// - Parameter isAnswerLost: whether Apple has acted on the request and its answer cannot be read.
    func unavailable<News>(_ reason: String, isAnswerLost: Bool = false) -> EndpointAnswer<News> {
        .unavailable(reason, isAnswerLost: isAnswerLost, retryAfter: retryAfter)
    }

    /// The answer by its status. Any other status than these says nothing.
    func answer<News>(
        to200 good: @autoclosure () -> EndpointAnswer<News>,
        to400 bad: @autoclosure () -> EndpointAnswer<News>
    ) -> EndpointAnswer<News> {
        switch response.status {
        case 200: good()
        case 400: bad()
        case 429: .throttled(retryAfter: retryAfter)
        default: unavailable("status \(response.status)")
        }
    }

    /// The error of a 400.
    enum Complaint {
        case invalidGrant(description: JSON?)
        case invalidRequest
        /// The error is about the client, its secret or siwatch, not about the token or the code.
        case misconfigured
        /// - Parameter error: nil if the body has no error.
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

    /// The error and its description, safe for a log line. A text that repeats a secret is left out.
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
    /// The signature is not checked, because TLS proves the sender, which OpenID Connect Core (section 3.1.3.7) accepts instead. siwatch
    /// reads only `sub`, and only to notice that two users' tokens were mixed up, or which user a revocation might harm.
    static func subject(ofIDToken token: String) -> String? {
        let parts = Array(token.utf8).split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3, let claims = Base64URL.decode(parts[1]) else { return nil }
        return (try? JSON(claims))?.object?["sub"]?.string
    }
}
