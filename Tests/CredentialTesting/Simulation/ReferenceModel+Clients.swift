// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Which clients Apple refuses, by what it answered and the process has settled.
extension ReferenceModel {
    /// That an answer accepts the client that was asked for, or refuses it.
    struct ClientWord {
        var isAccepted: Bool
        /// As the process is to date the request.
        var sentAt: Timestamp
    }

    /// What was settled of a client.
    struct ClientFacts {
        var acceptedAt = Timestamp.earliest
        var refusedAt = Timestamp.earliest
        /// Whether a clock that was off has dated any of it: which answer is the newest nobody knows then.
        var isDoubtful = false
    }

    mutating func hear(_ word: ClientWord?, of clientID: String, at now: Timestamp) {
        guard let word else { return }
        var facts = clients[clientID, default: ClientFacts()]
        if max(word.sentAt, facts.acceptedAt, facts.refusedAt) > now { facts.isDoubtful = true }
        if word.isAccepted {
            facts.acceptedAt = max(facts.acceptedAt, word.sentAt)
        } else {
            facts.refusedAt = max(facts.refusedAt, word.sentAt)
        }
        clients[clientID] = facts
    }

    /// What a code ends as that nobody ever sent.
    ///
    /// - Parameter time: when it came.
    func reasonOfUnsent(at clientID: String, since time: Timestamp, _ result: Settled) -> GrantRejection {
        let facts = clients[clientID, default: ClientFacts()]
        if facts.isDoubtful { return result == .grant(.rejected, .invalidClient) ? .invalidClient : .codeExpired }
        return facts.refusedAt > facts.acceptedAt && facts.refusedAt >= time.advanced(by: .hours(-1)) ? .invalidClient : .codeExpired
    }
}

extension ReferenceModel.ClientWord {
    init?(_ outcome: RefreshOutcome, sentAt: Timestamp) {
        switch outcome {
        case .valid, .unnamed: self.init(isAccepted: true, sentAt: sentAt)
        case .misconfigured: self.init(isAccepted: false, sentAt: sentAt)
        case .rejected, .ambiguous, .anotherUser, .throttled, .unavailable: return nil
        }
    }

    init?(_ outcome: ExchangeOutcome, sentAt: Timestamp) {
        switch outcome {
        case .issued: self.init(isAccepted: true, sentAt: sentAt)
        case .misconfigured: self.init(isAccepted: false, sentAt: sentAt)
        case .refused, .throttled, .unavailable: return nil
        }
    }

    /// A 200 to a revocation says nothing: Apple gives it to anybody.
    init?(_ outcome: RevokeOutcome, sentAt: Timestamp) {
        switch outcome {
        case .misconfigured: self.init(isAccepted: false, sentAt: sentAt)
        case .accepted, .throttled, .unavailable: return nil
        }
    }
}
