// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The kind of event in a notification.
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

    /// Whether it has `email` and `is_private_email`.
    var isAboutMail: Bool {
        switch self {
        case .emailDisabled, .emailEnabled: true
        case .consentRevoked, .accountDeleted, .other: false
        }
    }
}
