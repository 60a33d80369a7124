// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// An `invalid_grant` that waits to be believed.
package struct PendingRejection: Sendable, Equatable {
    /// When the request was sent: the fact it may become is of that moment.
    package var requestedAt: Timestamp
    package var answeredAt: Timestamp
    /// The key that asked.
    package var keyID: String

    package init(requestedAt: Timestamp, answeredAt: Timestamp, keyID: String) {
        self.requestedAt = requestedAt
        self.answeredAt = answeredAt
        self.keyID = keyID
    }
}
