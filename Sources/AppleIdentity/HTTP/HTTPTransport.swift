// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AsyncHTTPClient
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOSSL

/// Speaks HTTP with Apple by async-http-client.
package struct HTTPTransport: AppleTransport {
    private let client: HTTPClient
    private let userAgent: String
    private let timeout: Duration
    private let observe: AppleObserver
    private let blanks = NIOLockedValueBox<[String: HTTPClient.Request]>([:])

    /// - Parameters:
    ///   - client: one configured by `HTTPClient.Configuration.apple`; whoever made it shuts it down.
    ///   - version: ours, for `User-Agent: siwatch/<version>`. Some find that Apple turns away requests without one.
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

    /// A number, or a word: always one of a closed list.
    private static func word(for result: Result<AppleResponse, TransportFailure>) -> String {
        switch result {
        // The guard lets no other pass than those of three digits from 200 to 599.
        case .success(let response): String(response.status)
        case .failure(let failure): failure.rawValue
        }
    }

    /// By a delegate: the deadline of async-http-client's own `async` interface ends with the head of the response, so that a body that
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

    /// A connection is made, or waited for, before the body is asked for, and the head waits for the body: what fails here never leaves.
    private func body(_ bytes: ByteBuffer, if mayBeSent: (@Sendable () -> Bool)?) -> HTTPClient.Body {
        guard let mayBeSent else { return .byteBuffer(bytes) }
        return .stream(contentLength: Int64(bytes.readableBytes)) { [client] writer in
            mayBeSent() ? writer.write(.byteBuffer(bytes)) : client.eventLoopGroup.any().makeFailedFuture(Withheld())
        }
    }

    /// A request without its body. To take a URL apart costs more than the rest, and there are but a few.
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

/// A request that was not to be sent any more.
struct Withheld: Error {}

extension HTTPClient.Configuration {
    /// How we speak with Apple: certificates fully verified, TLS 1.2 or later, no redirect followed, no compression, one connection
    /// for each request under way so that a fault strikes one alone, and no second try behind our back.
    package static var apple: HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow, decompression: .disabled)
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        configuration.tlsConfiguration = tls
        configuration.httpVersion = .http1Only
        // Nobody looks at spans.
        configuration.tracing.tracer = nil
        // The permits bound it, and they may change: a request that waited here would wait against its time-out.
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 100_000
        configuration.connectionPool.retryConnectionEstablishment = false
        // Called a debugging hook, but the only way into the pipeline. It runs before the first request, on the event loop, and for
        // TLS and plain connections alike.
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
