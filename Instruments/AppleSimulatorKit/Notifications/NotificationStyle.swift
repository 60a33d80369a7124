// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The form of a notification. Apple's documents and its wire disagree, and both change with time. The defaults are the wire.
package struct NotificationStyle: Sendable, Equatable {
    /// `events` as the JSON object of the documents instead of the JSON string of the wire.
    package var eventsAsObject = false
    /// `event_time` in the seconds of the documents instead of the milliseconds of the wire.
    package var eventTimeInSeconds = false
    package var privateEmail = PrivateEmailForm.string
    package var deletionSpelling = DeletionSpelling.accountDeleted
    package var audience = Audience.latestClient
    package var signature = Signature.genuine

    package init() {}

    /// The form of `is_private_email`.
    package enum PrivateEmailForm: String, Sendable, Codable {
        case string, bool, absent
    }

    /// Apple's older pages and nearly all code say `account-delete`. Its present pages say `account-deleted`.
    package enum DeletionSpelling: String, Sendable, Codable {
        case accountDelete = "account-delete"
        case accountDeleted = "account-deleted"
    }

    /// The client of the app group that `aud` names. Captures show both App IDs and Services IDs.
    package enum Audience: RawRepresentable, Sendable, Equatable, Codable {
        /// The client of the user's latest sign-in in the group.
        case latestClient
        case primaryAppID
        /// This text, be it the name of a client or not.
        case exactly(String)

        /// `latest`, `primary`, or the text itself.
        package init(rawValue text: String) {
            self =
                switch text {
                case "latest": .latestClient
                case "primary": .primaryAppID
                default: .exactly(text)
                }
        }

        package var rawValue: String {
            switch self {
            case .latestClient: "latest"
            case .primaryAppID: "primary"
            case .exactly(let text): text
            }
        }
    }

    /// The key that signs, and its `kid`.
    package enum Signature: String, Sendable, Codable {
        case genuine
        /// A foreign key under the `kid` of the signing key.
        case forged
        /// A foreign key under a `kid` that `/auth/keys` does not show.
        case unknownKey = "unknown_key"
    }
}

/// The details of a notification beyond its event, as members of its message. An absent detail is as Apple would have it.
package struct Emission: Sendable, Codable {
    /// When the event took place; now, if absent. An earlier moment makes a notification that comes late.
    package var eventTime: Moment?
    /// When the notification was signed; now, if absent.
    package var issuedAt: Moment?
    /// Whether the simulator posts it to the configured endpoint. `false` makes a notification that Apple lost.
    package var deliver: Bool?
    /// The configured style holds for each of these that is absent.
    package var eventsAsObject: Bool?
    package var eventTimeInSeconds: Bool?
    package var privateEmail: NotificationStyle.PrivateEmailForm?
    package var deletionSpelling: NotificationStyle.DeletionSpelling?
    package var audience: NotificationStyle.Audience?
    package var signature: NotificationStyle.Signature?

    package init(_ adjust: (inout Emission) -> Void = { _ in }) { adjust(&self) }

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

    func style(_ configured: NotificationStyle) -> NotificationStyle {
        var style = configured
        style.eventsAsObject = eventsAsObject ?? style.eventsAsObject
        style.eventTimeInSeconds = eventTimeInSeconds ?? style.eventTimeInSeconds
        style.privateEmail = privateEmail ?? style.privateEmail
        style.deletionSpelling = deletionSpelling ?? style.deletionSpelling
        style.audience = audience ?? style.audience
        style.signature = signature ?? style.signature
        return style
    }
}

package enum NotificationType: RawRepresentable, Sendable, Hashable, Codable {
    case emailDisabled
    case emailEnabled
    case consentRevoked
    case accountDeleted
    /// A type that Apple has not invented yet.
    case other(String)

    package init(rawValue text: String) {
        self =
            switch text {
            case "email-disabled": .emailDisabled
            case "email-enabled": .emailEnabled
            case "consent-revoked": .consentRevoked
            case "account-delete", "account-deleted": .accountDeleted
            default: .other(text)
            }
    }

    package var rawValue: String { text(.accountDeleted) }

    func text(_ spelling: NotificationStyle.DeletionSpelling) -> String {
        switch self {
        case .emailDisabled: "email-disabled"
        case .emailEnabled: "email-enabled"
        case .consentRevoked: "consent-revoked"
        case .accountDeleted: spelling.rawValue
        case .other(let text): text
        }
    }

    var isAboutMail: Bool {
        switch self {
        case .emailDisabled, .emailEnabled: true
        case .consentRevoked, .accountDeleted, .other: false
        }
    }
}
