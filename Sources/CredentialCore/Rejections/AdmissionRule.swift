// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Which pending rejections become facts now.
package struct AdmissionRule: Sendable, Equatable {
    /// Nil is every client.
    package var clientID: String?
    /// Nil is every key.
    package var keyID: String?
    /// When Apple gave the answer; of one that it has repeated, both the first and the last.
    package var answered: ClosedRange<Timestamp>
    /// Only those that Apple has repeated at least so long after the first; nil is all. One that is repeated twice as late has waited
    /// enough, whenever the last answer was.
    package var repeatedAfter: Duration?
    /// Only those of tokens that Apple had accepted before. What ends with the rejection of another is the asking, so it has to be
    /// repeated.
    package var onlyAccepted: Bool

    package init(
        clientID: String? = nil,
        keyID: String? = nil,
        answered: ClosedRange<Timestamp>,
        repeatedAfter: Duration? = nil,
        onlyAccepted: Bool = false
    ) {
        self.clientID = clientID
        self.keyID = keyID
        self.answered = answered
        self.repeatedAfter = repeatedAfter
        self.onlyAccepted = onlyAccepted
    }
}

extension RejectionBreaker {
    /// What is to be believed now: while it is closed what an operator has confirmed; and of a client and key that are proven and that it
    /// does not hold, once the settle time has passed,
    ///
    /// - what Apple said in the midst of normal answers of a token that it had accepted before,
    /// - what Apple said again an interval later (the store counts that only if it accepted the client in between).
    package func admissions(
        with proofs: ClientProofs,
        under rules: BreakerRules,
        within interval: Duration,
        at now: Timestamp
    ) -> [AdmissionRule] {
        let settled = now.advanced(by: .zero - rules.settle)
        var admissions: [AdmissionRule] = []
        for (identity, normal) in proofs.proven(at: now, within: interval) {
            if let normal, normal.lowerBound <= settled {
                admissions.append(
                    AdmissionRule(
                        clientID: identity.clientID,
                        keyID: identity.keyID,
                        answered: normal.lowerBound...min(settled, normal.upperBound),
                        onlyAccepted: true
                    )
                )
            }
            admissions.append(
                AdmissionRule(
                    clientID: identity.clientID,
                    keyID: identity.keyID,
                    answered: .earliest...settled,
                    repeatedAfter: interval
                )
            )
        }
        if let confirmedAt, confirmedAt <= now { admissions.append(AdmissionRule(answered: .earliest...confirmedAt, onlyAccepted: true)) }
        return admissible(admissions)
    }

    /// Those of which it holds nothing.
    package func admissible(_ admissions: [AdmissionRule]) -> [AdmissionRule] {
        admissions.filter { $0.clientID.map { !holds($0) } ?? !isOpen }
    }
}
