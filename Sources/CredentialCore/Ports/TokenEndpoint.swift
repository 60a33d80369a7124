// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Apple's token endpoints for one app. Every result is an answer, so nothing throws.
package protocol TokenEndpoint: Sendable {
    func refresh(_ token: Secret, of credential: CredentialID) async -> RefreshResponse
    /// Exchanges an authorization code, which Apple takes once. Only a sign-in on the web has a redirect URI.
    func exchange(_ code: Secret, redirectURI: String?, of clientID: String) async -> ExchangeResponse
    /// Asks Apple to revoke a token. A 200 proves nothing, because Apple gives it to nearly any request.
    func revoke(_ token: Secret, of clientID: String) async -> RevokeResponse
}

package typealias RefreshResponse = EndpointResponse<RefreshNews>
package typealias ExchangeResponse = EndpointResponse<ExchangeNews>
package typealias RevokeResponse = EndpointResponse<RevokeNews>

package struct EndpointResponse<News: EndpointNews>: Sendable, Equatable {
    package var answer: EndpointAnswer<News>
    package var identity: ClientIdentity
    /// Apple's clock in the answer, cut off to the second; nil without a date.
    package var date: Timestamp?

    package init(_ answer: EndpointAnswer<News>, by identity: ClientIdentity, date: Timestamp? = nil) {
        (self.answer, self.identity, self.date) = (answer, identity, date)
    }

    /// When the request was sent, by Apple's clock, because answers are compared with sign-ins and events, which Apple dates. Our clock
    /// counts while it agrees with the date of the answer. Otherwise the earliest possible time counts, so that a clock that is ahead
    /// cannot make a 200 newer than a later sign-in.
    package func requestedAt(_ ours: Timestamp, elapsed: Duration) -> Timestamp {
        guard let date else { return ours }
        let earliest = date.advanced(by: .zero - elapsed)
        return earliest <= ours && ours < date.advanced(by: .seconds(1)) ? ours : earliest
    }

    /// When the answer came, by Apple's clock. Our clock counts while it agrees with the date of the answer.
    package func answeredAt(_ ours: Timestamp) -> Timestamp {
        guard let date else { return ours }
        return min(max(ours, date), date.advanced(by: .milliseconds(999)))
    }
}

/// The meaning of Apple's answer to a question, by the tables in docs/truth.md.
package enum EndpointAnswer<News: EndpointNews>: Sendable, Equatable {
    /// Apple speaks of the token or the code.
    case news(News)
    /// Our key, team, client or clock is wrong. The answer says nothing about any token or code.
    case misconfigured(String)
    case throttled(retryAfter: Duration?)
    /// - Parameter isAnswerLost: whether Apple may have acted on the request. It does not count for a refresh, which changes nothing.
    case unavailable(String, isAnswerLost: Bool = false, retryAfter: Duration? = nil)
}

/// What Apple can say of a token or a code.
package protocol EndpointNews: Sendable, Equatable {
    /// Whether Apple says it only to a client whose secret it accepts.
    var provesClient: Bool { get }
}

package enum RefreshNews: EndpointNews {
    /// A 200 that names this user.
    case valid
    /// A 200 that names no user. The token lives, and siwatch has to know its user already.
    case unnamed
    /// `invalid_grant` for this token. It is a fact only once it is admitted.
    case rejected
    /// An answer that blames neither token nor client. No state follows.
    case ambiguous(String)
    /// A 200 that names another user, because two users' tokens were mixed up. It says nothing about this user.
    case anotherUser

    package var provesClient: Bool {
        switch self {
        case .valid, .unnamed: true
        // Apple answers `invalid_grant` for a dead token to every client, so the answer says nothing of our configuration.
        case .rejected, .ambiguous, .anotherUser: false
        }
    }
}

package enum ExchangeNews: EndpointNews {
    /// A 200. The id_token names the user, once it is verified.
    case issued(IssuedTokens)
    /// Apple refuses this code. The detail is Apple's text, without the code.
    case refused(GrantRejection, detail: String)

    package var provesClient: Bool {
        switch self {
        case .issued: true
        case .refused: false
        }
    }
}

package struct IssuedTokens: Sendable, Equatable {
    package var refreshToken: Secret?
    /// Nil if the answer has no id_token, or one that is not text.
    package var identityToken: Secret?
    /// The user that the id_token names, verified or not; nil if the id_token cannot be read.
    package var namedUserID: String?

    package init(refreshToken: Secret?, identityToken: Secret?, namedUserID: String? = nil) {
        (self.refreshToken, self.identityToken, self.namedUserID) = (refreshToken, identityToken, namedUserID)
    }
}

package enum RevokeNews: EndpointNews {
    case accepted

    package var provesClient: Bool { false }
}
