// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Apple's token endpoints as one app sees them. Whatever happens is an outcome: there is nothing to throw.
package protocol TokenEndpoint: Sendable {
    /// Asks whether a refresh token is still good.
    func refresh(_ token: Secret, of credential: CredentialID) async -> RefreshResponse

    /// Exchanges an authorization code, which is good once.
    ///
    /// - Parameter redirectURI: the one that the sign-in on the web named; nil for a native one.
    func exchange(_ code: Secret, redirectURI: String?, of clientID: String) async -> ExchangeResponse

    /// Asks Apple to end a token. That it says so proves nothing: it does to nearly anything.
    func revoke(_ token: Secret, of clientID: String) async -> RevokeResponse
}

package typealias RefreshResponse = EndpointResponse<RefreshOutcome>
package typealias ExchangeResponse = EndpointResponse<ExchangeOutcome>
package typealias RevokeResponse = EndpointResponse<RevokeOutcome>

package struct EndpointResponse<Outcome: Sendable & Equatable>: Sendable, Equatable {
    package var outcome: Outcome
    /// Who asked.
    package var identity: ClientIdentity
    /// Apple's clock in the answer, a whole second cut off; nil where it told none.
    package var date: Timestamp?

    package init(_ outcome: Outcome, by identity: ClientIdentity, date: Timestamp? = nil) {
        self.outcome = outcome
        self.identity = identity
        self.date = date
    }

    /// When the request was sent, by Apple's clock.
    ///
    /// Answers are compared with sign-ins and events, which Apple dates. Ours counts as long as it agrees with the date of the answer; else
    /// the earliest that the answer leaves possible, so that no clock that is ahead makes a 200 newer than a sign-in that came after it.
    ///
    /// - Parameters:
    ///   - ours: by our clock.
    ///   - elapsed: from then until the answer was there.
    package func requestedAt(_ ours: Timestamp, elapsed: Duration) -> Timestamp {
        guard let date else { return ours }
        let earliest = date.advanced(by: .zero - elapsed)
        return earliest <= ours && ours < date.advanced(by: .seconds(1)) ? ours : earliest
    }

    /// When the answer came, by Apple's clock: ours while it agrees with the date of the answer.
    package func answeredAt(_ ours: Timestamp) -> Timestamp {
        guard let date else { return ours }
        return min(max(ours, date), date.advanced(by: .milliseconds(999)))
    }
}

/// What Apple's answer to a refresh means: the table in docs/architecture.md.
package enum RefreshOutcome: Sendable, Equatable {
    /// A 200 that names this user.
    case valid
    /// A 200 that names nobody: the token lives, and whose it is has to be known already.
    case unnamed
    /// `invalid_grant` for this token: a fact only once it is admitted.
    case rejected
    /// An answer that names no culprit: no state follows from it.
    case ambiguous(String)
    /// A 200 that names another user: two users' tokens were mixed up, and nothing is said about this one.
    case anotherUser
    /// Our key, team, client or clock is wrong; nothing is said about any user.
    case misconfigured(String)
    case throttled(retryAfter: Duration?)
    case unavailable(String, retryAfter: Duration? = nil)
}

package enum ExchangeOutcome: Sendable, Equatable {
    /// A 200. Whose tokens they are is for the id_token to say, once it is verified.
    case issued(IssuedTokens)
    /// Apple will not take this code.
    ///
    /// - Parameter detail: what Apple said, without the code.
    case refused(GrantRejection, detail: String)
    /// Our key, team, client or clock is wrong; nothing is said about the code.
    case misconfigured(String)
    case throttled(retryAfter: Duration?)
    /// - Parameter isAnswerLost: whether Apple may have taken the code, with nobody to hear its answer.
    case unavailable(String, isAnswerLost: Bool, retryAfter: Duration? = nil)
}

/// What a code was exchanged for.
package struct IssuedTokens: Sendable, Equatable {
    package var refreshToken: Secret?
    /// Nil where the answer had none that is a text.
    package var identityToken: Secret?
    /// Whom that one names, verified or not; nil where it cannot be read.
    package var namedUserID: String?

    package init(refreshToken: Secret?, identityToken: Secret?, namedUserID: String? = nil) {
        self.refreshToken = refreshToken
        self.identityToken = identityToken
        self.namedUserID = namedUserID
    }
}

package enum RevokeOutcome: Sendable, Equatable {
    /// A 200, which proves nothing.
    case accepted
    case misconfigured(String)
    case throttled(retryAfter: Duration?)
    /// - Parameter isAnswerLost: whether Apple may have revoked the token, with nobody to hear its answer.
    case unavailable(String, isAnswerLost: Bool, retryAfter: Duration? = nil)
}
