// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import BoundedHTTP
import CredentialCore
import CredentialMonitor
import CredentialSealing
import Foundation
import NIOConcurrencyHelpers
import NIOHTTP1

/// What would keep Apple's notifications away from the URL that is registered at Apple.
///
/// It posts there as Apple would. It looks at the name, the certificate, redirects and the path, and whether a forgery is refused. Where the
/// configuration, the sealing key and the database can be read, it also sees whether the request comes to a siwatch on that database. It
/// tells of nobody.
struct IntakeTest {
    let options: CommonOptions

    func findings(at text: String) async throws(CommandFailure) -> [Finding] {
        guard let url = URL(string: text), url.canBeAsked, let scheme = url.scheme?.lowercased(), let host = url.host() else {
            throw .wrongUsage("\(text.printable) is no URL of HTTPS with a host, and a port up to 65535")
        }
        let findings = Self.ofName(host, scheme)
        return findings.worst < .down ? findings + (await ofEndpoint(url)) : findings
    }

    private static func ofName(_ host: String, _ scheme: String) -> [Finding] {
        let addresses: [String]
        do {
            addresses = try HostAddress.addresses(of: host)
        } catch {
            return [Finding(.down, "\(host.printable): \(error)")]
        }
        var findings: [Finding] = []
        if let inner = addresses.first(where: HostAddress.isPrivate) {
            findings.append(Finding(.degraded, "\(host.printable) is \(inner.printable), which Apple cannot reach"))
        } else {
            findings.append(Finding(.note, "\(host.printable) is \(addresses.map(\.printable).joined(separator: ", "))"))
        }
        if scheme == "http" { findings.append(Finding(.degraded, "Apple posts to https: URLs only")) }
        return findings
    }

    private func ofEndpoint(_ url: URL) async -> [Finding] {
        let client = HTTPClient(eventLoopGroupProvider: .shared(HTTPClient.defaultEventLoopGroup), configuration: .bounded)
        let transport = HTTPTransport(toAnybodyBy: client)
        // Nobody's signature: the header names no algorithm.
        let findings: [Finding]
        do throws(TransportFailure) {
            let answer = try await Self.post("{\"payload\":\"eyJhbGciOiJub25lIn0.e30.\"}", to: url, transport)
            let verdict = Self.finding(ofForgery: answer.status)
            findings = [verdict] + (verdict.severity == .down ? [] : [await ofProof(url, transport)])
        } catch {
            findings = [Self.finding(of: error, url)]
        }
        try? await client.shutdown()
        return findings
    }

    private static func post(_ body: String, to url: URL, _ transport: HTTPTransport) async throws(TransportFailure) -> TransportResponse {
        let headers: HTTPHeaders = ["content-type": "application/json"]
        return try await transport.send(TransportRequest(url: url.absoluteString, headers: headers, body: Array(body.utf8)))
    }

    private static func finding(of failure: TransportFailure, _ url: URL) -> Finding {
        let host = url.host() ?? ""
        return switch failure {
        case .tls: Finding(.down, failure.words, remedy: failure.remedy(at: host, url.port))
        case .refused: Finding(.down, "nobody listens at port \(url.port ?? (url.scheme == "http" ? 80 : 443))")
        default: Finding(.down, "no answer came: \(failure.words)")
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
        guard let configuration = try? options.readConfiguration(),
            let key = try? await configuration.withStore({ try configuration.sealer(of: $0).intakeTest })
        else {
            let sentence = "whether it is your siwatch cannot be seen from here, without its configuration, sealing key and database"
            return Finding(.degraded, sentence)
        }
        return await Self.proof(key, at: url, transport)
    }

    /// Whether the siwatch on this key's database answers at a URL.
    static func proof(_ key: IntakeTestKey, at url: URL, _ transport: HTTPTransport) async -> Finding {
        let nonce = "\(UInt64.random(in: .min ... .max))"
        do throws(TransportFailure) {
            let response = try await post(key.question(nonce), to: url, transport)
            if response.status == 200, response.body == Array(key.answer(nonce).utf8) {
                return Finding(.note, "the siwatch on this database answers there")
            }
            let remedy = "compare the proxy's target with http.listen, and start the siwatch of this configuration"
            return Finding(.down, "the answer \(response.status) is none of the siwatch on this database", remedy: remedy)
        } catch {
            return finding(of: error, url)
        }
    }
}

/// Notices when what Apple posts would not arrive, however seldom Apple posts: siwatch asks itself over the URL that is registered there.
struct IntakeWatch: Sendable {
    let clock: WallClock
    let ask: @Sendable () async -> Finding
    private let failing = NIOLockedValueBox<(words: String, since: Timestamp, looks: Int)?>(nil)

    /// Why nothing arrives; nil unless two looks in a row have found it.
    var obstacle: String? {
        failing.withLockedValue(\.self).flatMap { $0.looks > 1 ? "\($0.words), since \($0.since.text)" : nil }
    }

    func look() async {
        let finding = await ask()
        let isGood = finding.severity == .note
        failing.withLockedValue { last in
            last = isGood ? nil : (words: finding.sentence, since: last?.since ?? clock.now, looks: (last?.looks ?? 0) + 1)
        }
    }

    var service: Recurring {
        Recurring(every: .minutes(5), onFailure: { _ in }) { await look() }
    }
}

extension TransportFailure {
    /// How to see why TLS fails at a host.
    func remedy(at host: String, _ port: Int? = nil) -> String {
        "openssl s_client -connect \(host.shellQuoted):\(port ?? 443) -servername \(host.shellQuoted) shows the chain"
    }
}
