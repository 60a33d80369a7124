// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import NIOConcurrencyHelpers

@testable import AppleIdentity

/// Answers each request by a closure, and records the requests.
final class ScriptedTransport: AppleTransport {
    typealias Answer = @Sendable (AppleRequest) async -> Result<TransportResponse, TransportFailure>

    private let answer: NIOLockedValueBox<Answer>
    private let sent = NIOLockedValueBox<[AppleRequest]>([])

    init(_ answer: @escaping Answer) {
        self.answer = NIOLockedValueBox(answer)
    }

    convenience init(status: Int = 200, body: [UInt8], retryAfter: String? = nil) {
        self.init { _ in .success(TransportResponse(status: status, body: body, retryAfter: retryAfter)) }
    }

    convenience init(status: Int, _ body: String) {
        self.init(status: status, body: Array(body.utf8))
    }

    var requests: [AppleRequest] { sent.withLockedValue { $0 } }

    func now(_ answer: @escaping Answer) {
        self.answer.withLockedValue { $0 = answer }
    }

    func now(publishes jwks: String...) {
        let body = Array(#"{"keys":[\#(jwks.joined(separator: ","))]}"#.utf8)
        now { _ in .success(TransportResponse(status: 200, body: body)) }
    }

    func send(_ request: AppleRequest) async throws(TransportFailure) -> TransportResponse {
        sent.withLockedValue { $0.append(request) }
        return try await answer.withLockedValue { $0 }(request).get()
    }
}
