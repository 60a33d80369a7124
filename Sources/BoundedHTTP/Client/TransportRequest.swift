// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import NIOHTTP1

package struct TransportRequest: Sendable {
    package var url: String
    /// Besides the user agent and the headers that HTTP itself needs.
    package var headers: HTTPHeaders
    /// Posted; nil for a plain GET.
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
