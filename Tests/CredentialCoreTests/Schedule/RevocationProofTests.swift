// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import CredentialCore

@Suite struct RevocationProofTests {
    private static let id = CredentialID(clientID: "app", userID: "ann")
    private static let policy = RefreshPolicy()
    private static let start = Timestamp(seconds: 1_750_000_000)

    private static func answer(_ word: RevocationProof.Answer.Word, at second: Int = 0) -> RevocationProof.Answer {
        RevocationProof.Answer(word, askedAt: start.advanced(by: .seconds(second)), date: nil)
    }

    /// A proof after these answers, one after the other.
    private static func proof(_ words: RevocationProof.Answer.Word..., key: String = "KEY") -> RevocationProof {
        var proof = RevocationProof()
        for word in words { _ = take(word, into: &proof, key: key) }
        return proof
    }

    @discardableResult
    private static func take(
        _ word: RevocationProof.Answer.Word,
        into proof: inout RevocationProof,
        key: String = "KEY",
        at second: Int = 0
    ) -> Timestamp {
        let now = start.advanced(by: .seconds(second))
        return proof.take(answer(word, at: second), keyID: key, of: id, under: policy, at: now)
    }

    @Test func threeAnswersProve() {
        var proof = RevocationProof()
        #expect(proof.next == .isAccepted && !proof.isProved)
        for (word, question) in [(RevocationProof.Answer.Word.accepted, RevocationProof.Question.revoke), (.revoked, .isStillAccepted)] {
            #expect(Self.take(word, into: &proof) == Self.start, "the next one at once")
            #expect(proof.next == question && !proof.isProved)
        }
        Self.take(.rejected, into: &proof, at: 7)
        #expect(proof.isProved)
        #expect(proof.before == Self.answer(.accepted) && proof.revocation == Self.answer(.revoked))
        #expect(proof.after == Self.answer(.rejected, at: 7) && proof.keyID == "KEY" && proof.rounds == 0)
    }

    /// A dead token does not tell what ended it.
    @Test func whatWasDeadFromTheFirstIsNotProved() {
        let proof = Self.proof(.rejected)
        #expect(proof.next == .isBelieved && !proof.isProved)
    }

    @Test func whatIsStillAcceptedIsRevokedAgain() {
        var proof = Self.proof(.accepted, .revoked)
        var waits: [Duration] = []
        for round in 1...10 {
            let due = Self.take(.accepted, into: &proof)
            waits.append(Self.start.duration(to: due))
            #expect(proof.next == .revoke && proof.rounds == round && !proof.isProved)
            #expect(proof.before?.word == .accepted && proof.revocation == nil)
            Self.take(.revoked, into: &proof)
            #expect(!proof.isProved, "the answer before the last revocation is none to it")
        }
        #expect(waits[0] >= .seconds(10) && waits[0] < .seconds(13))
        #expect(waits == waits.sorted() && waits[9] >= .seconds(1800) && waits[9] <= .seconds(2250))
        Self.take(.rejected, into: &proof)
        #expect(proof.isProved && proof.rounds == 10)
    }

    @Test func anotherKeyBeginsAnew() {
        var proof = Self.proof(.accepted)
        Self.take(.revoked, into: &proof, key: "NEW")
        #expect(proof.next == .isAccepted && proof.revocation == nil, "whether it was good is not known of the new one")

        proof = Self.proof(.accepted, .revoked)
        Self.take(.rejected, into: &proof, key: "NEW")
        #expect(proof.next == .isBelieved && !proof.isProved)
        #expect(proof.keyID == "NEW" && proof.revocation == nil && proof.after == nil)

        proof = Self.proof(.accepted, .revoked)
        Self.take(.accepted, into: &proof, key: "NEW")
        #expect(proof.next == .revoke && proof.before?.word == .accepted && proof.rounds == 0)
        Self.take(.revoked, into: &proof, key: "NEW")
        Self.take(.rejected, into: &proof, key: "NEW")
        #expect(proof.isProved)
    }

    @Test func anotherKeyForgetsNoRounds() {
        var proof = Self.proof(.accepted, .revoked, .accepted)
        Self.take(.revoked, into: &proof, key: "NEW")
        #expect(proof.rounds == 1)
    }

    @Test func failuresBackOffUntilAnAnswer() {
        var proof = Self.proof(.accepted)
        let waits = (1...6).map { _ in
            Self.start.duration(to: proof.fail(at: Self.start, retryAfter: nil, of: Self.id, under: Self.policy))
        }
        for (wait, step) in zip(waits, [10, 30, 120, 600, 1800, 1800]) { #expect(wait >= .seconds(step) && wait <= .seconds(step) * 1.25) }
        #expect(proof.failures == 6 && proof.next == .revoke, "what is known stays known")
        Self.take(.revoked, into: &proof)
        #expect(proof.failures == 0)
        let due = proof.fail(at: Self.start, retryAfter: .seconds(120), of: Self.id, under: Self.policy)
        #expect(due >= Self.start.advanced(by: .seconds(120)))
    }

    /// After siwatch has asked about all other tokens, it asks Apple anew. Until then it only looks at the breaker.
    @Test func aRejectionThatIsNotBelievedIsAskedForAgainAfterARound() {
        var proof = Self.proof(.rejected)
        let round = Self.policy.repetition
        for (wait, question) in [
            (.seconds(60), RevocationProof.Question.isBelieved), (round - .milliseconds(1), .isBelieved), (round, .isAccepted),
        ] as [(Duration, RevocationProof.Question)] {
            let now = Self.start.advanced(by: wait)
            #expect(proof.wait(under: Self.policy, at: now) == now.advanced(by: .seconds(60)))
            #expect(proof.next == question)
        }
        Self.take(.accepted, into: &proof)
        #expect(proof.next == .revoke, "the key that asked first was the wrong one")
    }

    /// The clock was ahead at the request, and an operator has set it back.
    @Test func anAnswerFromTheFutureIsAskedForAgain() {
        var proof = Self.proof(.rejected)
        _ = proof.wait(under: Self.policy, at: Self.start.advanced(by: .hours(-1)))
        #expect(proof.next == .isAccepted)
    }

    /// A backend whose clock is ahead cannot mean a sign-in after siwatch's first question to Apple.
    @Test func isWantedAtTheLatestWhenAppleWasFirstAsked() {
        func work(requestedAt: Timestamp, date: Timestamp?, grantedAt: Timestamp = Self.start) -> DueRevocation {
            var proof = RevocationProof()
            proof.before = RevocationProof.Answer(.accepted, askedAt: Self.start.advanced(by: .hours(1)), date: date)
            return DueRevocation(requestedAt: requestedAt, grantedAt: grantedAt, proof: proof)
        }
        let ahead = Self.start.advanced(by: .hours(1))
        #expect(work(requestedAt: ahead.advanced(by: .seconds(1)), date: ahead).wantedAt == ahead, "our clock agrees")
        #expect(work(requestedAt: ahead.advanced(by: .seconds(1)), date: ahead.advanced(by: .seconds(1))).wantedAt == ahead)
        // A sign-in later in that second counts as newer.
        #expect(work(requestedAt: ahead, date: Self.start).wantedAt == Self.start)
        #expect(work(requestedAt: Self.start, date: ahead).wantedAt == Self.start)
        #expect(work(requestedAt: ahead, date: nil).wantedAt == ahead)
        let signedIn = Self.start.advanced(by: .minutes(30))
        #expect(work(requestedAt: ahead, date: Self.start, grantedAt: signedIn).wantedAt == signedIn, "dated by the same clock")
    }
}
