// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package enum RefreshVerdict: Sendable, Equatable {
    /// A 200 about this user. `requestedAt`, by Apple's clock if it sent a date, dates the fact. `answeredAt`, by ours, dates the schedule.
    case valid(requestedAt: Timestamp, answeredAt: Timestamp)
    /// A 200 without a user's name. It counts as one about this user if an id_token has named the user for this token before.
    case unnamed(requestedAt: Timestamp, answeredAt: Timestamp)
    /// An `invalid_grant`. The breaker decides whether it waits to be believed. It is proven if the client and key have had a 200 lately;
    /// without one it counts as held.
    case rejected(PendingRejection, isProven: Bool)
    case anotherUser(answeredAt: Timestamp)
    case unclear(answeredAt: Timestamp)
    case failed(Failure, at: Timestamp, retryAfter: Duration? = nil)

    package enum Failure: String, Sendable, CaseIterable {
        case misconfigured
        case throttled
        case unavailable
    }

    /// When the request was sent; nil if Apple said neither yes nor no.
    package var requestedAt: Timestamp? {
        switch self {
        case .valid(let requestedAt, _), .unnamed(let requestedAt, _): requestedAt
        case .rejected(let rejection, _): rejection.requestedAt
        case .anotherUser, .unclear, .failed: nil
        }
    }

    package var answeredAt: Timestamp? {
        switch self {
        case .valid(_, let answeredAt), .unnamed(_, let answeredAt), .anotherUser(let answeredAt), .unclear(let answeredAt): answeredAt
        case .rejected(let rejection, _): rejection.answeredAt
        case .failed: nil
        }
    }

    package var rejection: PendingRejection? { if case .rejected(let rejection, _) = self { rejection } else { nil } }

    package var answer: TokenAnswer? {
        switch self {
        case .valid: .valid
        case .rejected: .rejected
        case .anotherUser: .anotherUser
        case .unnamed, .unclear: .unclear
        case .failed: nil
        }
    }

    /// The verdict for one credential. An unnamed 200 is valid only if an id_token has named this user for the token before.
    func judged(of credential: Credential) -> RefreshVerdict {
        guard case .unnamed(let requestedAt, let answeredAt) = self else { return self }
        return credential.verifiedAt == nil
            ? .unclear(answeredAt: answeredAt) : .valid(requestedAt: requestedAt, answeredAt: answeredAt)
    }
}

/// Apple's last word on a token, believed or not, as the store keeps it.
package enum TokenAnswer: String, Sendable, CaseIterable {
    case valid, rejected
    /// The token is good and belongs to another user.
    case anotherUser = "another_user"
    case unclear
}
