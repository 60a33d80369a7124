// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import BoundedHTTP

/// One exchange with Apple over HTTP.
package protocol AppleTransport: Sendable {
    /// - Throws: if no complete answer came. It returns an answer of any status.
    func send(_ request: AppleRequest) async throws(TransportFailure) -> TransportResponse
}

/// Apple's endpoint, as the label of a metric.
package enum AppleEndpoint: String, Sendable {
    case token, keys, revoke
}

package struct AppleRequest: Sendable {
    package var endpoint: AppleEndpoint
    package var url: String
    /// Posted; nil for a plain GET.
    package var form: FormBody?
    /// Whether the form may still be sent. The thread that writes the form asks at the last moment. Nil if it may always be sent.
    package var mayBeSent: (@Sendable () -> Bool)?
}
