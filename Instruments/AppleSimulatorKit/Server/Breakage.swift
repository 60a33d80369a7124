// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Hummingbird
import NIOCore
import ServiceLifecycle

extension Channel {
    /// Closes the connection with a TCP RST: a socket with a linger time of zero discards its unsent bytes.
    func reset() async throws {
        try await (self as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
        try await close()
    }
}

extension Channel {
    /// Waits until the client goes away, or closes the connection when the simulator stops.
    func untilClosed() async throws {
        // Hummingbird lets a client close its half alone and goes on. This code waits for nothing but the end, so it must see it.
        try await setOption(.allowRemoteHalfClosure, value: false).get()
        try await withTaskCancellationOrGracefulShutdownHandler {
            try await closeFuture.get()
        } onCancelOrGracefulShutdown: {
            self.close(promise: nil)
        }
    }
}

extension AppleAnswer {
    /// The answer, whose connection is reset after the first half of its body.
    func response(cutting channel: any Channel) -> Response {
        let half = body.getSlice(at: body.readerIndex, length: body.readableBytes / 2) ?? ByteBuffer()
        let cut = ResponseBody(contentLength: body.readableBytes) { writer in
            try await writer.write(half)
            try await channel.reset()
        }
        return Response(status: status, headers: headers, body: cut)
    }
}
