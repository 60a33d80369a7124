// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// One exchange with Apple over HTTP.
package protocol AppleTransport: Sendable {
    /// - Throws: if no complete answer came. It returns an answer of any status.
    func send(_ request: AppleRequest) async throws(TransportFailure) -> AppleResponse
}

/// Apple's endpoint, as the label of a metric.
package enum AppleEndpoint: String, Sendable {
    case token, keys, revoke
}

package struct AppleRequest: Sendable {
    package var endpoint: AppleEndpoint
    package var url: String
    /// Posted as a form; nil for a plain GET.
    package var form: FormBody?
    /// Whether the form may still be sent. The thread that writes the form asks at the last moment. Nil if it may always be sent.
    package var mayBeSent: (@Sendable () -> Bool)?

    package init(_ endpoint: AppleEndpoint, url: String, form: FormBody? = nil, mayBeSent: (@Sendable () -> Bool)? = nil) {
        self.endpoint = endpoint
        self.url = url
        self.form = form
        self.mayBeSent = mayBeSent
    }
}

package struct AppleResponse: Sendable, Equatable {
    package var status: Int
    /// Nil if the body was larger than `largestBody`.
    package var body: [UInt8]?
    package var retryAfter: String?
    /// Apple's clock in the answer, cut off to the second.
    package var date: Timestamp?

    package init(status: Int, body: [UInt8]?, retryAfter: String? = nil, date: Timestamp? = nil) {
        self.status = status
        self.body = body
        self.retryAfter = retryAfter
        self.date = date
    }

    /// In bytes. Apple's longest answer is its key set, of about 2 KiB.
    package static let largestBody = 65_536
}

/// Why no answer came, as the label of a metric.
package enum TransportFailure: String, Error, Sendable, CaseIterable {
    /// The deadline passed, in any phase of the exchange.
    case timeout
    case tls
    case dns
    /// Nobody listens at the address.
    case refused
    /// The connection was reset, or closed before the answer was complete.
    case reset
    /// This process or the machine may open no more files and sockets. Nothing was sent.
    case descriptors
    /// The request was no longer allowed. Nothing was sent.
    case withheld
    case other

    /// Whether Apple may have read the request and acted on it.
    var mayHaveArrived: Bool {
        switch self {
        case .tls, .dns, .refused, .descriptors, .withheld: false
        case .timeout, .reset, .other: true
        }
    }
}

/// How an exchange ended.
package struct AppleObservation: Sendable {
    package var endpoint: AppleEndpoint
    /// An HTTP status, or the raw value of a `TransportFailure`.
    package var status: String
    /// Apple's clock in the answer, in whole seconds.
    package var date: Timestamp?
}

package typealias AppleObserver = @Sendable (AppleObservation) -> Void
