// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// A notification before its signature. The world drafts it under the lock, and the simulator signs it outside, because RS256 is slow.
struct NotificationDraft: Sendable {
    let id: String
    let type: NotificationType
    let userID: String
    let audience: String
    let address: EmailAddress?
    let eventTime: Moment
    let issuedAt: Moment
    let emission: Emission
    let key: SigningKey

    func signed() throws -> SignedNotification {
        let jws = try signer.sign(JSONText.encode(members: claims))
        return SignedNotification(
            id: id,
            type: typeText,
            userID: userID,
            audience: audience,
            eventTime: eventTime,
            body: #"{"payload":"\#(jws)"}"#
        )
    }

    private var typeText: String { type == .accountDeleted ? emission.deletionSpelling?.rawValue ?? type.rawValue : type.rawValue }

    private var signer: SigningKey {
        get throws {
            switch emission.signature ?? .genuine {
            case .genuine: key
            case .forged: try .forged(id: key.id)
            case .unknownKey: try .forged()
            }
        }
    }

    /// Times are seconds. `exp` is a day after `iat`, as in every capture. Apple's documents do not mention it.
    private var claims: [String: any Sendable] {
        var claims: [String: any Sendable] = ["iss": "https://appleid.apple.com", "aud": audience, "jti": id]
        (claims["iat"], claims["exp"]) = (issuedAt.seconds, issuedAt.seconds + 86_400)
        claims["events"] = emission.eventsAsObject == true ? event : String(decoding: JSONText.encode(members: event), as: UTF8.self)
        return claims
    }

    private var event: [String: any Sendable] {
        var event: [String: any Sendable] = ["type": typeText, "sub": userID]
        event["event_time"] = emission.eventTimeInSeconds == true ? eventTime.seconds : eventTime.milliseconds
        guard type.isAboutMail, let address else { return event }
        event["email"] = address.text
        switch emission.privateEmail ?? .string {
        case .string: event["is_private_email"] = "\(address.isPrivate)"
        case .bool: event["is_private_email"] = address.isPrivate
        case .absent: break
        }
        return event
    }
}
