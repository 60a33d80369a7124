// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

@testable import CredentialTesting

/// The registers of one user at every client of an app, updated one fact at a time, as a store does it.
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
            credentials[delivery.client]!.revoke(at: revocation)
        case .proof(let revocation):
            user.revoke(at: revocation)
            credentials[delivery.client]!.revoke(at: revocation)
        }
        user.eraseAddress(until: credentials.values.compactMap(\.revokedAt).max())
        for client in Client.allCases { credentials[client]!.eraseUnusableToken(under: user) }
    }

    func standing(at client: Client) -> Oracle.Standing {
        let credential = credentials[client]!
        let standing = credential.standing(under: user)
        return Oracle.Standing(
            state: standing.state.rawValue,
            reason: standing.reason.rawValue,
            since: standing.since,
            token: credential.token.map { Oracle.Token($0.key) },
            keptToken: credential.token?.keptForTest,
            isAskedAbout: credential.tokenToCheck(under: user) != nil,
            isNeverAccepted: credential.isTokenNeverAccepted(under: user),
            verifiedAt: credential.verifiedAt,
            rejectedAt: credential.rejectedAt,
            mail: user.mailbox.map {
                Oracle.Mail($0.address.text, isPrivate: $0.address.isPrivate, at: $0.at, isFromEvent: $0.rank == .event)
            },
            relay: user.forwarding.map { Oracle.Relay(at: $0.at, isEnabled: $0.status == .enabled) },
            shownRelay: user.shownForwarding.map { $0 == .enabled }
        )
    }
}

extension RefreshToken {
    /// A token whose sealed bytes follow from its key, so that a test can recognize them.
    static func sealedForTest(_ key: Key) -> RefreshToken {
        RefreshToken(key: key, sealed: SealedToken(bytes: sealedBytes(of: key)))
    }

    private static func sealedBytes(of key: Key) -> [UInt8] {
        Array("sealed \(key.fingerprint) of \(key.grantedAt.milliseconds)".utf8)
    }

    /// The token of the stored sealed bytes. Other bytes count as a fingerprint that equals none.
    fileprivate var keptForTest: Oracle.Token? {
        sealed.map {
            $0.bytes == Self.sealedBytes(of: key) ? Oracle.Token(key) : Oracle.Token(grantedAt: key.grantedAt, fingerprint: $0.bytes)
        }
    }
}
