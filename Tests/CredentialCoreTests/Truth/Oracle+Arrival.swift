// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

@testable import CredentialTesting

extension Oracle {
    /// The facts of an arrival that count at a client.
    init(knowing arrival: Arrival, at client: Client) {
        self.init()
        for delivery in arrival.deliveries {
            let isHere = delivery.client == client
            switch delivery.fact {
            case .grant(let grant):
                insert(grant.address, at: grant.grantedAt, isFromEvent: false)
                guard isHere else { continue }
                grants.insert(grant.grantedAt)
                if let token = grant.token { tokens.insert(Token(token.key)) }
            case .event(let event):
                insert(event)
            case .answer(let answer):
                if isHere { answers.append(Answer(token: Token(answer.token), isValid: answer.verdict == .valid, at: answer.requestedAt)) }
            case .revocation(let revocation):
                accountEnds.insert(revocation)
                if isHere { revocations.insert(revocation) }
            case .proof(let revocation):
                provedRevocations.insert(revocation)
                accountEnds.insert(revocation)
                if isHere { revocations.insert(revocation) }
            }
        }
    }

    private mutating func insert(_ event: Event) {
        insert(event.kind.address, at: event.occurredAt, isFromEvent: true)
        switch event.kind {
        case .consentRevoked: consentRevocations.insert(event.occurredAt)
        case .accountDeleted: deletions.insert(event.occurredAt)
        case .emailEnabled: relays.append(Relay(at: event.occurredAt, isEnabled: true))
        case .emailDisabled: relays.append(Relay(at: event.occurredAt, isEnabled: false))
        case .unknown: break
        }
    }

    private mutating func insert(_ address: EmailAddress?, at time: Timestamp, isFromEvent: Bool) {
        guard let address else { return }
        mails.append(Mail(address.text, isPrivate: address.isPrivate, at: time, isFromEvent: isFromEvent))
    }
}

extension Oracle.Standing {
    /// One line for each column that differs: its name, its value here and its value there.
    func differences(from other: Self) -> [String] {
        zip(Mirror(reflecting: self).children, Mirror(reflecting: other).children).compactMap { mine, theirs in
            let (found, expected) = ("\(mine.value)", "\(theirs.value)")
            return found == expected ? nil : "\(mine.label ?? "?") \(found) / \(expected)"
        }
    }
}
