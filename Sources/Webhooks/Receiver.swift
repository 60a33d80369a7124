// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
package import BoundedHTTP
package import CredentialCore
import Crypto
package import Foundation
import NIOHTTP1

/// Where a delivery goes, and who signs.
package struct Receiver: Sendable {
    package var url: URL
    package var secrets: [WebhookSecret]
    private let transport: HTTPTransport

    /// - Parameters:
    ///   - secrets: one, or two while it changes. A receiver accepts any signature that it knows.
    ///   - transport: made with the checked address of the host, and without redirects.
    package init(url: URL, secrets: [WebhookSecret], transport: HTTPTransport) {
        (self.url, self.secrets, self.transport) = (url, secrets, transport)
    }

    package enum Answer: Sendable, Equatable {
        case taken
        /// The receiver wants nothing more, ever.
        case gone
        /// The receiver is overloaded, or something before it is, and asks to be left alone for a time, or for nothing.
        case busy(_ time: Duration?, String)
        case silent(String)
        case refused(String)

        /// Whether the receiver has judged the message.
        var isJudgement: Bool {
            switch self {
            case .taken, .refused, .gone: true
            case .silent, .busy: false
            }
        }

        /// Whether the receiver wants to be left alone for a time.
        var asksForTime: Bool { if case .busy(_?, _) = self { true } else { false } }

        /// Why the message is to be sent again; nil if it is not.
        var reason: String? {
            switch self {
            case .taken, .gone: nil
            case .busy(_, let reason), .silent(let reason), .refused(let reason): reason
            }
        }
    }

    package func send(_ message: WebhookMessage, at now: Timestamp) async -> Answer {
        let timestamp = now.milliseconds / 1000
        let signatures = secrets.map { $0.signature(id: message.id, timestamp: timestamp, body: message.body) }
        let headers: HTTPHeaders = [
            "content-type": "application/json", "webhook-id": message.id, "webhook-timestamp": "\(timestamp)",
            "webhook-signature": signatures.joined(separator: " "),
        ]
        do {
            let response = try await transport.send(TransportRequest(url: url.absoluteString, headers: headers, body: message.body))
            return switch response.status {
            case 200...299: .taken
            case 300...399: .refused("status \(response.status), a redirect that siwatch does not follow")
            case 410: .gone
            // It says that too many came, so it asks for time even if it does not say how long.
            case 429: .busy(RetryAfter.duration(response.retryAfter, at: now) ?? .zero, "status 429")
            case 502, 503, 504: .busy(RetryAfter.duration(response.retryAfter, at: now), "status \(response.status)")
            default: .refused("status \(response.status)")
            }
        } catch {
            return .silent(error.words)
        }
    }
}

/// A secret of Standard Webhooks 1.0: `whsec_` and 24 to 64 bytes in base64.
package struct WebhookSecret: Sendable {
    private let key: SymmetricKey

    /// Nil if the text is no such secret.
    package init?(_ text: Secret) {
        let prefix = "whsec_"
        guard text.reveal.hasPrefix(prefix), let bytes = Data(base64Encoded: String(text.reveal.dropFirst(prefix.count))),
            (24...64).contains(bytes.count)
        else { return nil }
        key = SymmetricKey(data: bytes)
    }

    /// `v1,` and the HMAC-SHA-256 of `id.timestamp.body`.
    func signature(id: String, timestamp: Int64, body: [UInt8]) -> String {
        let signed = Data("\(id).\(timestamp).".utf8) + body
        return "v1," + Data(HMAC<SHA256>.authenticationCode(for: signed, using: key)).base64EncodedString()
    }
}
