// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import Hummingbird
import Logging
import NIOCore
import PrometheusMetrics
import ServiceLifecycle

/// Serves `/metrics`, `/healthz` and `/readyz` to programs that watch the service.
///
/// It stops after all services that work, so that `/readyz` answers throughout a stop.
struct OperationsServer: Service {
    /// The result of a probe.
    enum Condition: Sendable, Equatable {
        case good
        /// With a reason for people.
        case bad(String)
    }

    var address: ListenAddress
    var limits = ConnectionLimits()
    var logger: Logger
    var metrics: @Sendable (ExpositionFormat) async -> String
    /// Good while every loop turns, or hears why it cannot. Otherwise a restart mends.
    var health: @Sendable () async -> Condition
    /// Good from the moment when the loops run until a stop begins.
    var readiness: @Sendable () async -> Condition
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
}

extension OperationsServer {
    @Sendable private func respond(to request: Request) async -> Response {
        // A web page that has its own name point to loopback would get the answers in its reader's browser.
        if Host.isLoopback(address.host), let name = request.head.authority,
            // A port of 80 is left out.
            !((ListenAddress(name) ?? ListenAddress("\(name):80")).map { Host.isLoopback($0.host) } ?? false)
        {
            return Response(.misdirectedRequest, "\(name.printable) is not served here\n")
        }
        guard let page = page(at: request.uri.path, accept: request.headers[.accept]) else { return Response(.notFound, "not found\n") }
        switch request.method {
        case .get: return await page()
        case .head: return await page().createHeadResponse()
        default: return Response(.methodNotAllowed, "only GET and HEAD\n", allow: "GET, HEAD")
        }
    }

    private func page(at path: String, accept: String?) -> (() async -> Response)? {
        let format = ExpositionFormat(accept: accept)
        switch path {
        case "/metrics": return { Response(.ok, await metrics(format), type: format.contentType) }
        case "/healthz": return { Response(await health()) }
        case "/readyz": return { Response(await readiness()) }
        default: return nil
        }
    }
}

extension Response {
    fileprivate init(_ status: HTTPResponse.Status, _ text: String, type: String = "text/plain; charset=utf-8", allow: String? = nil) {
        self.init(
            status: status,
            headers: [.contentType: type, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: text))
        )
        headers[.allow] = allow
    }

    fileprivate init(_ condition: OperationsServer.Condition) {
        switch condition {
        case .good: self.init(.ok, "ok\n")
        case .bad(let reason): self.init(.serviceUnavailable, reason + "\n")
        }
    }
}
