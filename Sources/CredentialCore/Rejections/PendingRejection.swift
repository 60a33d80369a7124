// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// An `invalid_grant` that waits to be believed.
package struct PendingRejection: Sendable, Equatable {
    /// When the request was sent. The fact that the rejection may become is of that moment.
    package var requestedAt: Timestamp
    package var answeredAt: Timestamp
    /// The key that asked.
    package var keyID: String

    package init(requestedAt: Timestamp, answeredAt: Timestamp, keyID: String) {
        self.requestedAt = requestedAt
        self.answeredAt = answeredAt
        self.keyID = keyID
    }
}

extension PendingRejection {
    /// Whether a rejection repeats this one, and Apple has accepted the client in between, with a token that it had accepted before. A time
    /// without such a 200 may be one incident, or our mistake, and its second rejection says no more than the first.
    ///
    /// A pending rejection with a time in the future came from a clock that has since been set back, and is replaced. An interval by
    /// Apple's clock must lie between the two, because our clock may have jumped over it.
    ///
    /// - Parameter provedAt: when Apple last accepted a token of the client that it had accepted before, by Apple's clock.
    func isRepeated(by rejection: PendingRejection, provedAt: Timestamp?, under policy: RefreshPolicy) -> Bool {
        guard keyID == rejection.keyID, answeredAt <= rejection.answeredAt,
            requestedAt.advanced(by: policy.interval) <= rejection.requestedAt, let provedAt
        else { return false }
        // A request that was under way then may have been answered before the trouble began.
        return provedAt > requestedAt.advanced(by: policy.timeout) && provedAt <= rejection.requestedAt.advanced(by: policy.timeout)
    }
}

/// A believed rejection that ended a sign-in. siwatch remembers it until a notification has had time to come.
package struct AdmittedRejection: Sendable, Equatable {
    package var app: String
    package var credential: CredentialID
    package var tokenGrantedAt: Timestamp
    package var rejectedAt: Timestamp
}
