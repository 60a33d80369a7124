// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The mark a claim leaves on a row. A settlement must match it, so that a holder whose lease has run out cannot write.
package struct Claim: Sendable, Hashable {
    /// The process that claimed, by a random name of its own.
    package var owner: String
    /// Claims of this row without a settlement, this one included.
    package var attempts: Int

    package init(owner: String, attempts: Int) {
        self.owner = owner
        self.attempts = attempts
    }

    /// A row with this many unsettled attempts before the claim is suspected of killing the process, and claimed alone.
    package static let suspectAttempts = 2
    /// A row with this many unsettled attempts before the claim is put away unread.
    package static let poisonAttempts = 5

    package var isPoison: Bool { attempts > Self.poisonAttempts }

    /// Of due rows in their order, those that are claimed together. A row that may have killed the process comes alone, so that it takes
    /// nobody along if it does so again.
    ///
    /// - Parameter suspects: whether such a row may come.
    package static func claimable(_ rows: [(id: Int64, attempts: Int)], suspects: Bool) -> [Int64] {
        if let first = rows.first, first.attempts >= suspectAttempts { return suspects ? [first.id] : [] }
        return rows.prefix { $0.attempts < suspectAttempts }.map(\.id)
    }
}

/// A row of `notification_queue` as claimed. The payload stays bytes until it is verified.
package struct ClaimedNotification: Sendable {
    package var id: Int64
    package var claim: Claim
    package var payload: [UInt8]
    package var receivedAt: Timestamp

    package init(id: Int64, claim: Claim, payload: [UInt8], receivedAt: Timestamp) {
        self.id = id
        self.claim = claim
        self.payload = payload
        self.receivedAt = receivedAt
    }
}

/// A row of `grant_queue` as claimed.
package struct ClaimedGrant: Sendable {
    package var id: Int64
    package var claim: Claim
    package var grantedAt: Timestamp
    /// What the backend wrote; nil where it is not UTF-8 or too long to be meant.
    package var content: Content?

    package struct Content: Sendable {
        package var credential: CredentialID
        package var refreshToken: Secret?
        /// A token as the backend has sealed it, in place of one in clear.
        package var sealedToken: [UInt8]?
        package var address: EmailAddress?

        package init(credential: CredentialID, refreshToken: Secret?, sealedToken: [UInt8]? = nil, address: EmailAddress?) {
            self.credential = credential
            self.refreshToken = refreshToken
            self.sealedToken = sealedToken
            self.address = address
        }
    }

    package init(id: Int64, claim: Claim, grantedAt: Timestamp, content: Content?) {
        self.id = id
        self.claim = claim
        self.grantedAt = grantedAt
        self.content = content
    }
}

/// A credential whose check is due, as claimed.
package struct DueCredential: Sendable {
    package enum Purpose: Sendable, Equatable {
        case check
        /// A canary asked beside its schedule, which stays as it is: no claim holds it.
        case canary
        /// Nobody is asked: a rejection has waited long enough.
        case admission(PendingRejection)
    }

    package var id: CredentialID
    package var app: String
    package var purpose: Purpose
    package var claim: Claim
    package var token: RefreshToken.Key
    package var sealed: SealedToken
    /// Whether Apple had accepted the token before: what it says of another proves nothing of the client, and nothing of its users.
    package var wasAccepted: Bool
    /// The team from which it had.
    package var verifiedTeam: String?
    /// The team that asked Apple, once it has.
    package var teamID: String?
    /// What Apple said of the client, once it was asked.
    package var clientAnswer: ClientAnswer?

    package init(
        id: CredentialID,
        app: String,
        purpose: Purpose = .check,
        claim: Claim,
        token: RefreshToken.Key,
        sealed: SealedToken,
        wasAccepted: Bool = false,
        verifiedTeam: String? = nil
    ) {
        self.id = id
        self.app = app
        self.purpose = purpose
        self.claim = claim
        self.token = token
        self.sealed = sealed
        self.wasAccepted = wasAccepted
        self.verifiedTeam = verifiedTeam
    }
}
