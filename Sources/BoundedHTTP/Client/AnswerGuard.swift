// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOCore
import NIOHTTP1

/// Passes one sound answer for each request from NIO's decoder to async-http-client, part by part.
///
/// async-http-client traps on unexpected parts. It skips every status below 200 as an informational head, but the decoder does so only from
/// 100 on, so `HTTP/1.1 000 OK` ended the process. Here anything but an answer to the request is an error and closes the connection.
final class AnswerGuard: ChannelDuplexHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundIn = HTTPClientRequestPart

    private enum Expectation {
        case nothing
        /// The head of the answer, after this many informational heads.
        case head(informational: Int)
        case rest
        /// The answer was refused. Later parts belong to it.
        case refused
    }

    private var expectation = Expectation.nothing

    /// No known server sends more than two. An endless row of them would keep a core busy until the deadline.
    private static let mostInformational = 10

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .nothing = expectation, case .head = unwrapOutboundIn(data) { expectation = .head(informational: 0) }
        context.write(data, promise: promise)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch (expectation, unwrapInboundIn(data)) {
        case (.head(let number), .head(let head)):
            switch head.status.code {
            case 200..<600:
                expectation = .rest
                context.fireChannelRead(data)
            // 101 switches to another protocol, for which siwatch never asks.
            case 100..<200 where head.status != .switchingProtocols && number < Self.mostInformational:
                expectation = .head(informational: number + 1)
            default:
                refuse(context)
            }
        case (.rest, .body):
            context.fireChannelRead(data)
        case (.rest, .end):
            expectation = .nothing
            context.fireChannelRead(data)
        case (.refused, _):
            break
        case (.nothing, _), (.head, .body), (.head, .end), (.rest, .head):
            refuse(context)
        }
    }

    private func refuse(_ context: ChannelHandlerContext) {
        expectation = .refused
        context.fireErrorCaught(HTTPParserError.invalidStatus)
        context.close(promise: nil)
    }
}
