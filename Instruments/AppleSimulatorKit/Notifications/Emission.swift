// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The details of a notification beyond its event, as members of its message. An absent one is as on Apple's wire.
package struct Emission: Sendable, Codable {
    /// When the event took place; now, if absent. An earlier moment makes a notification that comes late.
    package var eventTime: Moment?
    /// When the notification was signed; now, if absent.
    package var issuedAt: Moment?
    /// Whether the simulator posts it to the configured endpoint. `false` makes a notification that Apple lost.
    package var deliver: Bool?
    /// Whether `events` is the JSON object of Apple's documents instead of the JSON string of the wire.
    package var eventsAsObject: Bool?
    /// Whether `event_time` is in the seconds of the documents instead of the milliseconds of the wire.
    package var eventTimeInSeconds: Bool?
    package var privateEmail: PrivateEmailForm?
    package var deletionSpelling: DeletionSpelling?
    package var audience: Audience?
    package var signature: Signature?

    package init(_ adjust: (inout Emission) -> Void = { _ in }) { adjust(&self) }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case eventTime = "event_time"
        case issuedAt = "issued_at"
        case deliver
        case eventsAsObject = "events_as_object"
        case eventTimeInSeconds = "event_time_in_seconds"
        case privateEmail = "is_private_email"
        case deletionSpelling = "deletion_spelling"
        case audience, signature
    }

    /// The form of `is_private_email`; a string, if absent.
    package enum PrivateEmailForm: String, Sendable, Codable {
        case string, bool, absent
    }

    /// Apple's older pages and nearly all code say `account-delete`. Its present pages say `account-deleted`.
    package enum DeletionSpelling: String, Sendable, Codable {
        case accountDelete = "account-delete"
        case accountDeleted = "account-deleted"
    }

    /// The text of `aud`, be it the name of a client or not: `latest` is the client of the user's latest sign-in in the group, as if
    /// absent, and `primary` the primary App ID. Captures show both.
    package struct Audience: RawRepresentable, Sendable, Codable {
        package let rawValue: String

        package init(rawValue: String) { self.rawValue = rawValue }

        package static let primaryAppID = Audience(rawValue: "primary")
        package static func exactly(_ text: String) -> Audience { Audience(rawValue: text) }
    }

    /// The key that signs, and its `kid`; genuine, if absent.
    package enum Signature: String, Sendable, Codable {
        case genuine
        /// A foreign key under the `kid` of the signing key.
        case forged
        /// A foreign key under a `kid` that `/auth/keys` does not show.
        case unknownKey = "unknown_key"
    }
}

/// Any text, because Apple may invent a type.
package struct NotificationType: RawRepresentable, Sendable, Hashable, Codable {
    package let rawValue: String

    package init(rawValue: String) { self.rawValue = rawValue }

    package static let emailDisabled = NotificationType(rawValue: "email-disabled")
    package static let emailEnabled = NotificationType(rawValue: "email-enabled")
    package static let consentRevoked = NotificationType(rawValue: "consent-revoked")
    package static let accountDeleted = NotificationType(rawValue: "account-deleted")

    var isAboutMail: Bool { self == .emailDisabled || self == .emailEnabled }
}
