// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle

/// The HTTP server: Apple's endpoints and the control routes on one port of 127.0.0.1.
///
/// A small version of Hummingbird's `Application`, which stamps each answer with the machine's time. The `Date` here is Apple's.
struct SimulatorServer {
    let simulator: AppleSimulator
    let onListening: @Sendable (String) -> Void

    func run() async throws {
        let router = Router(context: SimulatorContext.self)
        AppleRoutes(simulator: simulator).add(to: router)
        ControlRoutes(simulator: simulator).add(to: router)
        let responder = router.buildResponder()
        let simulator = simulator
        let server = try HTTPServerBuilder.http1().buildServer(
            configuration: ServerConfiguration(address: .hostname("127.0.0.1", port: simulator.configuration.port)),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: simulator.logger
        ) { request, writer, channel in
            let context = SimulatorContext(source: ApplicationRequestContextSource(channel: channel, logger: simulator.logger))
            var response: Response
            do {
                response = try await responder.respond(to: request, context: context)
            } catch {
                simulator.logger.debug("no answer", metadata: ["error": "\(error)"])
                response = Response(status: .internalServerError)
            }
            response.headers[.date] = HTTPDate.text(of: simulator.withWorld { $0.now })
            try await writer.write(response: response.head, body: response.body)
        } onServerRunning: { channel in
            onListening("http://127.0.0.1:\(channel.localAddress?.port ?? simulator.configuration.port)")
        }
        try await server.run()
    }
}

/// The context of a request, with its connection, so that a fault can break it.
struct SimulatorContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }
}

/// The text of a `Date` header: RFC 9110 section 5.6.7. Moments before 1970 become the beginning of 1970.
enum HTTPDate {
    static func text(of moment: Moment) -> String {
        var seconds = time_t(max(0, moment.seconds))
        var parts = tm()
        gmtime_r(&seconds, &parts)
        return String(unsafeUninitializedCapacity: 32) { buffer in
            // In English, because no program here chooses another locale than C's.
            buffer.withMemoryRebound(to: CChar.self) { strftime($0.baseAddress!, $0.count, "%a, %d %b %Y %H:%M:%S GMT", &parts) }
        }
    }
}

extension Channel {
    /// Closes the connection with a TCP RST: a socket with a linger time of zero discards its unsent bytes.
    func reset() async throws {
        try await (self as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
        try await close()
    }

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
