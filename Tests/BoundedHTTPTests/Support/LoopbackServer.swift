// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// A server that gives every request the same treatment, down to the bytes.
final class LoopbackServer: Sendable {
    enum Manner: Sendable {
        /// Sends these bytes and closes.
        case says(String)
        /// Sends these bytes and leaves the connection open.
        case saysAndHolds(String)
        /// Sends a head that promises 10 MiB, and then all of them.
        case floods
        /// Closes without an answer.
        case hangsUp
    }

    private let channel: any Channel
    private let received: Received

    /// Runs the body with a server, and stops the server afterwards.
    static func run<Result>(
        _ manner: Manner,
        tls: NIOSSLContext? = nil,
        _ body: (LoopbackServer) async throws -> Result
    ) async throws -> Result {
        let server = try await LoopbackServer(manner, tls)
        do {
            let result = try await body(server)
            try await server.channel.close()
            return result
        } catch {
            try? await server.channel.close()
            throw error
        }
    }

    private init(_ manner: Manner, _ tls: NIOSSLContext?) async throws {
        let received = Received()
        self.received = received
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
                    try channel.pipeline.syncOperations.addHandler(Handler(manner, received))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
    }

    var port: Int { channel.localAddress!.port! }
    var requests: [String] { received.requests.withLockedValue { $0 } }

    private final class Received: Sendable {
        let requests = NIOLockedValueBox<[String]>([])
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let manner: Manner
        private let received: Received
        private var text = ""

        init(_ manner: Manner, _ received: Received) {
            self.manner = manner
            self.received = received
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            text += String(buffer: unwrapInboundIn(data))
            // A TLS greeting is no request, but gets the same answer.
            guard !text.hasPrefix("GET") && !text.hasPrefix("POST") || isComplete else { return }
            received.requests.withLockedValue { $0.append(text) }
            text = ""
            answer(context)
        }

        private var isComplete: Bool {
            guard let head = text.firstRange(of: "\r\n\r\n") else { return false }
            let length = text.lowercased().firstMatch(of: #/content-length: (\d+)/#).flatMap { Int($0.1) } ?? 0
            return text[head.upperBound...].utf8.count >= length
        }

        private func answer(_ context: ChannelHandlerContext) {
            switch manner {
            case .says(let text):
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
                context.close(promise: nil)
            case .saysAndHolds(let text):
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
            case .floods:
                let head = "HTTP/1.1 200 OK\r\ncontent-length: 10485760\r\n\r\n"
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: head)), promise: nil)
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(repeating: 0x20, count: 10_485_760)), promise: nil)
            case .hangsUp:
                context.close(promise: nil)
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }
    }
}
