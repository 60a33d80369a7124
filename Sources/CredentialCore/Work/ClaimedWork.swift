// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The mark of a claim on a row. A settlement must match it, so that a holder cannot write once its lease has run out.
package struct Claim: Sendable, Hashable {
    /// The random name of the process that claimed, and of rows that wait for Apple the number of the claim.
    package var owner: String
    /// Claims of this row without a settlement, including this one.
    package var attempts: Int

    package init(owner: String, attempts: Int) {
        self.owner = owner
        self.attempts = attempts
    }

    /// A row with this many unsettled attempts before the claim may kill the process, so it is claimed alone.
    package static let suspectAttempts = 2
    /// A row with this many unsettled attempts before the claim is put away unread.
    static let poisonAttempts = 5

    package var isPoison: Bool { attempts > Self.poisonAttempts }

    /// The due rows to claim together, in their order. A suspect row comes alone, if it may come, so that no other row is lost with it if
    /// it kills the process again.
    package static func claimable(_ rows: [(id: Int64, attempts: Int)], suspects: Bool) -> [Int64] {
        if let first = rows.first, first.attempts >= suspectAttempts { return suspects ? [first.id] : [] }
        return rows.prefix { $0.attempts < suspectAttempts }.map(\.id)
    }
}

/// A claimed row of `notification_queue`. The payload stays bytes until it is verified.
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

/// A claimed row of `grant_queue` without a code.
package struct ClaimedGrant: Sendable {
    package var id: Int64
    package var claim: Claim
    package var grantedAt: Timestamp
    /// The import that tells the row; nil for a backend.
    package var importID: Int64?
    package var content: Content?

    package struct Content: Sendable {
        package var credential: CredentialID
        package var refreshToken: Secret?
        /// A token that the backend has sealed, in place of `refreshToken`.
        package var sealedToken: [UInt8]?
        package var address: EmailAddress?

        package init(credential: CredentialID, refreshToken: Secret?, sealedToken: [UInt8]? = nil, address: EmailAddress?) {
            self.credential = credential
            self.refreshToken = refreshToken
            self.sealedToken = sealedToken
            self.address = address
        }
    }

    package init(id: Int64, claim: Claim, grantedAt: Timestamp, importID: Int64? = nil, content: Content?) {
        self.id = id
        self.claim = claim
        self.grantedAt = grantedAt
        self.importID = importID
        self.content = content
    }
}

package struct DueCredential: Sendable {
    package enum Purpose: Sendable, Equatable {
        case check
        /// A canary that is asked beside its schedule. No claim holds it, and its schedule stays.
        case canary
        /// A pending rejection has waited long enough. siwatch does not ask Apple.
        case admission(PendingRejection)
    }

    package var id: CredentialID
    package var app: String
    package var purpose: Purpose
    package var claim: Claim
    package var token: RefreshToken.Key
    package var sealed: SealedToken
    /// Whether Apple had accepted the token before. What Apple says of any other token proves nothing of the client or its users.
    package var wasAccepted: Bool
    /// The team from which Apple had accepted the token.
    package var verifiedTeam: String?
    package var teamID: String?
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
