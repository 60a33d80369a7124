// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What asking Apple about a token comes to.
package enum RefreshVerdict: Sendable, Equatable {
    /// A 200 about this user. The request is dated by Apple's clock where it told, the answer by ours: facts go by the one, the schedule
    /// by the other.
    case valid(requestedAt: Timestamp, answeredAt: Timestamp)
    /// The same without a name. It is one about this user if an id_token has said so of this token before.
    case unnamed(requestedAt: Timestamp, answeredAt: Timestamp)
    /// An `invalid_grant`. Whether it waits to be believed is for the breaker to say, in the transaction.
    ///
    /// - Parameter isProven: whether its client and key have had a 200 of late; without one it counts as held.
    case rejected(PendingRejection, isProven: Bool)
    /// A 200 about another user.
    case anotherUser(answeredAt: Timestamp)
    /// Neither yes nor no.
    case unclear(answeredAt: Timestamp)
    /// Nothing about the token.
    case failed(Failure, at: Timestamp, retryAfter: Duration? = nil)

    package enum Failure: String, Sendable, CaseIterable {
        /// `invalid_client` and its like: the configuration is to blame.
        case misconfigured
        case throttled
        case unavailable
    }

    /// When Apple was asked, where it said yes or no.
    package var requestedAt: Timestamp? {
        switch self {
        case .valid(let requestedAt, _), .unnamed(let requestedAt, _): requestedAt
        case .rejected(let rejection, _): rejection.requestedAt
        case .anotherUser, .unclear, .failed: nil
        }
    }

    /// When Apple answered about the token; nil where it did not.
    package var answeredAt: Timestamp? {
        switch self {
        case .valid(_, let answeredAt), .unnamed(_, let answeredAt), .anotherUser(let answeredAt), .unclear(let answeredAt): answeredAt
        case .rejected(let rejection, _): rejection.answeredAt
        case .failed: nil
        }
    }

    package var rejection: PendingRejection? {
        if case .rejected(let rejection, _) = self { rejection } else { nil }
    }

    /// Nil where Apple did not answer.
    package var answer: TokenAnswer? {
        switch self {
        case .valid: .valid
        case .rejected: .rejected
        case .anotherUser: .anotherUser
        case .unnamed, .unclear: .unclear
        case .failed: nil
        }
    }

    /// What it comes to for a credential. Whose a token is, an id_token has to say once: then Apple has accepted it as this user's.
    func judged(of credential: Credential) -> RefreshVerdict {
        guard case .unnamed(let requestedAt, let answeredAt) = self else { return self }
        return credential.verifiedAt == nil
            ? .unclear(answeredAt: answeredAt) : .valid(requestedAt: requestedAt, answeredAt: answeredAt)
    }
}

/// What Apple last said of a token, believed or not, as the store keeps it.
package enum TokenAnswer: String, Sendable, CaseIterable {
    case valid, rejected
    /// It is good, and is another user's.
    case anotherUser = "another_user"
    /// Neither yes nor no.
    case unclear
}
