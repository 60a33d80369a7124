// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import CredentialCore
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL
import Testing

@testable import BoundedHTTP

/// The transport over real sockets, on loopback.
@Suite struct HTTPTransportTests {
    typealias Answer = Result<TransportResponse, TransportFailure>

    /// Long enough never to pass, except in the tests of time-outs.
    private static let patient = Duration.seconds(30)
    private static let largestBody = 65_536
    private static let hello = LoopbackServer.Manner.saysAndHolds("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    private func exchange(
        _ manner: LoopbackServer.Manner,
        scheme: String = "http",
        headers: HTTPHeaders = [:],
        body: String? = nil,
        mayBeSent: (@Sendable () -> Bool)? = nil,
        timeout: Duration = patient,
        tls: NIOSSLContext? = nil
    ) async throws -> (result: Answer, requests: [String]) {
        try await LoopbackServer.run(manner, tls: tls) { server in
            var configuration = HTTPClient.Configuration.bounded
            if tls != nil { configuration.tlsConfiguration?.certificateVerification = .none }
            let url = "\(scheme)://127.0.0.1:\(server.port)/auth/token"
            let request = TransportRequest(url: url, headers: headers, body: body.map { Array($0.utf8) }, mayBeSent: mayBeSent)
            return (try await send(request, by: configuration, timeout: timeout), server.requests)
        }
    }

    private func send(
        _ request: TransportRequest,
        by configuration: HTTPClient.Configuration = .bounded,
        timeout: Duration
    ) async throws -> Answer {
        let client = HTTPClient(configuration: configuration)
        let transport = HTTPTransport(client: client, userAgent: "siwatch/1.2.3", timeout: timeout, largestBody: Self.largestBody)
        let result: Answer
        do throws(TransportFailure) {
            result = .success(try await transport.send(request))
        } catch {
            result = .failure(error)
        }
        try await client.shutdown()
        return result
    }

    @Test(arguments: [nil, { true }] as [(@Sendable () -> Bool)?]) func postsABody(_ mayBeSent: (@Sendable () -> Bool)?) async throws {
        let answer = "HTTP/1.1 400 Bad Request\r\nretry-after: 7\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\n{}"
        let headers: HTTPHeaders = ["content-type": "text/plain", "x-signature": "s1"]
        let exchange = try await exchange(.says(answer), headers: headers, body: "a body", mayBeSent: mayBeSent)
        #expect(exchange.result == .success(TransportResponse(status: 400, body: Array("{}".utf8), retryAfter: "7")))
        let request = try #require(exchange.requests.first)
        #expect(request.hasPrefix("POST /auth/token HTTP/1.1\r\n"))
        #expect(request.contains("content-type: text/plain\r\nx-signature: s1\r\n"))
        #expect(request.contains("user-agent: siwatch/1.2.3\r\n"))
        #expect(request.lowercased().contains("content-length: 6\r\n"))
        #expect(request.hasSuffix("\r\n\r\na body"))
    }

