// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1

/// Collects one answer. The caller reads it here, because async-http-client's unspecialized code would copy a returned one again and again.
final class ResponseCollector: HTTPClientResponseDelegate {
    /// The body is larger than the bound. This closes the connection.
    struct ExcessiveBody: Error {
        var response: TransportResponse
    }

    private struct State {
        var response = TransportResponse(status: 0, body: nil)
        var body: [UInt8] = []
    }

    private let largestBody: Int
    private let state = NIOLockedValueBox(State())

    init(largestBody: Int) { self.largestBody = largestBody }

    func didReceiveHead(task: HTTPClient.Task<Void>, _ head: HTTPResponseHead) -> EventLoopFuture<Void> {
        state.withLockedValue {
            $0.response = TransportResponse(
                status: Int(head.status.code),
                body: nil,
                retryAfter: head.headers.first(name: "retry-after"),
                // A cache's answer has the date of the answer that it keeps (RFC 9111, 5.1).
                date: head.headers.contains(name: "age") ? nil : head.headers.first(name: "date").flatMap(HTTPDate.parse)
            )
        }
        return task.eventLoop.makeSucceededVoidFuture()
    }

    func didReceiveBodyPart(task: HTTPClient.Task<Void>, _ part: ByteBuffer) -> EventLoopFuture<Void> {
        state.withLockedValue { state in
            guard state.body.count + part.readableBytes <= largestBody else {
                return task.eventLoop.makeFailedFuture(ExcessiveBody(response: state.response))
            }
            state.body += part.readableBytesView
            return task.eventLoop.makeSucceededVoidFuture()
        }
    }

    func didFinishRequest(task: HTTPClient.Task<Void>) {}

    var response: TransportResponse {
        state.withLockedValue { state in
            var response = state.response
            response.body = state.body
            return response
        }
    }
}
