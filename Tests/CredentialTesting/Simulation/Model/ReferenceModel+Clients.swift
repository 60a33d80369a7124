// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The clients that Apple refuses, by the answers that the process has settled.
extension ReferenceModel {
    /// An answer that accepts or refuses the asking client.
    struct ClientWord {
        var isAccepted: Bool
        /// The time of the request that the process must record.
        var sentAt: Timestamp
    }

    struct ClientFacts {
        var acceptedAt = Timestamp.earliest
        var refusedAt = Timestamp.earliest
        /// Whether a wrong clock dated any of them, so that the newest answer is unknown.
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

    /// The outcome of a code that the process never sent.
    ///
    /// - Parameter time: the arrival of the code.
    func reasonOfUnsent(at clientID: String, since time: Timestamp, _ result: Settled) -> GrantRejection {
        let facts = clients[clientID, default: ClientFacts()]
        if facts.isDoubtful { return result == .grant(.rejected, .invalidClient) ? .invalidClient : .codeExpired }
        return facts.refusedAt > facts.acceptedAt && facts.refusedAt >= time.advanced(by: .hours(-1)) ? .invalidClient : .codeExpired
    }
}

extension ReferenceModel.ClientWord {
    init?(_ outcome: EndpointAnswer<RefreshNews>, sentAt: Timestamp) {
        switch outcome {
        case .news(.valid), .news(.unnamed): self.init(isAccepted: true, sentAt: sentAt)
        case .misconfigured: self.init(isAccepted: false, sentAt: sentAt)
        case .news(.rejected), .news(.ambiguous), .news(.anotherUser), .throttled, .unavailable: return nil
        }
    }

    init?(_ outcome: EndpointAnswer<ExchangeNews>, sentAt: Timestamp) {
        switch outcome {
        case .news(.issued): self.init(isAccepted: true, sentAt: sentAt)
        case .misconfigured: self.init(isAccepted: false, sentAt: sentAt)
        case .news(.refused), .throttled, .unavailable: return nil
        }
    }

    /// A 200 to a revocation proves nothing, because Apple gives it to every client.
    init?(_ outcome: EndpointAnswer<RevokeNews>, sentAt: Timestamp) {
        switch outcome {
        case .misconfigured: self.init(isAccepted: false, sentAt: sentAt)
        case .news(.accepted), .throttled, .unavailable: return nil
        }
    }
}
