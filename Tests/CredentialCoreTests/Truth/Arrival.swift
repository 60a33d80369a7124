// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The clients of one app, which share a user's consent.
enum Client: CaseIterable {
    case app, web
}

/// A fact that siwatch can learn about a user. State is a function of the set of facts, in any order.
enum Fact {
    case grant(Grant)
    case event(Event)
    case answer(RefreshAnswer)
    /// The client's token was dead before siwatch could revoke it.
    case revocation(Timestamp)
    /// siwatch revoked the client's token, and proved it.
    case proof(Timestamp)
}

/// One fact on arrival, with its client. An event is about the user, and its client is only the one that `aud` names.
struct Delivery {
    var client: Client
    var fact: Fact
}

/// All facts that siwatch learns about one user, in order, with duplicates.
struct Arrival {
    var deliveries: [Delivery]

    /// Whether every answer comes after a grant of its token, because siwatch cannot ask about an unknown token.
    var isPossible: Bool {
        deliveries.indices.allSatisfy { index in
            guard case .answer(let answer) = deliveries[index].fact else { return true }
            let client = deliveries[index].client
            return deliveries[..<index].contains { $0.client == client && $0.token?.key == answer.token }
        }
    }

    /// Removes one delivery after another for as long as the rest still `fails`.
    func shortened(while fails: (Arrival) -> Bool) -> Arrival {
        var shortest = self
        var index = 0
        while index < shortest.deliveries.count {
            var candidate = shortest
            candidate.deliveries.remove(at: index)
            if candidate.isPossible, fails(candidate) {
                (shortest, index) = (candidate, 0)
            } else {
                index += 1
            }
        }
        return shortest
    }
}

extension Delivery {
    /// The token of a grant.
    var token: RefreshToken? {
        guard case .grant(let grant) = fact else { return nil }
        return grant.token
    }
}

extension Arrival: CustomStringConvertible {
    var description: String { deliveries.map(\.description).joined(separator: "\n") }
}

extension Delivery: CustomStringConvertible {
    var description: String {
        switch fact {
        case .grant(let grant):
            "\(client): grant at \(grant.grantedAt.milliseconds), "
                + (grant.token.map { "token \($0.key.fingerprint)" } ?? "no token") + ", \(grant.address.text)"
        case .event(let event):
            "\(client): \(event.kind.name) at \(event.occurredAt.milliseconds), \(event.kind.address.text)"
        case .answer(let answer):
            "\(client): \(answer.verdict) at \(answer.requestedAt.milliseconds)"
                + " for token \(answer.token.fingerprint) of \(answer.token.grantedAt.milliseconds)"
        case .revocation(let revocation):
            "\(client): revocation at \(revocation.milliseconds)"
        case .proof(let revocation):
            "\(client): proved revocation at \(revocation.milliseconds)"
        }
    }
}

extension Event.Kind {
    /// The address of an e-mail event.
    var address: EmailAddress? {
        switch self {
        case .emailEnabled(let address), .emailDisabled(let address): address
        case .consentRevoked, .accountDeleted, .unknown: nil
        }
    }

    fileprivate var name: String {
        switch self {
        case .consentRevoked: "consent revoked"
        case .accountDeleted: "account deleted"
        case .emailEnabled: "e-mail enabled"
        case .emailDisabled: "e-mail disabled"
        case .unknown: "unknown event"
        }
    }
}

extension EmailAddress? {
    /// In ASCII only, because two addresses that look alike may differ in their bytes.
    fileprivate var text: String {
        guard let self else { return "no address" }
        let ascii = self.text.unicodeScalars.map { $0.escaped(asASCII: true) }.joined()
        return self.isPrivate.map { "\(ascii) (private: \($0))" } ?? ascii
    }
}
