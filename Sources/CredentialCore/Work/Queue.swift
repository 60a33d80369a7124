// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The tables that backends append to.
package enum Queue: String, Sendable, CaseIterable {
    case notification = "notification_queue"
    case grant = "grant_queue"
    case revocation = "revocation_queue"

    package var label: String { String(rawValue.dropLast("_queue".count)) }

    /// The counter of rows that have left it.
    package var removedCounter: String { "\(rawValue)_removed" }

    /// In bytes: what the queue of notifications takes.
    package static let longestNotification = 65_536

    /// In bytes of payload, for one claim: many times what thousands of Apple's notifications have, and a bound to the memory that long
    /// rubbish takes. The last one may go beyond.
    package static let largestClaim = 32 << 20

    /// The column that says when a row came.
    package var arrivalColumn: String {
        switch self {
        case .notification: "received_at"
        case .grant: "granted_at"
        case .revocation: "requested_at"
        }
    }

    /// Longer than a row is ever put off, for a key that nobody publishes (11 minutes) or a client that nobody configures. A due time
    /// beyond it came from a clock that has since been set back.
    package var longestDelay: Duration {
        switch self {
        case .notification, .revocation: .seconds(900)
        case .grant: SettlementRules.waitingGrantRetry + .seconds(900)
        }
    }
}

/// What is counted of checks, for those who ask how Apple is.
package enum CheckCounter {
    package static let answered = "checks_answered"
    package static let answeredAt = "checks_answered_at"
    package static let failed = "checks_failed"
    package static let failedAt = "checks_failed_at"
}

/// Apple's tokens are about 64 characters, its identifiers at most 255: what is far longer was not meant. In bytes.
package enum Longest {
    package static let identifier = 512
    package static let token = 8192
    package static let address = 1024
    package static let uri = 2048
}

/// What anybody could have sent is kept in a ring, because the endpoint is open to all.
package enum QuarantineLimits {
    package static let longestRing = 10_000
    /// In bytes of payload.
    package static let largestRing = 64 << 20
    package static let rowsCounter = "quarantine_unsigned_rows"
    package static let bytesCounter = "quarantine_unsigned_bytes"
    package static let evictedCounter = "quarantine_evicted"
}
