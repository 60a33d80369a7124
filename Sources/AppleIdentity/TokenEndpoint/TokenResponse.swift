// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore

/// The meaning of an answer of the token endpoints, by the tables of docs/truth.md. Apple documents only 200 and 400, and no
/// `error_description`. So an unlisted answer says nothing about a user.
struct TokenResponse {
    let response: TransportResponse
    /// The sent secrets, which no text of ours may repeat.
    let secrets: [Secret]
    let receivedAt: Timestamp

    private var retryAfter: Duration? { RetryAfter.duration(response.retryAfter, at: receivedAt) }

    /// The body as a JSON object, whatever `Content-Type` says. Apple has named ISO-8859-1 there.
    private var members: [String: JSON]? { response.body.flatMap { JSON($0)?.object } }

    /// Why there are no members.
    private var unreadable: String { "\(response.status) \(response.body == nil ? "too large" : "without JSON")" }

    /// - Parameter isAnswerLost: whether Apple has acted on the request and its answer cannot be read.
    private func unavailable<News>(_ reason: String, isAnswerLost: Bool = false) -> EndpointAnswer<News> {
        .unavailable(reason, isAnswerLost: isAnswerLost, retryAfter: retryAfter)
    }

    /// The answer by its status. Any other status than these says nothing.
    private func answer<News>(
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
    private enum Complaint {
        case invalidGrant(description: JSON?)
        case invalidRequest
        /// The error is about the client, its secret or siwatch, not about the token or the code.
        case misconfigured
        /// - Parameter error: nil if the body has no error.
        case other(error: String?)
    }

    private var complaint: Complaint {
        switch members?["error"]?.string {
        case "invalid_grant": .invalidGrant(description: members?["error_description"])
        case "invalid_request": .invalidRequest
        case let error? where ClientRefusal.isWord(error): .misconfigured
        case let error: .other(error: error)
        }
    }

    /// The error and its description, safe for a log line. A text that repeats a secret is left out.
    private var complaintText: String {
        guard let members else { return unreadable }
        guard let error = members["error"]?.string else { return "\(response.status) without error" }
        let texts = [error, members["error_description"]?.string ?? ""]
        return texts.filter { text in !text.isEmpty && !secrets.contains { text.contains($0.reveal) } }
            .map { $0.excerpt() }
            .joined(separator: ": ")
    }

    /// The signature is not checked, because TLS proves the sender, which OpenID Connect Core (section 3.1.3.7) accepts instead. siwatch
    /// reads only `sub`, and only to notice that two users' tokens were mixed up, or which user a revocation might harm.
    private static func subject(ofIDToken token: String) -> String? {
        CompactJWS.uncheckedClaims(of: Array(token.utf8)[...]).flatMap { JSON($0)?.object?["sub"]?.string }
    }
}

// MARK: The grants

extension TokenResponse {
    func refreshAnswer(for userID: String) -> EndpointAnswer<RefreshNews> { answer(to200: refreshed(userID), to400: notRefreshed) }

    private func refreshed(_ userID: String) -> EndpointAnswer<RefreshNews> {
        guard let members else { return unavailable(unreadable) }
        guard members["access_token"]?.nonEmptyString != nil else { return unavailable("200 without access_token") }
        switch members["id_token"] {
        case nil, .null: return .news(.unnamed)
        case let token:
            guard let subject = token?.string.flatMap(Self.subject) else { return unavailable("200 with an unreadable id_token") }
            return subject.isIdentical(to: userID) ? .news(.valid) : .news(.anotherUser)
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

    /// Whether an `invalid_grant` is about the token: it has no description, or "The token has expired or has been revoked." A mismatch of
    /// client or redirect_uri, or a code in the text, shows a mistake of ours. An unknown text does not count against a user either.
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

    var exchangeAnswer: EndpointAnswer<ExchangeNews> { answer(to200: issued, to400: notIssued) }

    private var issued: EndpointAnswer<ExchangeNews> {
        guard let members else { return unavailable(unreadable, isAnswerLost: true) }
        let identityToken = members["id_token"]?.string
        guard members["refresh_token"]?.string != nil || identityToken != nil else {
            return unavailable("200 without tokens", isAnswerLost: true)
        }
        let tokens = IssuedTokens(
            refreshToken: members["refresh_token"]?.nonEmptyString.map(Secret.init),
            identityToken: identityToken.map(Secret.init),
            namedUserID: identityToken.flatMap(Self.subject)
        )
        return .news(.issued(tokens))
    }

    private var notIssued: EndpointAnswer<ExchangeNews> {
        switch complaint {
        case .invalidGrant(let description): .news(.refused(Self.refusal(description), detail: complaintText))
        case .misconfigured: .misconfigured(complaintText)
        // OAuth's two errors for a server's own trouble.
        case .other(nil), .other("server_error"), .other("temporarily_unavailable"): unavailable(complaintText)
        case .invalidRequest, .other: .news(.refused(.rejectedByApple, detail: complaintText))
        }
    }

    /// Apple documents none of these texts, but all were seen. In December 2022 Apple said "token" of codes for some days.
    private static func refusal(_ description: JSON?) -> GrantRejection {
        let text = description?.string?.lowercased() ?? ""
        if text.contains("already been used") { return .codeUsed }
        if text.contains("client_id mismatch") { return .clientMismatch }
        if text.contains("redirect_uri mismatch") { return .redirectURIMismatch }
        if text.contains("expired") || text.contains("revoked") { return .codeExpired }
        return .rejectedByApple
    }

    /// Only `invalid_client` blames key, team or client. `unauthorized_client`, `invalid_scope` and `unsupported_grant_type` may say that
    /// Apple does not give this grant to a client whose sign-ins work, so they prove nothing.
    var clientAnswer: EndpointAnswer<ClientNews> {
        let isBlamed = members?["error"]?.string == "invalid_client"
        return answer(
            to200: members?["access_token"]?.nonEmptyString != nil ? .news(.accepted) : unavailable("200 without access_token"),
            to400: isBlamed ? .misconfigured(complaintText) : unavailable(complaintText)
        )
    }

    /// A 200 has an empty body.
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
