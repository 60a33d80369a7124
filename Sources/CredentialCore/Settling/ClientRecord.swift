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

/// What an answer of Apple's says of the client, as of the request, by Apple's clock.
package enum ClientAnswer: Sendable, Equatable {
    /// A 200: Apple knows the client and takes its key.
    case accepted(at: Timestamp)
    /// `invalid_client` and its like: the configuration is wrong. The word is Apple's text, without secrets.
    case refused(word: String, at: Timestamp)

    package var requestedAt: Timestamp {
        switch self {
        case .accepted(let time), .refused(_, let time): time
        }
    }
}

/// Apple's refusal of a client, as the store keeps it.
package struct ClientRefusal: Sendable, Equatable, Codable {
    /// When siwatch sent the first request that Apple refused, since Apple last accepted the client.
    package var since: Timestamp
    /// When siwatch sent the last request that Apple refused.
    package var at: Timestamp
    /// Apple's text at `at`, without secrets.
    package var word: String

    package init(since: Timestamp, at: Timestamp, word: String) {
        (self.since, self.at, self.word) = (since, at, word)
    }

    private static let errors: Set<String> = ["invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope"]

    /// Whether a text begins with one of the errors by which Apple refuses a client.
    package static func isWord(_ text: String) -> Bool {
        text.split(separator: ":").first.map { errors.contains(String($0)) } ?? false
    }
}
