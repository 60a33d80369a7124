// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How a notification looks where Apple's documents, its wire and time disagree. The defaults are the wire.
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

    /// Apple's older pages and nearly all code say `account-delete`, its present pages `account-deleted`.
    package enum DeletionSpelling: String, Sendable, Codable {
        case accountDelete = "account-delete"
        case accountDeleted = "account-deleted"
    }

    /// Which client of the app group `aud` names. Both App IDs and Services IDs have been seen.
    package enum Audience: Sendable, Equatable {
        /// The client of the user's latest sign-in in the group.
        case latestClient
        case primaryAppID
        /// This text, whether or not anybody knows such a client.
        case exactly(String)
    }

    /// Who signs.
    package enum Signature: String, Sendable, Codable {
        case genuine
        /// A stranger under the `kid` of the key that signs.
        case forged
        /// A stranger under a `kid` that `/auth/keys` does not show.
        case unknownKey = "unknown_key"
    }
}
