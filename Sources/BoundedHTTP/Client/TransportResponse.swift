// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

package struct TransportResponse: Sendable, Equatable {
    package var status: Int
    /// Nil if the body was larger than the transport reads.
    package var body: [UInt8]?
    package var retryAfter: String?
    /// The server's clock in the answer, cut off to the second.
    package var date: Timestamp?

    package init(status: Int, body: [UInt8]?, retryAfter: String? = nil, date: Timestamp? = nil) {
        self.status = status
        self.body = body
        self.retryAfter = retryAfter
        self.date = date
    }
}
