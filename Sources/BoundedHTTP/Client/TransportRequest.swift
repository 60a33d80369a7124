// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import NIOHTTP1

package struct TransportRequest: Sendable {
    package var url: String
    /// Besides the user agent and the headers that HTTP itself needs.
    package var headers: HTTPHeaders
    package var body: [UInt8]?
    /// Whether the body may still be sent. The thread that writes the body asks at the last moment. Nil if it may always be sent.
    package var mayBeSent: (@Sendable () -> Bool)?

    package init(url: String, headers: HTTPHeaders, body: [UInt8]? = nil, mayBeSent: (@Sendable () -> Bool)? = nil) {
        self.url = url
        self.headers = headers
        self.body = body
        self.mayBeSent = mayBeSent
    }
}

/// Headers and body may hold secrets.
extension TransportRequest: CustomStringConvertible {
    package var description: String { url }
}

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
