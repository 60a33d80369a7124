// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOSSL

/// Speaks HTTP with Apple by async-http-client.
package struct HTTPTransport: AppleTransport {
    private let client: HTTPClient
    private let userAgent: String
    private let timeout: Duration
    private let observe: AppleObserver

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
        let result = await race(request)
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

    /// Runs the exchange against the deadline. The deadline of async-http-client ends with the head of the response, so a body that
    /// trickles in for ever would never meet it.
    private func race(_ request: AppleRequest) async -> Result<AppleResponse, TransportFailure> {
        await withTaskGroup(of: Result<AppleResponse, TransportFailure>?.self) { group in
            group.addTask { await exchange(request) }
            group.addTask {
                do { try await Task.sleep(for: timeout) } catch { return nil }
                return .failure(.timeout)
            }
            defer { group.cancelAll() }
            for await result in group {
                if let result { return result }
            }
            return .failure(.other)
        }
    }

    private func exchange(_ request: AppleRequest) async -> Result<AppleResponse, TransportFailure> {
        do {
            let response = try await client.execute(httpRequest(request), deadline: .distantFuture)
            return .success(
                AppleResponse(
                    status: Int(response.status.code),
                    body: try await Self.bytes(of: response.body),
                    retryAfter: response.headers.first(name: "retry-after"),
                    date: response.headers.first(name: "date").flatMap(HTTPDate.parse)
                )
            )
        } catch {
            return .failure(TransportFailure(error))
        }
    }

    private func httpRequest(_ request: AppleRequest) -> HTTPClientRequest {
        var http = HTTPClientRequest(url: request.url)
        http.headers.add(name: "user-agent", value: userAgent)
        http.headers.add(name: "accept", value: "application/json")
        if let form = request.form {
            http.method = .POST
            http.headers.add(name: "content-type", value: "application/x-www-form-urlencoded")
            http.body = .bytes(ByteBuffer(bytes: form.encoded))
        }
        return http
    }

    /// The whole body; nil once it proves larger than we read, which closes the connection.
    private static func bytes(of body: HTTPClientResponse.Body) async throws -> [UInt8]? {
        var bytes: [UInt8] = []
        for try await chunk in body {
            guard bytes.count + chunk.readableBytes <= AppleResponse.largestBody else { return nil }
            bytes += chunk.readableBytesView
        }
        // A cancelled body ends as if it were complete.
        try Task.checkCancellation()
        return bytes
    }
}

extension HTTPClient.Configuration {
    /// How we speak with Apple: certificates fully verified, TLS 1.2 or later, no redirect followed, no compression, one connection
    /// for each request under way so that a fault strikes one alone, and no second try behind our back.
    package static var apple: HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow, decompression: .disabled)
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        configuration.tlsConfiguration = tls
        configuration.httpVersion = .http1Only
        // The permits bound it, and they may change: a request that waited here would wait against its time-out.
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 100_000
        configuration.connectionPool.retryConnectionEstablishment = false
        // Called a debugging hook, but the only way into the pipeline. It runs before the first request, on the event loop, and for
        // TLS and plain connections alike.
        configuration.http1_1ConnectionDebugInitializer = { channel in
            channel.eventLoop.makeCompletedFuture {
                let pipeline = channel.pipeline.syncOperations
                let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
                try pipeline.addHandler(AnswerGuard(), position: .after(decoder))
            }
        }
        return configuration
    }
}
