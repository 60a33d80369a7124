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

    package init(_ outcome: RefreshOutcome, by identity: ClientIdentity) {
        self.outcome = outcome
        self.identity = identity
    }
}

/// What an answer means for the user, by the classification table in docs/architecture.md.
package enum RefreshOutcome: Sendable, Equatable {
    case valid
    /// `invalid_grant` for this token: a fact only once it is admitted.
    case rejected
    /// An answer that names no culprit: no state follows from it.
    case ambiguous(String)
    /// Our key, team, client or clock is wrong; nothing is said about any user.
    case misconfigured(String)
    case throttled(retryAfter: Duration?)
    case unavailable(String, retryAfter: Duration? = nil)
}
