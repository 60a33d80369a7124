// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AsyncHTTPClient
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOSSL

/// Speaks HTTP with Apple through async-http-client.
package struct HTTPTransport: AppleTransport {
    private let client: HTTPClient
    private let userAgent: String
    private let timeout: Duration
    private let observe: AppleObserver
    private let blanks = NIOLockedValueBox<[String: HTTPClient.Request]>([:])

    /// - Parameters:
    ///   - client: a client with `HTTPClient.Configuration.apple`; its maker shuts it down.
    ///   - version: our version, for `User-Agent: siwatch/<version>`. Apple is said to turn away requests without a user agent.
    ///   - timeout: for the whole exchange, from looking up the name to the last byte of the body.
    package init(client: HTTPClient, version: String, timeout: Duration, observe: @escaping AppleObserver) {
        self.client = client
        self.userAgent = "siwatch/\(version)"
        self.timeout = timeout
        self.observe = observe
    }

    package func send(_ request: AppleRequest) async throws(TransportFailure) -> AppleResponse {
        let result = await exchange(request)
        observe(
            AppleObservation(
                endpoint: request.endpoint,
                status: Self.word(for: result),
                date: (try? result.get())?.date
            )
        )
        return try result.get()
    }

    /// A number or a word, always from a closed list.
    private static func word(for result: Result<AppleResponse, TransportFailure>) -> String {
        switch result {
        // The guard passes only statuses from 200 to 599, all of three digits.
        case .success(let response): String(response.status)
        case .failure(let failure): failure.rawValue
        }
    }

    /// Uses a delegate, because the deadline of async-http-client's `async` interface ends with the head of the response. A body that
    /// trickles in for ever would never meet it.
    private func exchange(_ request: AppleRequest) async -> Result<AppleResponse, TransportFailure> {
        do {
            let collector = ResponseCollector()
            let exchange = client.execute(
                request: try httpRequest(request),
                delegate: collector,
                deadline: .now() + TimeAmount(timeout)
            )
            try await withTaskCancellationHandler(operation: exchange.get, onCancel: exchange.cancel)
            return .success(collector.response)
        } catch let excess as ResponseCollector.ExcessiveBody {
            return .success(excess.response)
        } catch {
            return .failure(TransportFailure(error))
        }
    }

    private func httpRequest(_ request: AppleRequest) throws -> HTTPClient.Request {
        var http = try blank(request.form == nil ? .GET : .POST, request.url)
        if let form = request.form { http.body = body(ByteBuffer(bytes: form.encoded), if: request.mayBeSent) }
        return http
    }

    /// The connection exists before the body is asked for, and the head waits for the body. So a request that fails here never leaves.
    private func body(_ bytes: ByteBuffer, if mayBeSent: (@Sendable () -> Bool)?) -> HTTPClient.Body {
        guard let mayBeSent else { return .byteBuffer(bytes) }
        return .stream(contentLength: Int64(bytes.readableBytes)) { [client] writer in
            mayBeSent() ? writer.write(.byteBuffer(bytes)) : client.eventLoopGroup.any().makeFailedFuture(Withheld())
        }
    }

    /// A request without its body. Parsing the URL costs more than the rest, and there are only a few URLs.
    private func blank(_ method: HTTPMethod, _ url: String) throws -> HTTPClient.Request {
        if let blank = blanks.withLockedValue({ $0[url] }), blank.method == method { return blank }
        var blank = try HTTPClient.Request(url: url, method: method)
        blank.headers.add(name: "user-agent", value: userAgent)
        blank.headers.add(name: "accept", value: "application/json")
        if method == .POST { blank.headers.add(name: "content-type", value: "application/x-www-form-urlencoded") }
        blanks.withLockedValue { [blank] in $0[url] = blank }
        return blank
    }
}

struct Withheld: Error {}

extension HTTPClient.Configuration {
    /// The settings for Apple: certificates fully verified, TLS 1.2 or later, no redirect, no compression, and no hidden second try. Each
    /// request under way has its own connection, so that a fault hits only one request.
    package static var apple: HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow, decompression: .disabled)
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        configuration.tlsConfiguration = tls
        configuration.httpVersion = .http1Only
        // siwatch does not use spans.
        configuration.tracing.tracer = nil
        // The permits bound the number of connections, and they may change. A request that waited here would use up its time-out.
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 100_000
        configuration.connectionPool.retryConnectionEstablishment = false
        // The name says debug, but it is the only way into the pipeline. It runs before the first request, on the event loop, for TLS and
        // plain connections.
        configuration.http1_1ConnectionDebugInitializer = { channel in
            channel.eventLoop.makeCompletedFuture {
                let pipeline = channel.pipeline.syncOperations
                let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
                try pipeline.addHandlers(RequestAssembler(), AnswerGuard(), position: .after(decoder))
            }
        }
        return configuration
    }
}
