// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import Foundation
import Hummingbird
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import ServiceLifecycle
import Testing

@testable import BoundedHTTP

struct BoundedServerTests {
    /// A server on a free port. It stops gracefully after the body.
    private func withServer(
        // Enough for any busy machine. Only tests that ask for shorter limits see connections closed for their age.
        limits: ConnectionLimits = ConnectionLimits(request: .seconds(300), answer: .seconds(300)),
        respond: @escaping @Sendable (Request) async -> Response = { _ in Response(status: .ok) },
        _ body: (_ base: String) async throws -> Void
    ) async throws {
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let server = BoundedServer(
            host: "127.0.0.1",
            port: 0,
            limits: limits,
            logger: logger,
            onListening: { listening.yield($0) },
            respond: respond
        )
        let group = ServiceGroup(services: [server], logger: logger)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { listening.finish() }
                try await group.run()
            }
            if let port = await ports.first(where: { _ in true }) { try await body("http://127.0.0.1:\(port)") }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    private func fetch(_ url: String, headers: HTTPHeaders = [:], body: String? = nil) async throws -> UInt {
        var request = HTTPClientRequest(url: url)
        request.headers = headers
        if let body {
            request.method = .POST
            request.body = .bytes(ByteBuffer(string: body))
        }
        return try await HTTPClient.shared.execute(request, timeout: .seconds(30)).status.code
    }

    @Test func aHandlerCollectsABodyUpToABound() async throws {
        try await withServer(
            respond: { request in
                let isSmall = (try? await request.body.collect(upTo: 10)) != nil
                return Response(status: isSmall ? .ok : .contentTooLarge)
            }
        ) { base in
            let (small, large) = (try await fetch(base, body: "ten bytes."), try await fetch(base, body: "eleven byte"))
            #expect(small == 200)
            #expect(large == 413)
        }
    }

    /// Whatever came after the head would be taken for the next answer.
    @Test func anAnswerToHEADIsAHeadAlone() async throws {
        try await withServer(respond: { _ in Response(status: .notFound, body: ResponseBody(byteBuffer: ByteBuffer(string: "body"))) }) {
            base in
            let connection = try await Connection(to: base)
            try await connection.write("HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            var text = ""
            while let part = await connection.next() { text += part }
            let parts = text.components(separatedBy: "\r\n\r\n")
            #expect(parts.count == 3 && parts[1].hasPrefix("HTTP/1.1 404") && parts[2] == "body", "\(text)")
            #expect(parts[0].lowercased().contains("content-length: 4"), "\(text)")
        }
    }

    /// RFC 9110, 10.1.1. Otherwise curl waits a second for it, and a strict client for ever.
    @Test func aClientThatAsksFirstIsToldToGoOn() async throws {
        try await withServer(
            respond: { request in
                let body = (try? await request.body.collect(upTo: 10)).map { String(buffer: $0) }
                return Response(status: .ok, body: ResponseBody(byteBuffer: ByteBuffer(string: "got \(body ?? "nothing")")))
            }
        ) { base in
            let connection = try await Connection(to: base)
            try await connection.write(
                "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-Continue\r\nConnection: close\r\n\r\n"
            )
            #expect(await connection.next() == "HTTP/1.1 100 Continue\r\n\r\n")
            try await connection.write("body")
            var text = ""
            while let part = await connection.next() { text += part }
            #expect(text.hasPrefix("HTTP/1.1 200") && text.hasSuffix("got body"), "\(text)")
        }
    }

    @Test func longHeadersAreRefused() async throws {
        try await withServer { base in
            let long = String(repeating: "x", count: 10_000)
            let answer = try? await fetch(base, headers: ["x-long": long])
            #expect(answer != 200)
            let other = try await fetch(base)
            #expect(other == 200, "others are served")
        }
    }

    /// The client's pool keeps its connections open. A stop must not wait for them.
    @Test func anIdleConnectionDoesNotDelayTheStop() async throws {
        try await withServer { base in _ = try await fetch(base) }
    }

    @Test(.timeLimit(.minutes(5))) func aThousandIdleConnectionsBlockNobody() async throws {
        allowDescriptors(4096)
        try await withServer { base in
            var idle: [Connection] = []
            for _ in 1...1000 { idle.append(try await Connection(to: base)) }
            #expect(try await fetch(base) == 200)
            // The first one made room, and the server accepts the last like any other.
            await idle[0].closed()
            try await idle[999].write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            #expect(await idle[999].next()?.hasPrefix("HTTP/1.1 200 OK") == true)
            for connection in idle { connection.close() }
        }
    }

    @Test(.timeLimit(.minutes(5))) func aHeadThatComesInDropsIsWaitedForNoLonger() async throws {
        try await withServer(limits: ConnectionLimits(request: .milliseconds(300))) { base in
            let connection = try await Connection(to: base)
            connection.send("GET / HTTP/1.1\r\nHost: ")
            connection.drip("x", every: .milliseconds(20))
            await connection.closed()
        }
    }

    @Test(.timeLimit(.minutes(5))) func anAnsweredConnectionIsKeptForAWhileOnly() async throws {
        try await withServer(limits: ConnectionLimits(idle: .milliseconds(300))) { base in
            var answers = 0
            // If the machine stalls for longer than that between two requests, the server has rightly closed the connection. Open another
            // one.
            while answers < 2 {
                try Task.checkCancellation()
                answers = 0
                let connection = try await Connection(to: base)
                for _ in 1...2 {
                    connection.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                    if await connection.next()?.hasPrefix("HTTP/1.1 200 OK") == true { answers += 1 }
                }
                // A body in drops is no request either.
                connection.send("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
                connection.drip("x", every: .milliseconds(20))
                await connection.closed()
            }
        }
    }

    private func allowDescriptors(_ count: UInt) {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = max(limit.rlim_cur, min(count, limit.rlim_max))
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}

/// A bare connection, for behaviour that no HTTP client has.
private final class Connection: Sendable {
    private let channel: any Channel
    private let texts: AsyncStream<String>

    init(to base: String) async throws {
        let (texts, received) = AsyncStream.makeStream(of: String.self)
        self.texts = texts
        channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connectTimeout(.seconds(60))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Receiver(received)) }
            }
            .connect(host: "127.0.0.1", port: Int(base.split(separator: ":").last ?? "") ?? 0)
            .get()
    }

    func write(_ text: String) async throws { try await channel.writeAndFlush(ByteBuffer(string: text)) }
    func send(_ text: String) { channel.writeAndFlush(ByteBuffer(string: text), promise: nil) }

    func drip(_ text: String, every interval: TimeAmount) {
        let drops = channel.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: interval) { [channel] _ in
            channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
        }
        channel.closeFuture.whenComplete { _ in drops.cancel() }
    }

    func next() async -> String? { await texts.first { _ in true } }
    func closed() async { for await _ in texts {} }
    func close() { channel.close(promise: nil) }

    private final class Receiver: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let texts: AsyncStream<String>.Continuation

        init(_ texts: AsyncStream<String>.Continuation) { self.texts = texts }
        func channelRead(context: ChannelHandlerContext, data: NIOAny) { texts.yield(String(buffer: unwrapInboundIn(data))) }
        func channelInactive(context: ChannelHandlerContext) { texts.finish() }
    }
}
