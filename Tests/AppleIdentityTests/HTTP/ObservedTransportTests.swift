// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import BoundedHTTP
import CredentialCore
import Hummingbird
import Logging
import NIOConcurrencyHelpers
import NIOCore
import ServiceLifecycle
import Testing

@testable import AppleIdentity

@Suite struct ObservedTransportTests {
    private struct Arrival: Equatable {
        var method: String
        var headers: [String?]
        var body: String
    }

    private let arrivals = NIOLockedValueBox<[Arrival]>([])
    private let observed = NIOLockedValueBox<[String]>([])

    /// Sends a request to a server that answers 400, and returns the answer.
    private func send(_ request: @escaping (_ base: String) -> AppleRequest) async throws -> Result<TransportResponse, TransportFailure> {
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let server = BoundedServer(
            host: "127.0.0.1",
            port: 0,
            limits: ConnectionLimits(request: .seconds(300), answer: .seconds(300)),
            logger: logger,
            onListening: { listening.yield($0) },
            respond: { [arrivals] request in
                let body = (try? await request.body.collect(upTo: 1024)).map { String(buffer: $0) } ?? ""
                let headers = [request.headers[.userAgent], request.headers[.accept], request.headers[.contentType]]
                arrivals.withLockedValue { $0.append(Arrival(method: request.method.rawValue, headers: headers, body: body)) }
                return Response(status: .badRequest, body: ResponseBody(byteBuffer: ByteBuffer(string: "{}")))
            }
        )
        let group = ServiceGroup(services: [server], logger: logger)
        return try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { listening.finish() }
                try await group.run()
            }
            let port = try #require(await ports.first { _ in true })
            let result = try await answer(to: request("http://127.0.0.1:\(port)"))
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
            return result
        }
    }

    private func answer(to request: AppleRequest) async throws -> Result<TransportResponse, TransportFailure> {
        try await HTTPClient.withHTTPClient(configuration: .bounded) { client in
            let transport = ObservedTransport(client: client, version: "1.2.3", timeout: .seconds(300)) { [observed] exchange in
                observed.withLockedValue { $0.append("\(exchange.endpoint.rawValue) \(exchange.status) \(exchange.date != nil)") }
            }
            do throws(TransportFailure) {
                return .success(try await transport.send(request))
            } catch {
                return .failure(error)
            }
        }
    }

    @Test func postsAForm() async throws {
        let response = try await send {
            AppleRequest(endpoint: .token, url: $0 + "/auth/token", form: ["a": Secret("1&2"), "b": Secret("")])
        }.get()
        #expect(response.status == 400)
        #expect(response.body == Array("{}".utf8))
        let headers = ["siwatch/1.2.3", "application/json", "application/x-www-form-urlencoded"]
        #expect(arrivals.withLockedValue { $0 } == [Arrival(method: "POST", headers: headers, body: "a=1%262&b=")])
        #expect(observed.withLockedValue { $0 } == ["token 400 true"])
    }

    @Test func getsWithoutAForm() async throws {
        _ = try await send { AppleRequest(endpoint: .keys, url: $0 + "/auth/keys") }
        #expect(arrivals.withLockedValue { $0 } == [Arrival(method: "GET", headers: ["siwatch/1.2.3", "application/json", nil], body: "")])
        #expect(observed.withLockedValue { $0 } == ["keys 400 true"])
    }

    @Test func reportsAFailure() async throws {
        let result = try await send {
            AppleRequest(endpoint: .revoke, url: $0 + "/auth/revoke", form: ["a": Secret("1")], mayBeSent: { false })
        }
        #expect(result == .failure(.withheld))
        #expect(arrivals.withLockedValue { $0 } == [])
        #expect(observed.withLockedValue { $0 } == ["revoke withheld false"])
    }
}

@Suite struct ExcerptTests {
    @Test(arguments: [
        ("The code has already been used.", "The code has already been used."),
        ("two\r\nlines\u{1b}[31m\u{202e}red\0", "two lines [31m red"), ("not issued to " + AppleFixture.user, "not issued to …"), ("", ""),
    ])
    func keepsWhatMayBeLogged(_ text: String, _ excerpt: String) {
        #expect(text.excerpt() == excerpt)
    }

    @Test func isBounded() {
        #expect(String(repeating: "words ", count: 10_000).excerpt(limit: 100).count == 100)
    }
}
