// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How far the proof has come that a token is revoked.
///
/// Apple answers 200 to nearly any revocation, so that proves nothing. What does: asked with one key by one team, it accepts the token, is
/// asked to revoke it, and accepts it no more. What is known is kept after each answer, so that after a crash the next question follows.
package struct RevocationProof: Sendable, Equatable {
    package struct Answer: Sendable, Equatable {
        package enum Word: String, Sendable, CaseIterable {
            /// A 200 to a refresh.
            case accepted
            /// A 200 to a revocation.
            case revoked
            /// No answer to a revocation, which may have worked.
            case unheard
            /// `invalid_grant`.
            case rejected = "invalid_grant"
        }

        package var word: Word
        /// When Apple was asked, by our clock.
        package var askedAt: Timestamp
        /// Apple's clock in the answer, a whole second cut off.
        package var date: Timestamp?

        package init(_ word: Word, askedAt: Timestamp, date: Timestamp?) {
            self.word = word
            self.askedAt = askedAt
            self.date = date
        }
    }

    /// What Apple said of the token before: accepted, or rejected.
    package var before: Answer?
    package var revocation: Answer?
    /// What it said after: rejected, or, since there is only the last, accepted.
    package var after: Answer?
    /// The key that asked, all the time.
    package var keyID: String?
    /// Times that Apple was asked to revoke it and accepted it still.
    package var rounds = 0
    /// Times in a row that Apple did not answer.
    package var failures = 0

    package init() {}

    package enum Question: Sendable, Equatable {
        case isAccepted
        case revoke
        /// The same question as the first, after the second.
        case isStillAccepted
        /// The first question again, which Apple answered with a rejection: that is believed only if Apple repeats it, and has accepted
        /// the client in between.
        case isBelieved
    }

    package var next: Question {
        guard let before else { return .isAccepted }
        if before.word == .rejected { return .isBelieved }
        return revocation == nil ? .revoke : .isStillAccepted
    }

    /// The token was good, and is revoked.
    package var isProved: Bool {
        before?.word == .accepted && revocation != nil && after?.word == .rejected
    }

    /// Takes in the answer to the next question.
    ///
    /// - Parameter isAnotherTeam: whether another team asked than the one from which Apple accepted the token. It may reject to that team a
    ///   token that it goes on accepting from the first.
    /// - Returns: when the one after that is to be asked.
    mutating func take(
        _ answer: Answer,
        keyID: String,
        isAnotherTeam: Bool = false,
        of id: CredentialID,
        under policy: RefreshPolicy,
        at now: Timestamp
    ) -> Timestamp {
        failures = 0
        // An answer to one key proves nothing beside an answer to another, nor does one to another team: the proof begins anew.
        if let known = self.keyID, known != keyID || isAnotherTeam && before?.word == .accepted {
            let rounds = rounds
            self = RevocationProof()
            self.rounds = rounds
            if answer.word == .revoked || answer.word == .unheard { return now }
        }
        self.keyID = keyID
        switch next {
        case .isAccepted, .isBelieved:
            before = answer
        case .revoke:
            revocation = answer
        case .isStillAccepted:
            after = answer
            guard answer.word == .accepted else { break }
            revocation = nil
            rounds += 1
            return policy.retry(afterFailures: rounds, at: now, of: id)
        }
        return now
    }

    /// A revocation was sent, and its answer did not come: whether it worked, Apple is asked next.
    mutating func miss(
        _ answer: Answer,
        keyID: String,
        isAnotherTeam: Bool = false,
        retryAfter: Duration?,
        of id: CredentialID,
        under policy: RefreshPolicy,
        at now: Timestamp
    )
        -> Timestamp
    {
        let failures = failures
        _ = take(answer, keyID: keyID, isAnotherTeam: isAnotherTeam, of: id, under: policy, at: now)
        self.failures = failures
        return fail(at: now, retryAfter: retryAfter, of: id, under: policy)
    }

    mutating func fail(at time: Timestamp, retryAfter: Duration?, of id: CredentialID, under policy: RefreshPolicy) -> Timestamp {
        failures += 1
        return policy.retry(afterFailures: failures, at: time, retryAfter: retryAfter.map { min($0, Self.longestRetryAfter) }, of: id)
    }

    /// That the token was dead from the first is not to be believed yet. Apple is asked anew, because another key may be at work by then,
    /// once everybody else has been asked about.
    mutating func wait(under policy: RefreshPolicy, at now: Timestamp) -> Timestamp {
        if let before, before.askedAt.advanced(by: policy.repetition) <= now || before.askedAt > now { self.before = nil }
        return now.advanced(by: Self.patience)
    }

    /// An account is to be deleted: Apple may ask for patience, but not for a day.
    private static let longestRetryAfter = Duration.hours(1)
    /// Longer than any question is put off, or held by a claim.
    package static let longestDelay = Duration.hours(3)

    /// How often it is looked whether the client has been accepted meanwhile.
    private static let patience = Duration.seconds(60)
    /// What was claimed and not asked, because Apple blamed the client meanwhile, is due again after that.
    static let pausedWait = Duration.seconds(10)
}
