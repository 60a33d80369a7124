// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Hummingbird
import HummingbirdCore
import Logging
import NIOConcurrencyHelpers
import NIOCore
package import NIOSSL
import ServiceLifecycle

/// A backend's endpoint for webhooks, which counts what comes and answers as it is told.
package final class HookReceiver: Sendable {
    package struct Hook: Sendable {
        package var id: String
        package var path: String
        package var timestamp: String
        package var signatures: String
        package var body: String
    }

    private struct State {
        var hooks: [Hook] = []
        var status: @Sendable (Hook) -> Int = { _ in 200 }
        var retryAfter: String?
        var delay: @Sendable () async -> Void = {}
        var tls: NIOSSLContext?
    }

    private let state = NIOLockedValueBox(State())

    private let arrivals = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    package init() {}
    package var hooks: [Hook] { state.withLockedValue(\.hooks) }

    /// Waits until it was told so many different things. The suite's time limit ends the wait.
    package func hooks(count: Int) async throws -> [Hook] {
        var news = arrivals.stream.makeAsyncIterator()
        while Set(hooks.map(\.id)).count < count {
            guard await news.next() != nil else { throw CancellationError() }
        }
        return hooks
    }

    /// Waits for the first that fits. The suite's time limit ends the wait.
    package func hook(where fits: (Hook) -> Bool) async throws -> Hook {
        var news = arrivals.stream.makeAsyncIterator()
        while true {
            if let hook = hooks.first(where: fits) { return hook }
            guard await news.next() != nil else { throw CancellationError() }
        }
    }

    /// Sets how it answers from now on.
    ///
    /// - Parameter retryAfter: the header `Retry-After` of each answer.
    package func answer(retryAfter: String? = nil, _ status: @escaping @Sendable (Hook) -> Int) {
        state.withLockedValue { ($0.status, $0.retryAfter) = (status, retryAfter) }
    }

    package func delay(_ delay: @escaping @Sendable () async -> Void) { state.withLockedValue { $0.delay = delay } }
    package func show(_ tls: NIOSSLContext) { state.withLockedValue { $0.tls = tls } }

    /// Serves on a free port of loopback while `body` runs.
    ///
    /// - Parameter tls: nil for plain HTTP. With TLS, each request needs a connection of its own, and meets the certificate of its moment.
    package func serve<Result>(
        port: Int = 0,
        tls: NIOSSLContext? = nil,
        _ body: (_ port: Int) async throws -> Result
    ) async throws -> Result {
        let (ports, continuation) = AsyncStream<Int>.makeStream()
        state.withLockedValue { $0.tls = tls }
        let application = Application(
            responder: CallbackResponder<BasicRequestContext> { [self] request, _ in await respond(to: request) },
            server: HTTPServerBuilder { [state] responder in
                HookChannel(http: HTTP1Channel(responder: responder)) { state.withLockedValue(\.tls) }
            },
            configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: port)),
            onServerRunning: { channel in continuation.yield(channel.localAddress?.port ?? 0) },
            logger: Logger(label: "hooks", factory: { _ in SwiftLogNoOpLogHandler() })
        )
        let server = ServiceGroup(services: [application], logger: application.logger)
        return try await withThrowingTaskGroup { group in
            group.addTask {
                // A receiver that cannot listen must not leave its user waiting.
                defer { continuation.finish() }
                try await server.run()
            }
            for await port in ports {
                let result: Swift.Result<Result, any Error>
                do {
                    result = .success(try await body(port))
                } catch {
                    result = .failure(error)
                }
                // A cancelled server traps on a connection that comes at that moment.
                await server.triggerGracefulShutdown()
                group.addTask { try await Task.sleep(for: .seconds(5)) }
                _ = try? await group.next()
                group.cancelAll()
                return try result.get()
            }
            try await group.waitForAll()
            throw CancellationError()
        }
    }

    private func respond(to request: Request) async -> Response {
        func header(_ name: String) -> String { request.headers[.init(name)!] ?? "" }
        let body = (try? await request.body.collect(upTo: 1 << 20)).map { String(buffer: $0) } ?? ""
        let hook = Hook(
            id: header("webhook-id"),
            path: request.uri.string,
            timestamp: header("webhook-timestamp"),
            signatures: header("webhook-signature"),
            body: body
        )
        await state.withLockedValue(\.delay)()
        let (status, retryAfter, isTLS) = state.withLockedValue { state in
            let status = state.status(hook)
            state.hooks.append(hook)
            return (status, state.retryAfter, state.tls != nil)
        }
        arrivals.continuation.yield()
        var response = Response(status: .init(code: status))
        if (300...399).contains(status) { response.headers[.location] = "/elsewhere" }
        if let retryAfter { response.headers[.retryAfter] = retryAfter }
        if isTLS { response.headers[.connection] = "close" }
        return response
    }
}

/// HTTP/1, over TLS if there is a certificate when the connection comes.
private struct HookChannel: ServerChildChannel {
    let http: HTTP1Channel
    let tls: @Sendable () -> NIOSSLContext?

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<HTTP1Channel.Value> {
        guard let context = tls() else { return http.setup(channel: channel, logger: logger) }
        return channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context))
        }
        .flatMap { http.setup(channel: channel, logger: logger) }
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async { await http.handle(value: value, logger: logger) }
}
