// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What Apple has said of a client: registers, which keep the newest answer in whatever order the answers are settled.
package struct ClientRecord: Sendable, Equatable {
    /// When Apple was last asked for the client and accepted it.
    package var validAt: Timestamp?
    /// Nil where Apple has not refused the client since then.
    package var refusal: ClientRefusal?

    package init(validAt: Timestamp? = nil, refusal: ClientRefusal? = nil) {
        self.validAt = validAt
        self.refusal = refusal
    }

    /// Takes an answer in. A moment that has yet to come is of a clock that has since been set back, and gives way.
    package mutating func hear(_ answer: ClientAnswer, at now: Timestamp) {
        switch answer {
        case .accepted(let time):
            if validAt.map({ $0 < time || $0 > now }) ?? true { validAt = time }
            guard let known = refusal else { return }
            if known.at <= time || known.at > now {
                refusal = nil
            } else if known.since <= time {
                // Of the refusals since then only the last one is known.
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
