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
            var symptoms = Self.ofName(host, scheme)
            if symptoms.allSatisfy({ $0.verdict != .wrong }) { symptoms += await ofEndpoint(url) }
            try Symptom.conclude(symptoms)
        }

        private static func ofName(_ host: String, _ scheme: String) -> [Symptom] {
            let addresses: [String]
            do {
                addresses = try HostAddress.addresses(of: host)
            } catch {
                return [Symptom(.wrong, "\(host.printable): \(error)")]
            }
            let names = addresses.map(\.printable).joined(separator: ", ")
            var symptoms: [Symptom] = []
            if let inner = addresses.first(where: HostAddress.isPrivate) {
                symptoms.append(Symptom(.warning, "\(host.printable) is \(inner.printable), which Apple cannot reach"))
            } else {
                symptoms.append(Symptom(.ok, "\(host.printable) is \(names)"))
            }
            if scheme == "http" { symptoms.append(Symptom(.warning, "Apple posts to https: URLs only")) }
            return symptoms
        }

        private func ofEndpoint(_ url: URL) async -> [Symptom] {
            let client = HTTPClient(eventLoopGroupProvider: .shared(HTTPClient.defaultEventLoopGroup), configuration: .bounded)
            let transport = Self.transport(over: client)
            // Nobody's signature: the header names no algorithm.
            let symptoms: [Symptom]
            switch await Self.post("{\"payload\":\"eyJhbGciOiJub25lIn0.e30.\"}", to: url, transport) {
            case .failure(let failure): symptoms = [Self.symptom(of: failure, url)]
            case .success(let response):
                let verdict = Self.symptom(ofForgery: response.status)
                symptoms = [verdict] + (verdict.verdict == .wrong ? [] : [await ofProof(url, transport)])
            }
            try? await client.shutdown()
            return symptoms
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

        private static func symptom(of failure: TransportFailure, _ url: URL) -> Symptom {
            let host = url.host() ?? ""
            return switch failure {
            case .tls:
                Symptom(
                    .wrong,
                    "no TLS 1.2 connection with a valid certificate",
                    "openssl s_client -connect \(host):\(url.port ?? 443) -servername \(host) shows the chain"
                )
            case .refused: Symptom(.wrong, "nobody listens at port \(url.port ?? (url.scheme == "http" ? 80 : 443))")
            default: Symptom(.wrong, "no answer came: \(failure.rawValue)")
            }
        }

        /// - Parameter status: of the answer to a body that Apple did not sign.
        private static func symptom(ofForgery status: Int) -> Symptom {
            switch status {
            case 400, 401, 403: Symptom(.ok, "a forgery is refused with \(status); siwatch keeps it as a sample in the quarantine")
            case 200...299: Symptom(.wrong, "a forgery is taken with \(status): the endpoint verifies nothing, or is another program's")
            case 300...399: Symptom(.wrong, "it redirects with \(status)", "register the URL that it leads to")
            case 404, 405: Symptom(.wrong, "nothing takes a POST at this path: \(status)", "let the proxy hand it to /apple/notifications")
            case 429: Symptom(.warning, "too many requests came for an answer: 429")
            case 502, 503, 504: Symptom(.wrong, "the proxy does not reach siwatch, or siwatch its database: \(status)")
            default: Symptom(.wrong, "the answer is \(status)")
            }
        }

        /// Whether the siwatch that is meant answers there.
        private func ofProof(_ url: URL, _ transport: HTTPTransport) async -> Symptom {
            guard let configuration = try? options.readConfiguration(opensDatabase: false),
                let ring = try? configuration.readKeyRing()
            else {
                return Symptom(.warning, "whether it is your siwatch cannot be seen from here, without its configuration and sealing key")
            }
            return await Self.proof(IntakeTestKey(ring), at: url, transport)
        }

        /// Whether the siwatch with this key answers at a URL.
        static func proof(_ key: IntakeTestKey, at url: URL, _ transport: HTTPTransport) async -> Symptom {
            let nonce = "\(UInt64.random(in: .min ... .max))"
            switch await post(key.question(nonce), to: url, transport) {
            case .failure(let failure): return symptom(of: failure, url)
            case .success(let response) where response.status == 200 && response.body == Array(key.answer(nonce).utf8):
                return Symptom(.ok, "the siwatch with this sealing key answers there")
            case .success(let response):
                return Symptom(
                    .wrong,
                    "the answer \(response.status) is none of the siwatch with this sealing key",
                    "compare the proxy's target with http.listen, and start the siwatch of this configuration"
                )
            }
        }
    }
}
