// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A rejected notification, as the quarantine keeps it.
package struct QuarantinedNotification: Sendable, Equatable {
    package var id: Int64
    package var receivedAt: Timestamp
    package var rejectedAt: Timestamp
    package var reason: String
    package var detail: String
    /// Untrusted bytes. Escape them before printing.
    package var payload: [UInt8]

    package init(id: Int64, receivedAt: Timestamp, rejectedAt: Timestamp, reason: String, detail: String, payload: [UInt8]) {
        self.id = id
        self.receivedAt = receivedAt
        self.rejectedAt = rejectedAt
        self.reason = reason
        self.detail = detail
        self.payload = payload
    }
}
