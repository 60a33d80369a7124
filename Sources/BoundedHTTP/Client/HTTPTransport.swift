// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AsyncHTTPClient
package import Foundation
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOSSL

/// Speaks HTTP through async-http-client, with a bound on the time of an exchange and on the size of its answer.
package struct HTTPTransport: Sendable {
    private let client: HTTPClient
    private let userAgent: String
    private let timeout: Duration
    private let largestBody: Int
    private let blanks = NIOLockedValueBox<[String: HTTPClient.Request]>([:])

    /// - Parameters:
    ///   - client: with `HTTPClient.Configuration.bounded`; its maker shuts it down.
    ///   - timeout: from looking up the name to the last byte of the body.
    package init(client: HTTPClient, userAgent: String, timeout: Duration, largestBody: Int) {
        self.client = client
        self.userAgent = userAgent
        self.timeout = timeout
        self.largestBody = largestBody
    }

    /// - Returns: an answer of any status from 200 to 599.
    package func send(_ request: TransportRequest) async throws(TransportFailure) -> TransportResponse {
        do {
            // A delegate, because the deadline of async-http-client's `async` interface ends with the head of the response. A body that
            // trickles in for ever would never meet it.
            let collector = ResponseCollector(largestBody: largestBody)
            let (asked, deadline) = (try httpRequest(request), NIODeadline.now() + TimeAmount(timeout))
            let exchange = client.execute(request: asked, delegate: collector, deadline: deadline)
            try await withTaskCancellationHandler(operation: exchange.get, onCancel: exchange.cancel)
            return collector.response
        } catch let excess as ResponseCollector.ExcessiveBody {
            return excess.response
        } catch {
            throw TransportFailure(error)
        }
    }

    private func httpRequest(_ request: TransportRequest) throws -> HTTPClient.Request {
        var http = try blank(request.body == nil ? .GET : .POST, request.url)
        http.headers.add(contentsOf: request.headers)
        if let bytes = request.body { http.body = body(ByteBuffer(bytes: bytes), if: request.mayBeSent) }
        return http
    }

    /// The connection exists before the body is asked for, and the head waits for the body. So a request that fails here never leaves.
    private func body(_ bytes: ByteBuffer, if mayBeSent: (@Sendable () -> Bool)?) -> HTTPClient.Body {
        guard let mayBeSent else { return .byteBuffer(bytes) }
        return .stream(contentLength: Int64(bytes.readableBytes)) { [client] writer in
            mayBeSent() ? writer.write(.byteBuffer(bytes)) : client.eventLoopGroup.any().makeFailedFuture(Withheld())
        }
    }

    /// A request without its own headers and its body. Parsing the URL costs more than the rest, and there are only a few URLs.
    private func blank(_ method: HTTPMethod, _ url: String) throws -> HTTPClient.Request {
        if let blank = blanks.withLockedValue({ $0[url] }), blank.method == method { return blank }
        guard let target = URL(string: url), target.canBeAsked else { throw HTTPClientError.invalidURL }
        var blank = try HTTPClient.Request(url: target, method: method)
        blank.headers.add(name: "user-agent", value: userAgent)
        blanks.withLockedValue { [blank] in $0[url] = blank }
        return blank
    }
}

struct Withheld: Error {}

extension URL {
    /// Whether a request can go there. async-http-client ends the process at a port over 65535, and Foundation reads one of twenty digits
    /// as none.
    package var canBeAsked: Bool {
        guard let scheme, ["http", "https"].contains(scheme.lowercased()), let host, !host.isEmpty else { return false }
        let port = absoluteString.firstMatch(of: /^[A-Za-z]+:\/\/[^\/?#]*:([0-9]+)(?:[\/?#]|$)/)?.1
        return port.map { UInt16($0) ?? 0 > 0 } ?? true
    }
}

extension HTTPClient.Configuration {
    /// Certificates fully verified, for the host's own name, TLS 1.2 or later, no redirect, no compression, and no hidden second try. Each
    /// request under way has its own connection, so that a fault hits only one request.
    package static var bounded: HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow, decompression: .disabled)
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        configuration.tlsConfiguration = tls
        configuration.httpVersion = .http1Only
        // siwatch does not use spans.
        configuration.tracing.tracer = nil
        // The callers bound the number of requests under way, and may change it. A request that waited here would use up its time-out.
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 100_000
        configuration.connectionPool.retryConnectionEstablishment = false
        // The name says debug, but it is the only way into the pipeline. It runs before the first request, on the event loop, for TLS and
        // plain connections.
        configuration.http1_1ConnectionDebugInitializer = { channel in
            channel.eventLoop.makeCompletedFuture {
                let pipeline = channel.pipeline.syncOperations
                let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
                var handlers: [any ChannelHandler] = [RequestAssembler(), AnswerGuard()]
                if let tls = try? pipeline.handler(type: NIOSSLClientHandler.self) { handlers.append(NameGuard(tls.peerCertificate)) }
                try pipeline.addHandlers(handlers, position: .after(decoder))
            }
        }
        return configuration
    }

    /// Trusts these authorities and no others. For a configuration with TLS, such as `bounded`.
    package mutating func trust(_ authorities: TrustedAuthorities) {
        tlsConfiguration!.trustRoots = .certificates(authorities.certificates)
    }
}

/// Root certificates that a server's certificate has to lead to, in place of those that the host trusts.
package struct TrustedAuthorities: Sendable, Equatable {
    fileprivate let certificates: [NIOSSLCertificate]

    /// - Throws: if there is none, or if one cannot be read. The error quotes nothing.
    package init(pem: String) throws {
        certificates = try NIOSSLCertificate.fromPEMBytes(Array(pem.utf8))
    }
}
