// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import AsyncHTTPClient
import BoundedHTTP
import CredentialSealing
import Foundation
import NIOHTTP1
import Webhooks

struct IntakeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "intake",
        abstract: "Tests the URL at which Apple posts notifications.",
        subcommands: [Test.self]
    )
}

extension IntakeCommand {
    struct Test: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Posts to the URL that is registered at Apple, as Apple would, and says what would keep its notifications away.",
            discussion: """
                Looks at the name, the certificate, redirects and the path, and whether a forgery is refused. Where the configuration and the \
                sealing key can be read, it also sees whether the request comes to a siwatch with that key. It tells of nobody and \
                changes nothing, but for a sample of the forgery in the quarantine. Run it on another host too: Apple comes from outside. Each line \
                begins with ok, warning or wrong. The exit code is 0 if all are ok, 1 for a warning, 2 if something is wrong.
                """
        )

        @OptionGroup var options: CommonOptions
        @Argument(help: "For example https://example.com/apple/notifications") var url: String

        private static let timeout = Duration.seconds(20)
        private static let largestAnswer = 65_536

        func run() async throws {
            guard let url = URL(string: url), url.canBeAsked, let scheme = url.scheme?.lowercased(), let host = url.host() else {
                throw CommandFailure.wrongUsage("\(url.printable) is no URL of HTTPS with a host, and a port up to 65535")
            }
            var findings = Self.ofName(host, scheme)
            if findings.allSatisfy({ $0.severity != .down }) { findings += await ofEndpoint(url) }
            try printOutput(findings.map(\.judged).joined(separator: "\n"))
            try findings.conclude()
        }

        private static func ofName(_ host: String, _ scheme: String) -> [Finding] {
            let addresses: [String]
            do {
                addresses = try HostAddress.addresses(of: host)
            } catch {
                return [Finding(.down, "\(host.printable): \(error)")]
            }
            let names = addresses.map(\.printable).joined(separator: ", ")
            var findings: [Finding] = []
            if let inner = addresses.first(where: HostAddress.isPrivate) {
                findings.append(Finding(.degraded, "\(host.printable) is \(inner.printable), which Apple cannot reach"))
            } else {
                findings.append(Finding(.note, "\(host.printable) is \(names)"))
            }
            if scheme == "http" { findings.append(Finding(.degraded, "Apple posts to https: URLs only")) }
            return findings
        }

        private func ofEndpoint(_ url: URL) async -> [Finding] {
            let client = HTTPClient(eventLoopGroupProvider: .shared(HTTPClient.defaultEventLoopGroup), configuration: .bounded)
            let transport = Self.transport(over: client)
            // Nobody's signature: the header names no algorithm.
            let findings: [Finding]
            switch await Self.post("{\"payload\":\"eyJhbGciOiJub25lIn0.e30.\"}", to: url, transport) {
            case .failure(let failure): findings = [Self.finding(of: failure, url)]
            case .success(let response):
                let verdict = Self.finding(ofForgery: response.status)
                findings = [verdict] + (verdict.severity == .down ? [] : [await ofProof(url, transport)])
            }
            try? await client.shutdown()
            return findings
        }

        static func transport(over client: HTTPClient) -> HTTPTransport {
            HTTPTransport(client: client, userAgent: "siwatch/\(Version.current)", timeout: timeout, largestBody: largestAnswer)
        }

        private static func post(
            _ body: String,
            to url: URL,
            _ transport: HTTPTransport
        ) async -> Result<TransportResponse, TransportFailure> {
            let request = TransportRequest(
                url: url.absoluteString,
                headers: ["content-type": "application/json"],
                body: Array(body.utf8)
            )
            do {
                return .success(try await transport.send(request))
            } catch {
                return .failure(error)
            }
        }

        private static func finding(of failure: TransportFailure, _ url: URL) -> Finding {
            let host = url.host() ?? ""
            return switch failure {
            case .tls:
                Finding(
                    .down,
                    "no TLS 1.2 connection with a valid certificate",
                    remedy: "openssl s_client -connect \(host):\(url.port ?? 443) -servername \(host) shows the chain"
                )
            case .refused: Finding(.down, "nobody listens at port \(url.port ?? (url.scheme == "http" ? 80 : 443))")
            default: Finding(.down, "no answer came: \(failure.rawValue)")
            }
        }

        /// - Parameter status: of the answer to a body that Apple did not sign.
        private static func finding(ofForgery status: Int) -> Finding {
            switch status {
            case 400, 401, 403: Finding(.note, "a forgery is refused with \(status); siwatch keeps it as a sample in the quarantine")
            case 200...299: Finding(.down, "a forgery is taken with \(status): the endpoint verifies nothing, or is another program's")
            case 300...399: Finding(.down, "it redirects with \(status)", remedy: "register the URL that it leads to")
            case 404, 405:
                Finding(.down, "nothing takes a POST at this path: \(status)", remedy: "let the proxy hand it to /apple/notifications")
            case 429: Finding(.degraded, "too many requests came for an answer: 429")
            case 502, 503, 504: Finding(.down, "the proxy does not reach siwatch, or siwatch its database: \(status)")
            default: Finding(.down, "the answer is \(status)")
            }
        }

        /// Whether the siwatch that is meant answers there.
        private func ofProof(_ url: URL, _ transport: HTTPTransport) async -> Finding {
            guard let configuration = try? options.readConfiguration(opensDatabase: false),
                let ring = try? configuration.readKeyRing()
            else {
                return Finding(.degraded, "whether it is your siwatch cannot be seen from here, without its configuration and sealing key")
            }
            return await Self.proof(IntakeTestKey(ring), at: url, transport)
        }

        /// Whether the siwatch with this key answers at a URL.
        static func proof(_ key: IntakeTestKey, at url: URL, _ transport: HTTPTransport) async -> Finding {
            let nonce = "\(UInt64.random(in: .min ... .max))"
            switch await post(key.question(nonce), to: url, transport) {
            case .failure(let failure): return finding(of: failure, url)
            case .success(let response) where response.status == 200 && response.body == Array(key.answer(nonce).utf8):
                return Finding(.note, "the siwatch with this sealing key answers there")
            case .success(let response):
                return Finding(
                    .down,
                    "the answer \(response.status) is none of the siwatch with this sealing key",
                    remedy: "compare the proxy's target with http.listen, and start the siwatch of this configuration"
                )
            }
        }
    }
}
