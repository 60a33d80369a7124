// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import Foundation
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// A server that gives every request the same treatment, down to the bytes.
final class LoopbackServer: Sendable {
    enum Manner: Sendable {
        /// Sends these bytes and closes.
        case says(String)
        /// Sends these bytes and leaves the connection open.
        case saysAndHolds(String)
        /// Sends a head that promises 10 MiB, and then all of them.
        case floods
        /// Closes without an answer.
        case hangsUp
    }

    private let channel: any Channel
    private let received: NIOLockedValueBox<[String]>

    static func run<Result>(
        _ manner: Manner,
        tls: NIOSSLContext? = nil,
        _ body: (LoopbackServer) async throws -> Result
    ) async throws -> Result {
        let server = try await LoopbackServer(manner, tls)
        do {
            let result = try await body(server)
            try await server.channel.close()
            return result
        } catch {
            try? await server.channel.close()
            throw error
        }
    }

    private init(_ manner: Manner, _ tls: NIOSSLContext?) async throws {
        let received = NIOLockedValueBox<[String]>([])
        self.received = received
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
                    try channel.pipeline.syncOperations.addHandler(Handler(manner, received))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
    }

    var port: Int { channel.localAddress!.port! }
    var requests: [String] { received.withLockedValue { $0 } }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let manner: Manner
        private let received: NIOLockedValueBox<[String]>
        private var text = ""

        init(_ manner: Manner, _ received: NIOLockedValueBox<[String]>) { (self.manner, self.received) = (manner, received) }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            text += String(buffer: unwrapInboundIn(data))
            // A TLS greeting is no request, but gets the same answer.
            guard !text.hasPrefix("GET") && !text.hasPrefix("POST") || isComplete else { return }
            received.withLockedValue { $0.append(text) }
            text = ""
            answer(context)
        }

        private var isComplete: Bool {
            guard let head = text.firstRange(of: "\r\n\r\n") else { return false }
            let length = text.lowercased().firstMatch(of: #/content-length: (\d+)/#).flatMap { Int($0.1) } ?? 0
            return text[head.upperBound...].utf8.count >= length
        }

        private func answer(_ context: ChannelHandlerContext) {
            switch manner {
            case .says(let text):
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
                context.close(promise: nil)
            case .saysAndHolds(let text):
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
            case .floods:
                let head = "HTTP/1.1 200 OK\r\ncontent-length: 10485760\r\n\r\n"
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: head)), promise: nil)
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(repeating: 0x20, count: 10_485_760)), promise: nil)
            case .hangsUp:
                context.close(promise: nil)
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}

/// An untrusted certificate, and its key, which is no secret.
enum LoopbackCertificate {
    static func serverContext() throws -> NIOSSLContext {
        let certificate = try NIOSSLCertificate(bytes: Array(certificate.utf8), format: .pem)
        let key = try NIOSSLPrivateKey(bytes: Array(key.utf8), format: .pem)
        return try NIOSSLContext(
            configuration: .makeServerConfiguration(certificateChain: [.certificate(certificate)], privateKey: .privateKey(key))
        )
    }

    /// For a client that is to trust it.
    static func authorities() throws -> TrustedAuthorities { try TrustedAuthorities(pem: certificate) }

    private static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg8QECG8oQMRuUJWuw
        oJHu7OsI3QJs1aFLIY7behswF++hRANCAARSsoo3xXD9VsbvklbvfAKiFxNeJAU1
        jAR02Eb0IUAQTY8UnDBI/Lc9Qi5FuP2AHQV7Sc3IMQ2+C2+lL4YRIbU5
        -----END PRIVATE KEY-----
        """

    private static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBjzCCATagAwIBAgIUY6B/lLhXW8waXxBSYQU5xWsNGoQwCgYIKoZIzj0EAwIw
        FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTEyMjA1NDA1NloYDzIxMjYxMDI5
        MDU0MDU2WjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO
        PQMBBwNCAARSsoo3xXD9VsbvklbvfAKiFxNeJAU1jAR02Eb0IUAQTY8UnDBI/Lc9
        Qi5FuP2AHQV7Sc3IMQ2+C2+lL4YRIbU5o2QwYjAdBgNVHQ4EFgQUCGa4X1LCPyRm
        wbvbLZSYeTkP1jEwHwYDVR0jBBgwFoAUCGa4X1LCPyRmwbvbLZSYeTkP1jEwDwYD
        VR0TAQH/BAUwAwEB/zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0cAMEQC
        IA3wo0XPiL6IQ3CYUd88xEfaWA0Flg/AxTCpYw5X9185AiBpXZaVYhweXAGK0H41
        iIumKIRuqZGz0tG2WplKw3fmZg==
        -----END CERTIFICATE-----
        """
}

/// A port of this machine that refuses every connection. It is bound, so that no other process gets it, and no socket listens there.
final class RefusingPort {
    let port: UInt16
    private let descriptor: Int32

    init() {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let any = try! SocketAddress(ipAddress: "127.0.0.1", port: 0)
        // A family and a port of two bytes each begin the address.
        var address = [UInt8](repeating: 0, count: 16)
        var length = socklen_t(address.count)
        let result = address.withUnsafeMutableBytes { bytes in
            any.withSockAddr { bind(descriptor, $0, socklen_t($1)) } == 0
                ? getsockname(descriptor, bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), &length) : -1
        }
        precondition(result == 0, "no port: \(errno)")
        self.descriptor = descriptor
        port = UInt16(address[2]) << 8 | UInt16(address[3])
    }

    deinit { close(descriptor) }
}
