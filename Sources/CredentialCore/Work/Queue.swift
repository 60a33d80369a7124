// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The tables that backends append to.
package enum Queue: String, Sendable, CaseIterable {
    case notification = "notification_queue"
    case grant = "grant_queue"
    case revocation = "revocation_queue"

    package var label: String { String(rawValue.dropLast("_queue".count)) }

    package var removedCounter: String { "\(rawValue)_removed" }

    /// The longest notification that the queue takes, in bytes.
    package static let longestNotification = 65_536

    /// The payload of one claim, in bytes, which bounds the memory that long rubbish takes. The last row may exceed it.
    package static let largestClaim = 32 << 20

    package var arrivalColumn: String {
        switch self {
        case .notification: "received_at"
        case .grant: "granted_at"
        case .revocation: "requested_at"
        }
    }

    /// Longer than a row waits for an unpublished key (11 minutes), an unconfigured client or the rest of an import. A later due time came
    /// from a clock that has since been set back.
    package var longestDelay: Duration {
        switch self {
        case .notification: .seconds(900)
        case .revocation: SettlementRules.longestRestOfImport + .seconds(900)
        case .grant: SettlementRules.waitingGrantRetry + .seconds(900)
        }
    }
}

/// The counters of checks, which tell how Apple answers.
package enum CheckCounter {
    package static let answered = "checks_answered"
    package static let answeredAt = "checks_answered_at"
    package static let failed = "checks_failed"
    package static let failedAt = "checks_failed_at"
}
