// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTesting
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// Apple's endpoints with garbled answers: first some odd answers, then mutations of them, byte by byte, made from a seed.
final class GarblingApple: Sendable {
    private struct State {
        var generator: SeededGenerator
        var said: [[UInt8]] = []
        var isSound = false

        mutating func next() -> [UInt8] {
            if isSound {
                said.append(sound)
            } else if said.count < answers.count {
                // Each odd answer unchanged, once.
                said.append(answers[said.count])
            } else {
                said.append(garbled(using: &generator))
            }
            return said[said.count - 1]
        }
    }

    private let state: NIOLockedValueBox<State>
    private let channel: any Channel

    /// It goes on until the process ends, as the simulator does.
    init(seed: UInt64) async throws {
        let state = NIOLockedValueBox(State(generator: SeededGenerator(seed: seed)))
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Handler(state)) }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        self.state = state
    }

    var url: String { "http://127.0.0.1:\(channel.localAddress!.port!)" }
    var count: Int { state.withLockedValue { $0.said.count } }
    /// The last answers, for the report of a failing test.
    var lastAnswers: [String] { state.withLockedValue { $0.said.suffix(100).map { String(decoding: $0, as: UTF8.self) } } }

    /// From now on it accepts every token.
    func comeToItsSenses() { state.withLockedValue { $0.isSound = true } }

    // MARK: Answers

    private static func text(_ head: String, _ body: String, length: String = "Content-Length: ") -> [UInt8] {
        Array("HTTP/1.1 \(head)\r\n\(length)\(body.utf8.count)\r\n\r\n\(body)".utf8)
    }

    private static let sound = text("200 OK", #"{"access_token":"a","token_type":"Bearer","expires_in":3600}"#)

    private static let answers = [
        sound,
        text("400 Bad Request", #"{"error":"invalid_grant","error_description":"The token has expired or has been revoked."}"#),
        text("400 Bad Request", #"{"error":"invalid_request","error_description":"\ud83d\ude00"}"#),
        text(
            "200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: application/json;charset=ISO-8859-1",
            #"{"access_token":"a","id_token":"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIwMDEifQ.c2ln","expires_in":1e3}"#
        ),
        text("200 OK", #"{"keys":[{"kty":"RSA","kid":"T8tIJ1zSrO","use":"sig","alg":"RS256","n":"\#(modulus)","e":"AQAB"}]}"#),
        text("503 Service Unavailable\r\nConnection: close", "<html><body>Service Unavailable</body></html>"),
        text("302 Found\r\nLocation: http://127.0.0.1:1/", ""),
        text("000 OK", "abc"), text("020 OK", "abc"), text("099 OK", ""), Array("HTTP/1.1 000 OK\r\n\r\n".utf8),
        text("100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\nHTTP/1.1 200 OK", #"{"access_token":"a"}"#),
        text("101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        text("204 No Content", "abc"), text("304 Not Modified", "abc"),
        Array(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: a\r\n\r\n14;x=\"y\"\r\n{\"access_token\":\"a\"}\r\n0\r\na: b\r\n\r\n"
                .utf8
        ),
        Array("HTTP/1.0 200 OK\r\n\r\n{\"access_token\":\"a\"}".utf8),
        sound + sound,
    ]

    private static let modulus = "0" + String(repeating: "a7Xq", count: 85) + "Q"

    /// Pieces with a meaning to one parser or another.
    private static let pieces = [
        "\r\n", "\r\n\r\n", "\n", "\r", " ", ":", ";", ",", "\0", "\u{7f}", "HTTP/1.1 000 \r\n\r\n", "HTTP/1.1 199 \r\n\r\n", "HTTP/2.0",
        "Content-Length: 0\r\n", "Content-Length: -1\r\n", "Content-Length: 18446744073709551616\r\n", "Transfer-Encoding: chunked\r\n",
        "Connection: close\r\n", "Connection: upgrade\r\nUpgrade: x\r\n", "Date: Sun Nov  6 08:49:37 9999\r\n", "0\r\n\r\n",
        "ffffffffffffffff\r\n",
        "\"", "\\u", "\\ud800", "{", "}", "[[[[[[[[", "]", "null", "1e999", "-", "\u{feff}", "é",
    ].map { Array($0.utf8) }

    /// One to four changes. No answer is a valid 429, because it would hold up the test by asking siwatch to wait.
    private static func garbled(using generator: inout SeededGenerator) -> [UInt8] {
        while true {
            var bytes = answers.randomElement(using: &generator)!
            for _ in 0..<Int.random(in: 1...4, using: &generator) where !bytes.isEmpty { change(&bytes, using: &generator) }
            if !bytes.starts(with: "HTTP/1.1 429".utf8) { return bytes }
        }
    }

    private static func change(_ bytes: inout [UInt8], using generator: inout SeededGenerator) {
        // Half of all changes strike the head, which is shorter.
        let place = Int.random(in: 0..<(Bool.random(using: &generator) ? min(bytes.count, 40) : bytes.count), using: &generator)
        switch Int.random(in: 0..<9, using: &generator) {
        case 0: bytes[place] = UInt8.random(in: 0...255, using: &generator)
        case 1: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
        case 2: bytes.remove(at: place)
        case 3: bytes.insert(contentsOf: pieces.randomElement(using: &generator)!, at: place)
        case 4: bytes.insert(contentsOf: bytes[place..<min(place + 12, bytes.count)], at: place)
        case 5: bytes.removeSubrange(place..<min(place + 12, bytes.count))
        case 6: bytes.removeSubrange(place...)
        case 7: bytes.append(contentsOf: answers.randomElement(using: &generator)!)
        default:
            // A status, a length, a size of a chunk.
            let digits = bytes.indices.filter { (0x30...0x39).contains(bytes[$0]) }
            if let digit = digits.prefix(8).randomElement(using: &generator) {
                bytes[digit] = UInt8.random(in: 0x30...0x39, using: &generator)
            }
        }
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let state: NIOLockedValueBox<State>
        private var request = ""

        init(_ state: NIOLockedValueBox<State>) { self.state = state }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            request += String(buffer: unwrapInboundIn(data))
            guard isComplete else { return }
            request = ""
            let (answer, cut, closes) = state.withLockedValue { state in
                let answer = state.next()
                // Some connections stay open, for the client to wait or to ask again. Some answers come in two pieces.
                let cut = Int.random(in: 0...answer.count, using: &state.generator)
                return (answer, cut, !state.isSound && Int.random(in: 0..<16, using: &state.generator) > 0)
            }
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: answer[..<cut])), promise: nil)
            context.eventLoop.assumeIsolated().execute {
                context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(bytes: answer[cut...])), promise: nil)
                if closes { context.close(promise: nil) }
            }
        }

        private var isComplete: Bool {
            guard let head = request.firstRange(of: "\r\n\r\n") else { return false }
            let length = request.lowercased().firstMatch(of: #/content-length: (\d+)/#).flatMap { Int($0.1) } ?? 0
            return request[head.upperBound...].utf8.count >= length
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
