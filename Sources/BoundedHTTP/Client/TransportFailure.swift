// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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

    /// Whether the server may have read the request and acted on it.
    package var mayHaveArrived: Bool {
        switch self {
        case .tls, .dns, .refused, .descriptors, .withheld: false
        case .timeout, .reset, .other: true
        }
    }
}
