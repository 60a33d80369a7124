// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A rule for pending rejections that become facts now.
package struct AdmissionRule: Sendable, Equatable {
    /// The client; nil for every client.
    package var clientID: String?
    /// The key; nil for every key.
    package var keyID: String?
    /// When Apple gave the answer. For a repeated rejection, both the first and the last answer.
    package var answered: ClosedRange<Timestamp>
    /// Takes only rejections that Apple has repeated at least this long after the first; nil takes all. A repetition after twice this time
    /// counts at once, however new the last answer is.
    package var repeatedAfter: Duration?
    /// Takes only rejections of tokens that Apple had accepted before. siwatch stops asking about any other token once it
    /// believes a rejection, so Apple has to repeat that rejection first.
    package var onlyAccepted: Bool

    package init(
        clientID: String? = nil,
        keyID: String? = nil,
        answered: ClosedRange<Timestamp>,
        repeatedAfter: Duration? = nil,
        onlyAccepted: Bool = false
    ) {
        (self.clientID, self.keyID, self.answered) = (clientID, keyID, answered)
        (self.repeatedAfter, self.onlyAccepted) = (repeatedAfter, onlyAccepted)
    }
}

extension RejectionBreaker {
    /// The rules for what may be believed now. An operator's confirmation counts while the breaker is closed. Other rejections count once
    /// the settle time has passed, if their client and key are proven and the breaker does not hold the client's rejections. They are
    ///
    /// - rejections of tokens that Apple had accepted before, in the midst of normal answers,
    /// - rejections that Apple repeated an interval later. The store counts a repetition only if Apple accepted the client in between.
    package func admissions(
        with proofs: ClientProofs,
        under rules: BreakerRules,
        within interval: Duration,
        at now: Timestamp
    ) -> [AdmissionRule] {
        let settled = now.advanced(by: .zero - rules.settle)
        var admissions: [AdmissionRule] = []
        for (identity, normal) in proofs.proven(at: now, within: interval) {
            let (client, key) = (identity.clientID, identity.keyID)
            if let normal, normal.lowerBound <= settled {
                let answered = normal.lowerBound...min(settled, normal.upperBound)
                admissions.append(AdmissionRule(clientID: client, keyID: key, answered: answered, onlyAccepted: true))
            }
            admissions.append(AdmissionRule(clientID: client, keyID: key, answered: .earliest...settled, repeatedAfter: interval))
        }
        if let confirmedAt, confirmedAt <= now { admissions.append(AdmissionRule(answered: .earliest...confirmedAt, onlyAccepted: true)) }
        return admissible(admissions)
    }

    /// The rules without those whose rejections the breaker holds.
    package func admissible(_ admissions: [AdmissionRule]) -> [AdmissionRule] {
        admissions.filter { $0.clientID.map { !holds($0) } ?? !isOpen }
    }
}

/// An `invalid_grant` that waits to be believed.
package struct PendingRejection: Sendable, Equatable {
    /// When the request was sent. The fact that the rejection may become is of that moment.
    package var requestedAt: Timestamp
    package var answeredAt: Timestamp
    package var keyID: String

    package init(requestedAt: Timestamp, answeredAt: Timestamp, keyID: String) {
        (self.requestedAt, self.answeredAt, self.keyID) = (requestedAt, answeredAt, keyID)
    }

    /// Whether a rejection repeats this one, and Apple has accepted the client in between, with a token that it had accepted before. A time
    /// without such a 200 may be one incident, or our mistake, and its second rejection says no more than the first. An interval by Apple's
    /// clock must lie between the two, because our clock may have jumped over it. A pending rejection with a time in the future came from a
    /// clock that has since been set back, and is replaced.
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
