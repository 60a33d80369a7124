// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How far the proof of a token's revocation has come. Apple answers 200 to nearly any revocation, so the proof needs three answers to one
/// team under one key: Apple accepts the token, is asked to revoke it, and no longer accepts it. Each answer is stored, so that after a
/// crash the next question follows from the stored ones.
package struct RevocationProof: Sendable, Equatable, Encodable {
    package struct Answer: Sendable, Equatable, Encodable {
        package enum Word: String, Sendable, CaseIterable, Encodable {
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
        /// Apple's clock in the answer, cut off to the second.
        package var date: Timestamp?

        private enum CodingKeys: String, CodingKey { case word = "answer", askedAt, date }

        package init(_ word: Word, askedAt: Timestamp, date: Timestamp?) {
            (self.word, self.askedAt, self.date) = (word, askedAt, date)
        }
    }

    /// What Apple said of the token before the revocation: accepted or rejected.
    package var before: Answer?
    package var revocation: Answer?
    /// What Apple last said of the token after the revocation: rejected or accepted.
    package var after: Answer?
    /// The key that asked all questions.
    package var keyID: String?
    /// How often Apple was asked to revoke the token and still accepted it.
    package var rounds = 0
    /// How often in a row Apple did not answer.
    package var failures = 0

    private enum CodingKeys: CodingKey { case before, revocation, after }

    package init() {}

    package enum Question: Sendable, Equatable {
        case isAccepted
        case revoke
        /// The first question again, after the second.
        case isStillAccepted
        /// The first question again, after a rejection: that is believed only if Apple repeats it and has accepted the client in between.
        case isBelieved
    }

    package var next: Question {
        guard let before else { return .isAccepted }
        if before.word == .rejected { return .isBelieved }
        return revocation == nil ? .revoke : .isStillAccepted
    }

    package var isProved: Bool { before?.word == .accepted && revocation != nil && after?.word == .rejected }

    /// Takes the answer to the next question, and says when to ask the one after that. If none came to a revocation, the next question
    /// tells whether that worked. From another team than the one from which it accepted a token, Apple may reject a good token.
    mutating func take(
        _ answer: Answer,
        keyID: String,
        isAnotherTeam: Bool = false,
        retryAfter: Duration? = nil,
        of id: CredentialID,
        under policy: RefreshPolicy,
        at now: Timestamp
    ) -> Timestamp {
        if answer.word != .unheard { failures = 0 }
        // Answers to two keys or to two teams prove nothing together, so the proof begins anew.
        if let known = self.keyID, known != keyID || isAnotherTeam && before?.word == .accepted {
            (before, revocation, after, self.keyID) = (nil, nil, nil, nil)
            if answer.word == .revoked { return now }
            if answer.word == .unheard { return fail(at: now, retryAfter: retryAfter, of: id, under: policy) }
        }
        self.keyID = keyID
        switch next {
        case .isAccepted, .isBelieved:
            before = answer
        case .revoke:
            revocation = answer
            if answer.word == .unheard { return fail(at: now, retryAfter: retryAfter, of: id, under: policy) }
        case .isStillAccepted:
            after = answer
            guard answer.word == .accepted else { break }
            revocation = nil
            rounds += 1
            return policy.retry(afterFailures: rounds, at: now, of: id)
        }
        return now
    }

    mutating func fail(at time: Timestamp, retryAfter: Duration?, of id: CredentialID, under policy: RefreshPolicy) -> Timestamp {
        failures += 1
        return policy.retry(afterFailures: failures, at: time, retryAfter: retryAfter.map { min($0, Self.longestRetryAfter) }, of: id)
    }

    /// Waits, because it may not be believed yet that the token was dead from the first. siwatch asks Apple anew once every other token has
    /// been asked about, because another key may be at work by then.
    mutating func wait(under policy: RefreshPolicy, at now: Timestamp) -> Timestamp {
        if let before, before.askedAt.advanced(by: policy.repetition) <= now || before.askedAt > now { self.before = nil }
        return now.advanced(by: Self.patience)
    }

    /// The longest `Retry-After` that counts, because a user who deletes an account must not wait for a day.
    private static let longestRetryAfter = Duration.hours(1)
    /// Longer than any question is put off, or held by a claim.
    package static let longestDelay = Duration.hours(3)

    /// How often siwatch looks whether Apple has accepted the client meanwhile.
    private static let patience = Duration.seconds(60)
    /// How long a claimed token waits after Apple blamed its client before siwatch could ask.
    static let pausedWait = Duration.seconds(10)
}
