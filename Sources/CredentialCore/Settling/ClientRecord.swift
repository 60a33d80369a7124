// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What Apple has said of a client. These registers keep the newest answer, in whatever order the answers are settled.
package struct ClientRecord: Sendable, Equatable {
    /// When siwatch sent the newest request for the client that Apple accepted.
    package var validAt: Timestamp?
    /// Nil if Apple has not refused the client since `validAt`.
    package var refusal: ClientRefusal?

    package init(validAt: Timestamp? = nil, refusal: ClientRefusal? = nil) {
        self.validAt = validAt
        self.refusal = refusal
    }

    /// Takes an answer. A register with a time in the future came from a clock that has since been set back, and gives way.
    package mutating func hear(_ answer: ClientAnswer, at now: Timestamp) {
        switch answer {
        case .accepted(let time):
            if validAt.map({ $0 < time || $0 > now }) ?? true { validAt = time }
            guard let known = refusal else { return }
            if known.at <= time || known.at > now {
                refusal = nil
            } else if known.since <= time {
                // Of the refusals after this 200, only the last one is known.
                refusal?.since = known.at
            }
        case .refused(let word, let time):
            if let validAt, time <= validAt, validAt <= now { return }
            var known = refusal ?? ClientRefusal(since: time, at: time, word: word)
            known.since = min(known.since, time)
            if (known.at, known.word) < (time, word) || known.at > now { (known.at, known.word) = (time, word) }
            refusal = known
        }
    }
}
