// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// One exchange with Apple over HTTP.
package protocol AppleTransport: Sendable {
    /// - Throws: where no complete answer came. Any answer, whatever its status, is returned.
    func send(_ request: AppleRequest) async throws(TransportFailure) -> AppleResponse
}

/// Which of Apple's endpoints is spoken to, as the label of a metric.
package enum AppleEndpoint: String, Sendable {
    case token, keys, revoke
}

package struct AppleRequest: Sendable {
    package var endpoint: AppleEndpoint
    package var url: String
    /// Posted as a form; absent for a plain GET.
    package var form: FormBody?
    /// Whether the form may still be sent: asked at the last moment, on the thread that writes it. Nil where nobody could say no.
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
    /// Nil where it was larger than `largestBody`.
    package var body: [UInt8]?
    package var retryAfter: String?
    /// What Apple's clock said, in whole seconds, cut off.
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
    /// The deadline passed, wherever the exchange was by then.
    case timeout
    case tls
    case dns
    /// Nobody listens there.
    case refused
    /// Reset, or closed before the answer was complete.
    case reset
    /// This process, or the whole machine, may open no more files and sockets: nothing was sent.
    case descriptors
    /// It was not to be sent any more: nothing was.
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
    /// An HTTP status, or the word of a `TransportFailure`.
    package var status: String
    /// What Apple's clock said in its answer, in whole seconds.
    package var date: Timestamp?
}

package typealias AppleObserver = @Sendable (AppleObservation) -> Void
