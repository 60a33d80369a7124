// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The clients of one app, among which a user's consent is shared.
enum Client: CaseIterable {
    case app, web
}

/// What can become known about a user. State is a function of the set of facts, whatever their order.
enum Fact {
    case grant(Grant)
    case event(Event)
    case answer(RefreshAnswer)
    /// The token of the client was dead before siwatch could revoke it.
    case revocation(Revocation)
    /// siwatch revoked the token of the client, and proved it.
    case proof(Revocation)
}

/// One fact on its way in, and the client it is about. An event is about the user; its client is only the one that `aud` names.
struct Delivery {
    var client: Client
    var fact: Fact
}

/// All that becomes known of one user, in the order in which it does. Duplicates are part of it.
struct Arrival {
    var deliveries: [Delivery]

    /// Whether every answer stands behind a grant that brought the token it is about: nobody can ask about a token not yet known.
    var isPossible: Bool {
        deliveries.indices.allSatisfy { index in
            guard case .answer(let answer) = deliveries[index].fact else { return true }
            let client = deliveries[index].client
            return deliveries[..<index].contains { $0.client == client && $0.token?.key == answer.token }
        }
    }

    /// What is left when one delivery after another is taken out, for as long as it `fails` all the same.
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
    /// The token that a grant brought.
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
            "\(client): revocation at \(revocation.requestedAt.milliseconds)"
        case .proof(let revocation):
            "\(client): proved revocation at \(revocation.requestedAt.milliseconds)"
        }
    }
}

extension Event.Kind {
    /// The address that an e-mail event brought.
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
    /// In ASCII alone: two addresses that look alike may differ in their bytes.
    fileprivate var text: String {
        guard let self else { return "no address" }
        let ascii = self.text.unicodeScalars.map { $0.escaped(asASCII: true) }.joined()
        return self.isPrivate.map { "\(ascii) (private: \($0))" } ?? ascii
    }
}
