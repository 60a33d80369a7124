// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Turns the bytes of a notification into an event that Apple signed.
package protocol NotificationVerifier: Sendable {
    func verify(_ payload: [UInt8], receivedAt: Timestamp) async throws(VerificationError) -> VerifiedNotification
}

/// An event with a checked signature, its client and its user.
package struct VerifiedNotification: Sendable, Equatable {
    /// The configured client that `aud` names.
    package var clientID: String
    package var userID: String
    package var tokenID: String
    /// The type in Apple's spelling.
    package var type: String
    package var event: Event

    package init(clientID: String, userID: String, tokenID: String, type: String, event: Event) {
        self.clientID = clientID
        self.userID = userID
        self.tokenID = tokenID
        self.type = type
        self.event = event
    }
}

package enum VerificationError: Error, Sendable, Equatable {
    case rejected(RejectionReason, detail: String)
    /// Its key is not known yet. Verify again at `retryAt`.
    case keyNotYetKnown(retryAt: Timestamp)
    /// Apple signed it for one of our clients, and dates it ahead of every clock that siwatch knows. Verify again at `retryAt`.
    case notYetIssued(retryAt: Timestamp)
}

/// Why a notification is in quarantine. docs/schema.md lists the reasons.
package enum RejectionReason: String, Sendable, CaseIterable {
    case malformed
    case notAnEvent = "not_an_event"
    case wrongAlgorithm = "wrong_algorithm"
    case forbiddenHeader = "forbidden_header"
    case unknownKey = "unknown_key"
    case badSignature = "bad_signature"
    case malformedClaim = "malformed_claim"
    case missingClaim = "missing_claim"
    case wrongIssuer = "wrong_issuer"
    case wrongAudience = "wrong_audience"
    case expired
    case issuedInFuture = "issued_in_future"
    case poison

    /// The ring that bounds such notifications in the quarantine. Nil if Apple signed the notification.
    package var ring: UnsignedRing? {
        switch self {
        case .malformed, .notAnEvent, .wrongAlgorithm, .forbiddenHeader, .badSignature: .forged
        case .unknownKey: .unknownKey
        case .malformedClaim, .missingClaim, .wrongIssuer, .wrongAudience, .expired, .issuedInFuture, .poison: nil
        }
    }
}

/// Verifies that Apple issued an id_token to a client, and reads its user.
package protocol IdentityTokenVerifier: Sendable {
    var hasKeys: Bool { get }
    /// `aud` has to name the client, and `nonce` has to be the expected one, if there is one. `now` is by Apple's clock.
    func verify(
        _ token: Secret,
        issuedTo clientID: String,
        nonce: String?,
        at now: Timestamp
    ) async throws(VerificationError) -> VerifiedIdentity
}

package struct VerifiedIdentity: Sendable, Equatable {
    package var userID: String
    /// `iat`, cut off to the second.
    package var issuedAt: Timestamp
    package var address: EmailAddress?
    /// Apple's guess whether a person signs in: 0 is unsupported, 1 unknown, 2 likely real. siwatch passes it on and decides nothing by it.
    package var realUserStatus: Int?

    package init(userID: String, issuedAt: Timestamp, address: EmailAddress? = nil, realUserStatus: Int? = nil) {
        self.userID = userID
        self.issuedAt = issuedAt
        self.address = address
        self.realUserStatus = realUserStatus
    }
}
