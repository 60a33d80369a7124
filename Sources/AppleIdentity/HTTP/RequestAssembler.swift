// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOCore
import NIOHTTP1

/// Sends head, body and end of a request together: one packet and one TLS record, where async-http-client flushes after each of them.
final class RequestAssembler: ChannelOutboundHandler {
    typealias OutboundIn = HTTPClientRequestPart
    typealias OutboundOut = HTTPClientRequestPart

    private var isComplete = true

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = unwrapOutboundIn(data) { isComplete = true } else { isComplete = false }
        context.write(data, promise: promise)
    }

    /// Whoever writes more than the channel holds waits for it to drain, and would wait for ever.
    func flush(context: ChannelHandlerContext) {
        if isComplete || !context.channel.isWritable { context.flush() }
    }
}
