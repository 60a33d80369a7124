// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
package import Hummingbird
import HummingbirdCore
package import Logging
import NIOConcurrencyHelpers
import NIOCore
import ServiceLifecycle

/// Serves HTTP/1 over a limited number of connections, each with limited time and limited heads of requests.
package struct BoundedServer: Service {
    private let address: BindAddress
    /// The path of a Unix socket; nil for TCP.
    private let socket: String?
    private let limits: ConnectionLimits
    private let certificate: ServerCertificate?
    private let logger: Logger
    private let onListening: @Sendable (Int) async -> Void
    private let respond: @Sendable (Request) async -> Response

    /// - Parameters:
    ///   - host: a name or an address of this machine; or the path of a Unix socket, if there is no port.
    ///   - onListening: called with the port, or 0, once the server listens.
    ///   - respond: answers a request. It decides how much of a body it collects; `limits.answer` bounds the time.
    package init(
        host: String,
        port: Int? = nil,
        limits: ConnectionLimits,
        certificate: ServerCertificate? = nil,
        logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void,
        respond: @escaping @Sendable (Request) async -> Response
    ) {
        socket = port == nil ? host : nil
        address = port.map { .hostname(host, port: $0) } ?? .unixDomainSocket(path: host)
        (self.limits, self.certificate, self.logger) = (limits, certificate, logger)
        (self.onListening, self.respond) = (onListening, respond)
    }

    /// Serves until a graceful shutdown. If somebody removes the socket, listens there anew, and answers meanwhile what came before.
    ///
    /// - Throws: `IOError` if the address is taken, or is not an address of this machine.
    package func run() async throws {
        guard let socket else { return try await application().run() }
        try await withThrowingDiscardingTaskGroup { group in
            while !group.isCancelled, !Task.isShuttingDownGracefully {
                let bound = NIOLockedValueBox<(any Channel)?>(nil)
                let listening = ServiceGroup(services: [application { channel in bound.withLockedValue { $0 = channel } }], logger: logger)
                group.addTask { try await listening.run() }
                repeat {
                    try? await cancelWhenGracefulShutdown { try await Task.sleep(for: .seconds(1)) }
                } while !group.isCancelled && !Task.isShuttingDownGracefully && !(bound.withLockedValue { $0 != nil } && isGone(socket))
                await listening.triggerGracefulShutdown()
                // As it closes, a listener removes what stands at its path. It must not be the next one's socket.
                try? await bound.withLockedValue(\.self)?.closeFuture.get()
            }
        }
    }

    /// Whether nothing stands at the path, and its folder lets a socket be made there.
    private func isGone(_ path: String) -> Bool {
        access(path, F_OK) != 0 && errno == ENOENT && access(URL(filePath: path).deletingLastPathComponent().path, W_OK) == 0
    }

    private func application(_ onBound: @escaping @Sendable (any Channel) -> Void = { _ in }) -> some Service {
        Application(
            responder: CallbackResponder<BasicRequestContext> { request, _ in
                let response = await respond(request)
                // A client takes a body after HEAD for the next answer.
                return request.method == .head ? response.createHeadResponse() : response
            },
            server: HTTPServerBuilder { responder in
                LimitedHTTP1Channel(limits, certificate, configuration: Self.heads, responder: responder)
            },
            configuration: ApplicationConfiguration(
                address: address,
                // Lets a client wait its turn in a flood. From a full queue the kernel would drop it for a second.
                backlog: 1024,
                // A connection that must close stays open until its event loop comes to it. No more are accepted than the loops close.
                availableConnectionsDelegate: .maximum(limits.count * 2, logger: logger)
            ),
            onServerRunning: { channel in
                await onListening(channel.localAddress?.port ?? 0)
                onBound(channel)
            },
            logger: logger
        )
    }

    /// In bytes. Honest clients send a few short headers.
    private static let heads = HTTP1Channel.Configuration(
        httpDecoderConfiguration: .init(maxHeaderFieldSize: 8192, maxHeaderListSize: 16_384, maxHeaderFieldCount: 100)
    )
}
