// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension Claim {
    /// The claim of the process that settles.
    static let mine = Claim(owner: "me", attempts: 1)
}

extension CredentialID {
    static let ann = CredentialID(clientID: "app", userID: "ann")
}

extension RefreshToken {
    init(at time: Timestamp, fingerprint: UInt8 = 1) {
        self.init(key: Key(grantedAt: time, fingerprint: [fingerprint]), sealed: SealedToken(bytes: [fingerprint]))
    }
}

extension Settlement {
    /// A verified notification about one user.
    static func event(
        _ kind: Event.Kind,
        row: Int64 = 1,
        of user: String = "ann",
        at time: Timestamp,
        client: String = "app",
        tokenID: String = ""
    ) -> Settlement {
        let event = Event(kind, at: time)
        let verified = VerifiedNotification(clientID: client, userID: user, tokenID: tokenID, type: "", event: event)
        return .notification(ClaimedNotification(id: row, claim: .mine, payload: [], receivedAt: time), .verified(verified))
    }

    static func signIn(_ grant: Grant, row: Int64, of credential: CredentialID = .ann) -> Settlement {
        .grant(ClaimedGrant(id: row, claim: .mine, grantedAt: grant.grantedAt, content: nil), .accepted(grant, credential))
    }
}

extension DueRevocation {
    /// Of ann's token in the app `example`.
    init(requestedAt: Timestamp, grantedAt: Timestamp, claim: Claim = .mine, proof: RevocationProof) {
        self.init(
            request: 1,
            requestedAt: requestedAt,
            id: .ann,
            app: "example",
            claim: claim,
            token: RefreshToken.Key(grantedAt: grantedAt, fingerprint: [1]),
            sealed: SealedToken(bytes: [1]),
            proof: proof
        )
    }
}

/// A moment by its number alone, because most rules only compare moments.
func at(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: milliseconds) }
