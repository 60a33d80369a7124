// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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
