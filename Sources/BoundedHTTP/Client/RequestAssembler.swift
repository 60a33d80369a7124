// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOCore
import NIOHTTP1

/// Sends head, body and end of a request together, as one packet and one TLS record. async-http-client flushes after each of them.
final class RequestAssembler: ChannelOutboundHandler {
    typealias OutboundIn = HTTPClientRequestPart

    private var isComplete = true

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = unwrapOutboundIn(data) { isComplete = true } else { isComplete = false }
        context.write(data, promise: promise)
    }

    /// Flushes early if the channel is full, because the writer then waits for it to drain and would wait for ever.
    func flush(context: ChannelHandlerContext) {
        if isComplete || !context.channel.isWritable { context.flush() }
    }
}
