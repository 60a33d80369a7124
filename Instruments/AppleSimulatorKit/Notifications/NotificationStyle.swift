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
    package enum Audience: Sendable, Equatable {
        /// The client of the user's latest sign-in in the group.
        case latestClient
        case primaryAppID
        /// This text, be it the name of a client or not.
        case exactly(String)
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
