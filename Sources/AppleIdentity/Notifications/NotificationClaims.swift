// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The claims of a notification with a checked signature.
///
/// Apple's documents and its notifications disagree on almost every field, and siwatch accepts both forms. In notifications, `events` is a
/// *string* that holds one object, `event_time` is in milliseconds (`iat` and `exp` are in seconds), and `is_private_email` is a string.
struct NotificationClaims {
    private let claims: ClaimSet
    private let event: ClaimSet

    /// - Throws: `not_an_event` for an id_token, which the same keys sign.
    init(_ bytes: [UInt8]) throws(VerificationError) {
        claims = try ClaimSet(bytes)
        for name in ["nonce", "at_hash"] where claims.members[name] != nil {
            throw .rejected(.notAnEvent, detail: "carries \(name)")
        }
        guard let events = claims["events"] else { throw .rejected(.notAnEvent, detail: "carries no events") }
        event = try Self.event(in: events)
    }

    private static func event(in events: JSON) throws(VerificationError) -> ClaimSet {
        let object: JSON? = if let text = events.string { JSON(Array(text.utf8)) } else { events }
        // A list of one event is that event.
        let only = object?.array?.count == 1 ? object?.array?.first : object
        guard let members = only?.object else { throw .rejected(.malformedClaim, detail: "events") }
        return ClaimSet(members)
    }

    /// - Parameters:
    ///   - receivedAt: when the notification arrived. `exp` is compared with this, so that a row that waited a day does not expire.
    ///   - now: by our clock, which may be wrong, and so may the clock of a backend.
    ///   - appleTime: now by Apple's clock, as far as siwatch knows. `iat` is compared with the latest of the three times.
    func notification(
        receivedAt: Timestamp,
        now: Timestamp,
        appleTime: Timestamp,
        under policy: NotificationPolicy
    ) throws(VerificationError) -> VerifiedNotification {
        try claims.checkIssuer(policy.issuers)
        let clientID = try claims.audience(among: policy.clientIDs)
        let issuedAt = try issuedAt(receivedAt: receivedAt, now: now, appleTime: appleTime, skew: policy.clockSkew)
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

extension NotificationClaims {
    /// Throws if the token has expired, or if its time is in the future by every clock that siwatch knows.
    private func issuedAt(receivedAt: Timestamp, now: Timestamp, appleTime: Timestamp, skew: Duration) throws(VerificationError)
        -> Timestamp
    {
        let (issuedAt, latest) = (try claims.date("iat"), max(now, appleTime))
        guard issuedAt <= max(receivedAt, latest).advanced(by: skew) else { throw .notYetIssued(retryAt: now.advanced(by: .seconds(60))) }
        guard claims["exp"] != nil else { return issuedAt }
        let (expiry, came) = (try claims.date("exp"), min(receivedAt, appleTime))
        guard came < expiry.advanced(by: skew) else { throw .rejected(.expired, detail: "exp \(expiry.milliseconds / 1000)") }
        return issuedAt
    }

    /// An event with a date after its message would end sign-ins up to that date, so it is refused. `iat` is cut off to the second.
    private func occurredAt(issuedAt: Timestamp, skew: Duration) throws(VerificationError) -> Timestamp {
        guard case .integer(let number) = try event.required("event_time") else { throw .rejected(.malformedClaim, detail: "event_time") }
        guard let time = Timestamp(claim: number), Timestamp.legal.contains(time) else {
            throw .rejected(.malformedClaim, detail: "event_time \(number)")
        }
        guard time < issuedAt.advanced(by: .seconds(1) + skew) else {
            throw .rejected(.malformedClaim, detail: "event_time \(number) is after iat \(issuedAt.milliseconds / 1000)")
        }
        return time
    }

    /// Current documents say `account-deleted`, older ones and most code `account-delete`. An unknown type is no error.
    private func kind(of type: String) throws(VerificationError) -> Event.Kind {
        switch type {
        case "consent-revoked": .consentRevoked
        case "account-delete", "account-deleted": .accountDeleted
        case "email-enabled": .emailEnabled(try address())
        case "email-disabled": .emailDisabled(try address())
        default: .unknown
        }
    }

    /// Reads e-mail events only, so that a bad address cannot hold up a deletion.
    private func address() throws(VerificationError) -> EmailAddress? {
        guard let email = event["email"], email != .string("") else { return nil }
        return EmailAddress(try event.name("email"), isPrivate: try event.isPrivateEmail())
    }
}
