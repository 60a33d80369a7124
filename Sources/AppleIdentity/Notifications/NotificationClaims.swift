// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What a notification says, once its signature has been checked.
///
/// Apple's documents and the wire disagree on almost every field. The wire: `events` is a *string* that holds one object,
/// `event_time` is in milliseconds (`iat` and `exp` in the same token are in seconds), `is_private_email` is a string. What the
/// documents describe is taken as well.
struct NotificationClaims {
    private let claims: ClaimSet
    private let event: ClaimSet

    /// Reads the claims of an event token.
    ///
    /// - Throws: `not_an_event` for an id_token, which the same keys sign; `malformed_claim` for what is not JSON, since it is signed.
    init(_ bytes: [UInt8]) throws(VerificationError) {
        guard let members = (try? JSON(bytes))?.object else {
            throw .rejected(.malformedClaim, detail: "claims are not a JSON object")
        }
        claims = ClaimSet(members)
        for name in ["nonce", "at_hash"] where members[name] != nil {
            throw .rejected(.notAnEvent, detail: "carries \(name)")
        }
        guard let events = claims["events"] else { throw .rejected(.notAnEvent, detail: "carries no events") }
        event = try Self.event(in: events)
    }

    private static func event(in events: JSON) throws(VerificationError) -> ClaimSet {
        let object = if let text = events.string { try? JSON(Array(text.utf8)) } else { events }
        guard let members = object?.object else { throw .rejected(.malformedClaim, detail: "events") }
        return ClaimSet(members)
    }

    /// The event and where it belongs.
    ///
    /// - Parameters:
    ///   - receivedAt: when the notification arrived. `exp` is judged against this, or a row that waited a day would expire.
    ///   - now: `iat` is judged against the later of the two, since the backend's clock may be the one that is behind.
    func notification(
        receivedAt: Timestamp,
        now: Timestamp,
        under policy: NotificationPolicy
    ) throws(VerificationError) -> VerifiedNotification {
        try claims.checkIssuer(policy.issuers)
        let clientID = try claims.audience(among: policy.clientIDs)
        let issuedAt = try issuedAt(receivedAt: receivedAt, now: now, skew: policy.clockSkew)
        let type = try event.name("type")
        return VerifiedNotification(
            clientID: clientID,
            userID: try event.name("sub"),
            tokenID: try claims.name("jti"),
            type: type,
            event: Event(try kind(of: type), at: try occurredAt(issuedAt: issuedAt, skew: policy.clockSkew))
        )
    }
}

// MARK: The token

extension NotificationClaims {
    /// When it was signed, once it is seen to be neither from the future nor expired.
    private func issuedAt(receivedAt: Timestamp, now: Timestamp, skew: Duration) throws(VerificationError) -> Timestamp {
        let issuedAt = try claims.date("iat")
        let latestIssue = max(receivedAt, now).advanced(by: skew)
        guard issuedAt <= latestIssue else { throw .rejected(.issuedInFuture, detail: "iat \(issuedAt.milliseconds / 1000)") }
        guard claims["exp"] != nil else { return issuedAt }
        let expiry = try claims.date("exp")
        guard receivedAt < expiry.advanced(by: skew) else { throw .rejected(.expired, detail: "exp \(expiry.milliseconds / 1000)") }
        return issuedAt
    }
}

// MARK: The event

extension NotificationClaims {
    /// From here on a number is milliseconds: as seconds it would be the year 5138, as milliseconds it is 1973.
    private static let leastMilliseconds: Int64 = 100_000_000_000

    /// One that is dated after its message would end the sign-ins until then. `iat` is cut to the second.
    private func occurredAt(issuedAt: Timestamp, skew: Duration) throws(VerificationError) -> Timestamp {
        guard case .integer(let number) = try event.required("event_time") else {
            throw .rejected(.malformedClaim, detail: "event_time")
        }
        let time = number >= Self.leastMilliseconds ? Timestamp(milliseconds: number) : Timestamp(seconds: max(number, 0))
        guard Timestamp.legal.contains(time) else { throw .rejected(.malformedClaim, detail: "event_time \(number)") }
        guard time < issuedAt.advanced(by: .seconds(1) + skew) else {
            throw .rejected(.malformedClaim, detail: "event_time \(number) is after iat \(issuedAt.milliseconds / 1000)")
        }
        return time
    }

    /// Current documents say `account-deleted`, older ones and most code `account-delete`. An unknown type is news, not an error.
    private func kind(of type: String) throws(VerificationError) -> Event.Kind {
        switch type {
        case "consent-revoked": .consentRevoked
        case "account-delete", "account-deleted": .accountDeleted
        case "email-enabled": .emailEnabled(try address())
        case "email-disabled": .emailDisabled(try address())
        default: .unknown
        }
    }

    /// Read for e-mail events alone: whatever stands in it must not hold up a deletion.
    private func address() throws(VerificationError) -> EmailAddress? {
        guard let email = event["email"] else { return nil }
        guard email != .string("") else { return nil }
        return EmailAddress(try event.name("email"), isPrivate: try event.isPrivateEmail())
    }
}
