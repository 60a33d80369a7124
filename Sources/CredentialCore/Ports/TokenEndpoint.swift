// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Apple's token endpoint as one app sees it.
package protocol TokenEndpoint: Sendable {
    /// Asks whether a refresh token is still good. Whatever happens is an outcome: there is nothing to throw.
    func refresh(_ token: Secret, of credential: CredentialID) async -> RefreshResponse
}

package struct RefreshResponse: Sendable, Equatable {
    package var outcome: RefreshOutcome
    /// Who asked.
    package var identity: ClientIdentity
    /// Apple's clock in the answer, a whole second cut off; nil where it told none.
    package var date: Timestamp?

    package init(_ outcome: RefreshOutcome, by identity: ClientIdentity, date: Timestamp? = nil) {
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
}

/// What an answer means for the user, by the classification table in docs/architecture.md.
package enum RefreshOutcome: Sendable, Equatable {
    case valid
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
