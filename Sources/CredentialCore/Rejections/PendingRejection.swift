// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// An `invalid_grant` that waits to be believed.
package struct PendingRejection: Sendable, Equatable {
    /// When the request was sent: the fact it may become is of that moment.
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
    /// Whether Apple says again what waits, and has accepted the client after the first time, with a token that it had accepted before. A
    /// time without any 200 may have been one incident, or a mistake of ours, and its second rejection says no more than its first.
    ///
    /// One that waits from the future is of a clock that has since been set back, and is replaced. By Apple's clock an interval has to
    /// lie between the two: ours may have leapt over it.
    ///
    /// - Parameter provedAt: when Apple last accepted a token of the client that it had accepted before, by its clock.
    func isRepeated(by rejection: PendingRejection, provedAt: Timestamp?, under policy: RefreshPolicy) -> Bool {
        guard keyID == rejection.keyID, answeredAt <= rejection.answeredAt,
            requestedAt.advanced(by: policy.interval) <= rejection.requestedAt, let provedAt
        else { return false }
        // A request that was under way then may have been answered before whatever went wrong.
        return provedAt > requestedAt.advanced(by: policy.timeout) && provedAt <= rejection.requestedAt.advanced(by: policy.timeout)
    }
}

/// A rejection that was believed and ended a sign-in: remembered until a notification had time to come.
package struct AdmittedRejection: Sendable, Equatable {
    package var app: String
    package var credential: CredentialID
    package var tokenGrantedAt: Timestamp
    package var rejectedAt: Timestamp
}
