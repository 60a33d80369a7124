// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle

/// Serves the pages over TCP, to people and to programs that watch the service.
///
/// It stops after all services that work, so that `/readyz` answers throughout a stop.
struct OperationsServer: Service {
    var address: ListenAddress
    var limits = ConnectionLimits()
    var logger: Logger
    var pages: ServedPages
    /// Called with the port once the server listens.
    var onListening: @Sendable (Int) async -> Void = { _ in }

    /// - Throws: if the address is taken, or is not an address of this machine.
    func run() async throws {
        do {
            try await BoundedServer(
                host: address.host,
                port: address.port,
                limits: limits,
                logger: logger,
                onListening: onListening,
                respond: respond
            ).run()
        } catch let error as IOError {
            let reason = systemError(error.errnoCode)
            throw CommandFailure.unavailable("operations.listen: \(address.host):\(address.port) cannot be listened on: \(reason)")
        }
    }

    @Sendable private func respond(to request: Request) async -> Response {
        // A web page that has its own name point to loopback would get the answers in its reader's browser.
        if Host.isLoopback(address.host), let name = request.head.authority,
            // A port of 80 is left out.
            !((ListenAddress(name) ?? ListenAddress("\(name):80")).map { Host.isLoopback($0.host) } ?? false)
        {
            return Response(.misdirectedRequest, "\(name.printable) is not served here\n")
        }
        return await pages.respond(to: request)
    }
}
