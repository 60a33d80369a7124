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

extension Response {
    /// A scripted answer.
    init(_ script: ScriptedAnswer) {
        self.init(
            status: HTTPResponse.Status(code: script.status),
            headers: script.fields,
            body: ResponseBody(byteBuffer: script.buffer)
        )
    }

    /// A scripted answer, whose connection is reset after the first half of its body.
    init(_ script: ScriptedAnswer, cutting channel: any Channel) {
        let whole = script.buffer
        let half = whole.getSlice(at: whole.readerIndex, length: whole.readableBytes / 2) ?? ByteBuffer()
        self.init(
            status: HTTPResponse.Status(code: script.status),
            headers: script.fields,
            body: ResponseBody(contentLength: whole.readableBytes) { writer in
                try await writer.write(half)
                try await channel.reset()
            }
        )
    }
}

extension ScriptedAnswer {
    fileprivate var fields: HTTPFields {
        var fields = HTTPFields()
        for (name, value) in headers {
            if let name = HTTPFields.Element.Name(name) { fields[name] = value }
        }
        return fields
    }

    fileprivate var buffer: ByteBuffer {
        var buffer = ByteBuffer(string: body)
        buffer.writeRepeatingByte(UInt8(ascii: " "), count: padding)
        return buffer
    }
}
