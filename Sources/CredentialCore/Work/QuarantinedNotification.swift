// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A notification that was rejected, as it is kept.
package struct QuarantinedNotification: Sendable, Equatable {
    package var id: Int64
    package var receivedAt: Timestamp
    package var rejectedAt: Timestamp
    package var reason: String
    package var detail: String
    /// Anything at all: whoever shows it must make it harmless first.
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
