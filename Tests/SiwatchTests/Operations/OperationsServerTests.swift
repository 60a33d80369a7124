// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import ServiceLifecycle
import Synchronization
import Testing

@testable import siwatch

struct OperationsServerTests {
    /// A server on a free port. It stops gracefully after the body.
    private func withServer(
        metrics: String = "",
        // Enough for any busy machine. Only tests that ask for shorter limits see connections closed for their age.
        limits: ConnectionLimits = ConnectionLimits(request: .seconds(300), answer: .seconds(300)),
        health: OperationsServer.Condition = .good,
        readiness: @escaping @Sendable () -> OperationsServer.Condition = { .good },
        _ body: (_ base: String) async throws -> Void
    ) async throws {
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let server = OperationsServer(
            address: ListenAddress(host: "127.0.0.1", port: 0),
            limits: limits,
            logger: logger,
            metrics: { _ in metrics },
            health: { health },
            readiness: { readiness() },
            onListening: { listening.yield($0) }
        )
        let group = ServiceGroup(services: [server], logger: logger)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { listening.finish() }
                try await group.run()
            }
            if let port = await ports.first(where: { _ in true }) {
                try await body("http://127.0.0.1:\(port)")
            }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    private func fetch(_ url: String, method: String = "GET", headers: [(String, String)] = []) async throws -> Answer {
        var request = HTTPClientRequest(url: url)
        request.method = .init(rawValue: method)
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
        return Answer(
            status: Int(response.status.code),
            type: response.headers.first(name: "content-type"),
            length: response.headers.first(name: "content-length"),
            allow: response.headers.first(name: "allow"),
            text: String(buffer: try await response.body.collect(upTo: 1 << 20))
        )
    }

    private struct Answer {
        var status: Int
        var type: String?
        var length: String?
        var allow: String?
        var text: String
    }

    @Test func metricsAreServed() async throws {
        let text = "# TYPE siwatch_up gauge\nsiwatch_up{app=\"é\"} 1\n"
        try await withServer(metrics: text) { base in
            let answer = try await fetch("\(base)/metrics?name=x")
            #expect(answer.status == 200)
            #expect(answer.type == "text/plain; version=0.0.4; charset=utf-8")
            #expect(answer.text == text)
        }
    }

    @Test func probesAreAnswered() async throws {
        let ready = Atomic(true)
        try await withServer(
            health: .bad("the refresh loop has not turned for 12 s"),
            readiness: { ready.load(ordering: .relaxed) ? .good : .bad("stopping") }
        ) { base in
            let health = try await fetch("\(base)/healthz")
            #expect(health.status == 503)
            #expect(health.text == "the refresh loop has not turned for 12 s\n")
            #expect(health.type == "text/plain; charset=utf-8")

            let before = try await fetch("\(base)/readyz")
            #expect(before.status == 200)
            #expect(before.text == "ok\n")
            ready.store(false, ordering: .relaxed)
            let after = try await fetch("\(base)/readyz")
            #expect(after.status == 503)
            #expect(after.text == "stopping\n")
        }
    }

    @Test func headIsAnsweredWithoutABody() async throws {
        try await withServer(metrics: "12345", readiness: { .bad("starting") }) { base in
            let metrics = try await fetch("\(base)/metrics", method: "HEAD")
            #expect(metrics.status == 200)
            #expect(metrics.length == "5")
            #expect(metrics.text.isEmpty)
            #expect(try await fetch("\(base)/readyz", method: "HEAD").status == 503)
        }
    }

    @Test func nothingElseIsServed() async throws {
        try await withServer { base in
            for path in ["", "/", "/metrics/", "/metricsx", "/Metrics", "//metrics", "/healthz/x", "/etc/passwd", "/%2e%2e/"] {
                #expect(try await fetch(base + path).status == 404, "\(path)")
            }
            for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
                let answer = try await fetch("\(base)/metrics", method: method)
                #expect(answer.status == 405, "\(method)")
                #expect(answer.allow == "GET, HEAD")
            }
            #expect(try await fetch("\(base)/nothing", method: "POST").status == 404)
        }
    }

    @Test func longHeadersAreRefused() async throws {
        try await withServer { base in
            let long = String(repeating: "x", count: 10_000)
            let answer = try? await fetch("\(base)/healthz", headers: [("x-long", long)])
            #expect(answer?.status != 200)
            let next = try await fetch("\(base)/healthz")
            #expect(next.status == 200, "others are served")
        }
    }

    /// The client's pool keeps its connections open. A stop must not wait for them.
    @Test func anIdleConnectionDoesNotDelayTheStop() async throws {
        try await withServer { base in
            let answer = try await fetch("\(base)/healthz")
            #expect(answer.status == 200)
        }
    }

    // MARK: Connections that ask for nothing

    @Test(.timeLimit(.minutes(5))) func aThousandIdleConnectionsBlockNobody() async throws {
        allowDescriptors(4096)
        try await withServer(metrics: "siwatch_up 1\n") { base in
            var idle: [Connection] = []
            for _ in 1...1000 { idle.append(try await Connection(to: base)) }
            for page in ["healthz", "metrics"] {
                let answer = try await fetch("\(base)/\(page)")
                #expect(answer.status == 200, "\(page)")
            }
            // The first one made room, and the server accepts the last like any other.
            await idle[0].closed()
            try await idle[999].write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            #expect(await idle[999].next()?.hasPrefix("HTTP/1.1 200 OK") == true)
            for connection in idle { connection.close() }
        }
    }

    @Test(.timeLimit(.minutes(5))) func aHeadThatComesInDropsIsWaitedForNoLonger() async throws {
        try await withServer(limits: ConnectionLimits(request: .milliseconds(300))) { base in
            let connection = try await Connection(to: base)
            connection.send("GET /healthz HTTP/1.1\r\nHost: ")
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
                    connection.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                    if await connection.next()?.hasPrefix("HTTP/1.1 200 OK") == true { answers += 1 }
                }
                // A body in drops is no request either.
                connection.send("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
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

    @Test func anAddressThatIsTakenIsAFailure() async throws {
        try await withServer { base in
            let port = Int(base.split(separator: ":").last ?? "") ?? 0
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let second = OperationsServer(
                address: ListenAddress(host: "127.0.0.1", port: port),
                logger: logger,
                metrics: { _ in "" },
                health: { .good },
                readiness: { .good }
            )
            await #expect(throws: (any Error).self) { try await second.run() }
        }
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

    func write(_ text: String) async throws {
        try await channel.writeAndFlush(ByteBuffer(string: text))
    }

    /// Writes a text, unless the peer has closed the connection.
    func send(_ text: String) {
        channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
    }

    /// Writes a text again and again until the connection ends.
    func drip(_ text: String, every interval: TimeAmount) {
        let drops = channel.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: interval) { [channel] _ in
            channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
        }
        channel.closeFuture.whenComplete { _ in drops.cancel() }
    }

    /// The next bytes; nil at the end.
    func next() async -> String? {
        await texts.first { _ in true }
    }

    /// Waits until the peer closes it.
    func closed() async {
        for await _ in texts {}
    }

    func close() {
        channel.close(promise: nil)
    }

    private final class Receiver: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let texts: AsyncStream<String>.Continuation

        init(_ texts: AsyncStream<String>.Continuation) {
            self.texts = texts
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            texts.yield(String(buffer: unwrapInboundIn(data)))
        }

        func channelInactive(context: ChannelHandlerContext) {
            texts.finish()
        }
    }
}
