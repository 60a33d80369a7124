// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AsyncHTTPClient
package import BoundedHTTP
package import CredentialCore
import NIOHTTP1

/// Sends requests to Apple, and reports how each exchange ended.
package struct ObservedTransport: AppleTransport {
    private let transport: HTTPTransport
    private let observe: AppleObserver

    /// - Parameter version: for `User-Agent: siwatch/<version>`. Apple is said to turn away requests without a user agent.
    package init(client: HTTPClient, version: String, timeout: Duration, observe: @escaping AppleObserver) {
        // Apple's longest answer is its key set, of about 2 KiB.
        transport = HTTPTransport(client: client, userAgent: "siwatch/\(version)", timeout: timeout, largestBody: 65_536)
        self.observe = observe
    }

    package func send(_ request: AppleRequest) async throws(TransportFailure) -> TransportResponse {
        let start = ContinuousClock.now
        do throws(TransportFailure) {
            let response = try await transport.send(TransportRequest(request))
            // The transport passes only statuses from 200 to 599, all of three digits.
            let status = String(response.status)
            observe(AppleObservation(endpoint: request.endpoint, status: status, date: response.date, duration: .now - start))
            return response
        } catch {
            observe(AppleObservation(endpoint: request.endpoint, status: error.rawValue, duration: .now - start))
            throw error
        }
    }
}

package struct AppleObservation: Sendable {
    package var endpoint: AppleEndpoint
    /// An HTTP status, or the raw value of a `TransportFailure`: always from a closed list.
    package var status: String
    /// Apple's clock in the answer, in whole seconds.
    package var date: Timestamp?
    package var duration: Duration
}

package typealias AppleObserver = @Sendable (AppleObservation) -> Void

extension TransportRequest {
    fileprivate init(_ request: AppleRequest) {
        let headers = request.form == nil ? Self.headers : Self.formHeaders
        self.init(url: request.url, headers: headers, body: request.form?.encoded, mayBeSent: request.mayBeSent)
    }

    private static let headers: HTTPHeaders = ["accept": "application/json"]
    private static let formHeaders: HTTPHeaders = ["accept": "application/json", "content-type": "application/x-www-form-urlencoded"]
}

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
    /// As for a `TransportRequest`.
    package var mayBeSent: (@Sendable () -> Bool)?
}
