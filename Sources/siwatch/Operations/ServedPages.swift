// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore
import Hummingbird
import Logging
import NIOCore
import PrometheusMetrics
import ServiceLifecycle

/// The HTTP pages of the daemon.
struct ServedPages: Sendable {
    var metrics: @Sendable (ExpositionFormat) async -> String
    /// Nil while every loop turns, or hears why it cannot. Otherwise a restart mends, and it is the reason.
    var health: @Sendable () async -> String?
    /// Those who rely on siwatch over HTTP, and over SQL.
    enum Member: String {
        case door, tables
    }

    /// Nil from the moment when the loops run until a stop begins, else the reason; of a member, or of all.
    var readiness: @Sendable (Member?) async -> String?
    var status: @Sendable () async throws -> StatusReport

    @Sendable func respond(to request: Request) async -> Response {
        guard let page = page(at: request.uri.path, accept: request.headers[.accept]) else { return Response(.notFound, "not found\n") }
        do {
            switch (request.method, request.uri.path) {
            // HAProxy asks by OPTIONS, unless it is told otherwise.
            case (.get, _), (.head, _), (.options, "/healthz"), (.options, "/readyz"): return try await page()
            default: return Response(.methodNotAllowed, "only GET and HEAD; a probe asks /readyz\n", allow: "GET, HEAD")
            }
        } catch {
            return Response(.serviceUnavailable, "\("\(error)".printable)\n")
        }
    }

    private func page(at path: String, accept: String?) -> (() async throws -> Response)? {
        let format = ExpositionFormat(accept: accept)
        switch path {
        case "/":
            let isBrowser = accept?.contains("text/html") == true
            return {
                let report = try await status()
                return isBrowser ? Response(HTMLPage(report)) : Response(.ok, report.lines.joined(separator: "\n") + "\n")
            }
        case "/status.json":
            return { Response(.ok, try json(of: try await status()) + "\n", type: "application/json") }
        case "/metrics": return { Response(.ok, await metrics(format).withoutHidden, type: format.contentType) }
        case "/healthz": return { Response(trouble: await health()) }
        case "/readyz": return { Response(trouble: await readiness(nil)) }
        default:
            guard path.hasPrefix("/readyz/"), let member = Member(rawValue: String(path.dropFirst(8))) else { return nil }
            return { Response(trouble: await readiness(member)) }
        }
    }
}

extension String {
    /// The text with a replacement character for each that a terminal would obey. In a label, only three characters have an escape.
    fileprivate var withoutHidden: String {
        guard !unicodeScalars.allSatisfy({ $0.isPrintable || $0 == "\n" }) else { return self }
        return escaped { $0.isPrintable || $0 == "\n" ? nil : "\u{fffd}" }
    }
}

extension Response {
    init(_ status: HTTPResponse.Status, _ text: String, type: String = "text/plain; charset=utf-8", allow: String? = nil) {
        self.init(
            status: status,
            headers: [.contentType: type, .cacheControl: "no-store", .xContentTypeOptions: "nosniff"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: text))
        )
        headers[.allow] = allow
    }

    fileprivate init(trouble: String?) {
        self.init(trouble == nil ? .ok : .serviceUnavailable, "\(trouble ?? "ok")\n")
    }

    fileprivate init(_ page: HTMLPage) {
        self.init(.ok, page.text, type: "text/html; charset=utf-8")
        headers[.contentSecurityPolicy] = HTMLPage.policy
    }
}

/// Serves the pages over TCP, to people and to programs that watch the service.
///
/// It stops after all services that work, so that `/readyz` answers throughout a stop.
struct OperationsServer: Service {
    var address: ListenAddress
    var limits = ConnectionLimits()
    var logger: Logger
    var pages: ServedPages
    /// With the port.
    var onListening: @Sendable (Int) async -> Void = { _ in }

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
