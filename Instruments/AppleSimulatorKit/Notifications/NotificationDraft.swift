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
    let style: NotificationStyle
    let isDelivered: Bool
    let key: SigningKey

    func signed() throws -> SignedNotification {
        let jws = try signer.sign(JSONText.encode(claims))
        return SignedNotification(
            id: id,
            type: typeText,
            userID: userID,
            audience: audience,
            eventTime: eventTime,
            body: #"{"payload":"\#(jws)"}"#
        )
    }

    private var typeText: String { type.text(style.deletionSpelling) }

    private var signer: SigningKey {
        get throws {
            switch style.signature {
            case .genuine: key
            case .forged: try .forged(id: key.id)
            case .unknownKey: try .forged()
            }
        }
    }

    private var claims: NotificationClaims {
        NotificationClaims(
            audience: audience,
            issuedAt: issuedAt.seconds,
            expiresAt: issuedAt.seconds + 86_400,
            id: id,
            events: style.eventsAsObject ? .object(event) : .text(String(decoding: JSONText.encode(event), as: UTF8.self))
        )
    }

    private var event: NotificationEvent {
        let mail = type.isAboutMail ? address : nil
        return NotificationEvent(
            type: typeText,
            userID: userID,
            time: style.eventTimeInSeconds ? eventTime.seconds : eventTime.milliseconds,
            email: mail?.text,
            isPrivateEmail: mail.flatMap { mail in
                switch style.privateEmail {
                case .string: .string(mail.isPrivate)
                case .bool: .bool(mail.isPrivate)
                case .absent: nil
                }
            }
        )
    }
}

/// The claims of a notification. Times are seconds, except in the event.
struct NotificationClaims: Encodable {
    let issuer = "https://appleid.apple.com"
    let audience: String
    let issuedAt: Int64
    /// A day after `iat`, as in every capture. Apple's documents do not mention it.
    let expiresAt: Int64
    let id: String
    let events: Events

    /// On the wire a JSON string with one object; in the documents that object itself.
    enum Events: Encodable {
        case text(String)
        case object(NotificationEvent)

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .object(let event): try container.encode(event)
            }
        }
    }

    enum CodingKeys: String, CodingKey {
        case issuer = "iss"
        case audience = "aud"
        case issuedAt = "iat"
        case expiresAt = "exp"
        case id = "jti"
        case events
    }
}

/// The event, inside `events`.
struct NotificationEvent: Encodable {
    let type: String
    let userID: String
    /// Milliseconds on the wire, seconds in the documents.
    let time: Int64
    let email: String?
    let isPrivateEmail: Flag?

    enum CodingKeys: String, CodingKey {
        case type
        case userID = "sub"
        case time = "event_time"
        case email
        case isPrivateEmail = "is_private_email"
    }
}