    /// A process that was frozen while it connected, and has no time left, sends no request.
    @Test(arguments: ["http", "https"]) func notAByteIsSentThatMayNotBe(_ scheme: String) async throws {
        let tls = scheme == "https" ? try LoopbackCertificate.serverContext() : nil
        let answer = LoopbackServer.Manner.says("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        let exchange = try await exchange(answer, scheme: scheme, body: "a=1", mayBeSent: { false }, tls: tls)
        #expect(exchange.result == .failure(.withheld))
        #expect(exchange.requests == [])
    }

    /// An answer from a cache has the date of when it was made.
    @Test(arguments: [("", Timestamp(seconds: 784_111_777)), ("age: 0\r\n", nil), ("Age: 30\r\n", nil)])
    func believesNoDateOfACache(_ age: String, _ date: Timestamp?) async throws {
        let answer = "HTTP/1.1 200 OK\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\(age)content-length: 0\r\n\r\n"
        let exchange = try await exchange(.says(answer))
        #expect(try exchange.result.get().date == date)
    }

    @Test func followsNoRedirect() async throws {
        let exchange = try await exchange(.says("HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"))
        #expect(exchange.result == .success(TransportResponse(status: 302, body: [])))
        #expect(exchange.requests.count == 1)
    }

    @Test(arguments: ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"])
    func holdsTheDeadlineToTheLastByte(_ beginning: String) async throws {
        let exchange = try await exchange(.saysAndHolds(beginning), timeout: .milliseconds(100))
        #expect(exchange.result == .failure(.timeout))
    }

    /// A body is read up to its bound and not beyond, informational heads are passed over, and half an answer is none.
    @Test(
        .timeLimit(.minutes(5)),
        arguments: [
            (.floods, .success(TransportResponse(status: 200, body: nil))),
            (
                .says("HTTP/1.1 200 OK\r\ncontent-length: \(largestBody)\r\n\r\n" + String(repeating: " ", count: largestBody)),
                .success(TransportResponse(status: 200, body: [UInt8](repeating: 0x20, count: largestBody)))
            ),
            (
                .saysAndHolds(
                    String(repeating: "HTTP/1.1 103 Early Hints\r\nlink: </>\r\n\r\n", count: 10)
                        + "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
                ), .success(TransportResponse(status: 200, body: Array("{}".utf8)))
            ),
            (.hangsUp, .failure(.reset)), (.says("HTTP/1.1 200 OK\r\n"), .failure(.reset)),
            (.says("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"), .failure(.reset)),
            (.says("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"), .failure(.reset)),
            (.says("220 mail ready\r\n\r\n"), .failure(.other)),
        ] as [(LoopbackServer.Manner, Answer)]
    )
    func aWholeAnswerIsTakenAndNoOther(_ manner: LoopbackServer.Manner, _ result: Answer) async throws {
        #expect(try await exchange(manner).result == result)
    }

    /// Each of the first three would end the process if async-http-client saw it.
    @Test(
        arguments: [
            "HTTP/1.1 000 OK\r\n\r\n", "HTTP/1.1 020 OK\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 001 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 000 OK\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n", String(repeating: "HTTP/1.1 103 Early Hints\r\n\r\n", count: 11),
        ],
        ["http", "https"]
    )
    func refusesAHeadThatIsNoAnswer(_ bytes: String, _ scheme: String) async throws {
        let tls = scheme == "https" ? try LoopbackCertificate.serverContext() : nil
        let exchange = try await exchange(.saysAndHolds(bytes), scheme: scheme, body: "a=1", tls: tls)
        #expect(exchange.result == .failure(.other))
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n", "HTTP/1.1 200 OK\r\n: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: " + String(repeating: "x", count: 100_000),
    ])
    func refusesAnAnswerWithoutEndOrMeasure(_ bytes: String) async throws {
        #expect(try await exchange(.saysAndHolds(bytes)).result == .failure(.other))
    }

    @Test func tellsTLSFromTheRest() async throws {
        let exchange = try await exchange(.saysAndHolds("HTTP/1.1 400 Bad Request\r\n\r\n"), scheme: "https")
        #expect(exchange.result == .failure(.tls))
    }

    @Test(arguments: [true, false]) func sendsNothingToAServerWhoseCertificateIsNotTrusted(_ isTrusted: Bool) async throws {
        try await LoopbackServer.run(Self.hello, tls: try LoopbackCertificate.serverContext()) { server in
            var configuration = HTTPClient.Configuration.bounded
            if isTrusted { configuration.trust(try LoopbackCertificate.authorities()) }
            let request = TransportRequest(url: "https://127.0.0.1:\(server.port)/hook", headers: [:], body: Array("{}".utf8))
            let result = try await send(request, by: configuration, timeout: Self.patient)
            #expect(result == (isTrusted ? .success(TransportResponse(status: 200, body: Array("{}".utf8))) : .failure(.tls)))
            #expect(server.requests.count == (isTrusted ? 1 : 0))
        }
    }

    /// The certificate is valid for the address that the name leads to, which anybody can have who leads the name elsewhere.
    @Test func sendsNothingToAServerWhoseCertificateNamesOnlyItsAddress() async throws {
        try await LoopbackServer.run(Self.hello, tls: try LoopbackCertificate.serverContext()) { server in
            var configuration = HTTPClient.Configuration.bounded
            configuration.dnsOverride = ["appleid.apple.com": "127.0.0.1"]
            configuration.trust(try LoopbackCertificate.authorities())
            for body in [nil, Array("{}".utf8)] {
                let request = TransportRequest(url: "https://appleid.apple.com:\(server.port)/auth/keys", headers: [:], body: body)
                #expect(try await send(request, by: configuration, timeout: Self.patient) == .failure(.tls))
            }
            #expect(server.requests.isEmpty)
        }
    }

    @Test(arguments: [
        "", "\n", "a word", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n",
    ])
    func trustsNothingWithoutACertificate(_ pem: String) {
        #expect(throws: (any Error).self) { try TrustedAuthorities(pem: pem) }
    }

    @Test func tellsAClosedPort() async throws {
        let closed = RefusingPort()
        let result = try await send(TransportRequest(url: "http://127.0.0.1:\(closed.port)/", headers: [:]), timeout: Self.patient)
        withExtendedLifetime(closed) {}
        #expect(result == .failure(.refused))
    }

    /// NIO ends the process at a port that does not fit into sixteen bits.
    @Test(arguments: ["65536", "99999999999999999999", "0"]) func asksNoPortThatNoServerHas(_ port: String) async throws {
        let result = try await send(TransportRequest(url: "http://127.0.0.1:\(port)/", headers: [:]), timeout: Self.patient)
        #expect(result == .failure(.other))
    }

    @Test func tellsANameThatDoesNotExist() async throws {
        // Longer than a part of a name may be, so that no DNS server gets the query.
        let name = String(repeating: "x", count: 64)
        #expect(try await send(TransportRequest(url: "http://\(name).invalid/", headers: [:]), timeout: Self.patient) == .failure(.dns))
    }

    @Test func endsWhenItsTaskIsCancelled() async throws {
        try await LoopbackServer.run(.saysAndHolds("")) { server in
            let request = TransportRequest(url: "http://127.0.0.1:\(server.port)/", headers: [:])
            let result = try await withThrowingTaskGroup { group in
                group.addTask { try await send(request, timeout: Self.patient) }
                group.cancelAll()
                return try await group.next()!
            }
            #expect(result == .failure(.other))
        }
    }

    @Test(arguments: [
        (HTTPClientError.connectTimeout as any Error, TransportFailure.timeout), (HTTPClientError.tlsHandshakeTimeout, .timeout),
        (HTTPClientError.deadlineExceeded, .timeout),
        (HTTPClientError.remoteConnectionClosed, .reset), (HTTPClientError.invalidURL, .other), (ChannelError.eof, .reset),
        (IOError(errnoCode: 104, reason: "read"), .reset), (IOError(errnoCode: 110, reason: "connect"), .timeout),
        (IOError(errnoCode: EMFILE, reason: "socket"), .descriptors), (IOError(errnoCode: ENFILE, reason: "socket"), .descriptors),
        (NIOSSLError.handshakeFailed(.sslError([])), .tls), (NIOSSLError.uncleanShutdown, .reset),
        (NIOSSLExtraError.failedToValidateHostname, .tls), (Withheld(), .withheld),
        (SocketAddressError.unsupported, .dns), (CancellationError(), .other),
    ])
    func namesErrors(_ error: any Error, _ failure: TransportFailure) {
        #expect(TransportFailure(error) == failure)
    }
}

@Suite struct FormBodyTests {
    @Test func encodesFieldsInTheirOrder() {
        let form: FormBody = ["a": Secret("1&2"), "b": Secret(""), "c": Secret("é -")]
        #expect(String(decoding: form.encoded, as: UTF8.self) == "a=1%262&b=&c=%C3%A9%20-")
    }
}
