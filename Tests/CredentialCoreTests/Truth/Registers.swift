// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The registers of one user at every client of an app, moved one fact at a time as a store moves them.
struct Registers {
    private var user = AppUser()
    private var credentials: [Client: Credential] = [.app: Credential(), .web: Credential()]

    init(after arrival: Arrival) {
        for delivery in arrival.deliveries { apply(delivery) }
    }

    private mutating func apply(_ delivery: Delivery) {
        switch delivery.fact {
        case .grant(let grant):
            user.apply(grant)
            credentials[delivery.client]!.apply(grant)
        case .event(let event):
            user.apply(event)
        case .answer(let answer):
            credentials[delivery.client]!.apply(answer)
        case .revocation(let revocation):
            credentials[delivery.client]!.apply(revocation)
        }
        for client in Client.allCases { credentials[client]!.eraseUnusableToken(under: user) }
    }

    func row(of client: Client) -> Row {
        let credential = credentials[client]!
        let standing = credential.standing(under: user)
        return Row(
            state: standing.state,
            reason: standing.reason,
            since: standing.since?.milliseconds,
            token: credential.token?.key,
            sealed: credential.token?.sealed?.bytes,
            isAskedAbout: credential.tokenToCheck(under: user) != nil,
            isNeverAccepted: credential.isTokenNeverAccepted(under: user),
            verifiedAt: credential.verifiedAt?.milliseconds,
            rejectedAt: credential.rejectedAt?.milliseconds,
            mail: user.mailbox.map {
                Row.Mail(at: $0.at.milliseconds, isFromEvent: $0.rank == .event, address: Row.Address($0.address))
            },
            relay: user.forwarding.map { Row.Relay(at: $0.at.milliseconds, isEnabled: $0.status == .enabled) },
            shownRelay: user.shownForwarding
        )
    }
}

extension Row.Address {
    init(_ address: EmailAddress) {
        self.init(bytes: Array(address.text.utf8), isPrivate: address.isPrivate)
    }
}
