// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The look and the time of a notification, as members of an operation that emits one.
struct EmissionMessage: Decodable {
    private let eventTime: Moment?
    private let issuedAt: Moment?
    private let deliver: Bool?
    private let eventsAsObject: Bool?
    private let eventTimeInSeconds: Bool?
    private let privateEmail: NotificationStyle.PrivateEmailForm?
    private let deletionSpelling: NotificationStyle.DeletionSpelling?
    private let audience: String?
    private let signature: NotificationStyle.Signature?

    enum CodingKeys: String, CodingKey, CaseIterable {
        case eventTime = "event_time"
        case issuedAt = "issued_at"
        case deliver
        case eventsAsObject = "events_as_object"
        case eventTimeInSeconds = "event_time_in_seconds"
        case privateEmail = "is_private_email"
        case deletionSpelling = "deletion_spelling"
        case audience
        case signature
    }

    /// - Parameter style: the style of members that the message leaves out.
    func emission(_ style: NotificationStyle) -> Emission {
        var emission = Emission()
        emission.eventTime = eventTime
        emission.issuedAt = issuedAt
        emission.isDelivered = deliver ?? true
        var style = style
        style.eventsAsObject = eventsAsObject ?? style.eventsAsObject
        style.eventTimeInSeconds = eventTimeInSeconds ?? style.eventTimeInSeconds
        style.privateEmail = privateEmail ?? style.privateEmail
        style.deletionSpelling = deletionSpelling ?? style.deletionSpelling
        style.audience = audience.map { NotificationStyle.Audience($0) } ?? style.audience
        style.signature = signature ?? style.signature
        emission.style = style
        return emission
    }
}

extension NotificationStyle.Audience {
    /// `latest`, `primary`, or the text itself.
    package init(_ text: String) {
        self =
            switch text {
            case "latest": .latestClient
            case "primary": .primaryAppID
            default: .exactly(text)
            }
    }
}

/// `POST /simulator/consent-revocations` and `POST /simulator/account-deletions`
struct EndingMessage: ControlMessage {
    static let members = CodingKeys.names + People.CodingKeys.names + EmissionMessage.CodingKeys.names

    let clientID: String?
    let people: People
    let emission: EmissionMessage

    enum CodingKeys: String, CodingKey, CaseIterable {
        case clientID = "client_id"
    }

    init(from decoder: any Decoder) throws {
        clientID = try decoder.container(keyedBy: CodingKeys.self).decodeIfPresent(String.self, forKey: .clientID)
        people = try People(from: decoder)
        emission = try EmissionMessage(from: decoder)
    }
}

/// `POST /simulator/mail-forwarding`
struct ForwardingMessage: ControlMessage {
    static let members = CodingKeys.names + People.CodingKeys.names + EmissionMessage.CodingKeys.names

    let isEnabled: Bool
    let clientID: String?
    let people: People
    let emission: EmissionMessage

    enum CodingKeys: String, CodingKey, CaseIterable {
        case isEnabled = "enabled"
        case clientID = "client_id"
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        isEnabled = try container.decode(Bool.self, forKey: .isEnabled)
        clientID = try container.decodeIfPresent(String.self, forKey: .clientID)
        people = try People(from: decoder)
        emission = try EmissionMessage(from: decoder)
    }
}

/// `POST /simulator/notifications`
struct ClaimMessage: ControlMessage {
    static let members = CodingKeys.names + People.CodingKeys.names + EmissionMessage.CodingKeys.names

    let type: NotificationType
    let clientID: String?
    let people: People
    let emission: EmissionMessage

    enum CodingKeys: String, CodingKey, CaseIterable {
        case type
        case clientID = "client_id"
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        type = NotificationType(try container.decode(String.self, forKey: .type))
        clientID = try container.decodeIfPresent(String.self, forKey: .clientID)
        people = try People(from: decoder)
        emission = try EmissionMessage(from: decoder)
    }
}

/// The answer of every route that emits.
package struct NotificationsMessage: Codable {
    package let notifications: [SignedNotification]
}
