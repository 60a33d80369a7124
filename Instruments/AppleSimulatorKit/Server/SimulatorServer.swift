// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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
