// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
package import BoundedHTTP
package import CredentialCore
package import Foundation
import NIOHTTP1

/// Where a delivery goes, and who signs.
package struct Receiver: Sendable {
    package var url: URL
    package var secrets: [WebhookSecret]
    private let transport: HTTPTransport

    /// - Parameters:
    ///   - url: of HTTPS, or of a loopback address.
    ///   - secrets: one, or two while it changes. A receiver accepts any signature that it knows.
    ///   - transport: made with the checked address of the host, and without redirects.
    package init(url: URL, secrets: [WebhookSecret], transport: HTTPTransport) {
        self.url = url
        self.secrets = secrets
        self.transport = transport
    }

    /// What became of a try.
    package enum Answer: Sendable, Equatable {
        case taken
        /// The receiver wants nothing more, ever.
        case gone
        /// The receiver is overloaded, or something before it is.
        ///
        /// - Parameter time: how long it asks to be left alone; nil if it asks for nothing.
        case busy(_ time: Duration?, String)
        /// Nobody answered.
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
        let request = TransportRequest(
            url: url.absoluteString,
            headers: [
                "content-type": "application/json", "webhook-id": message.id, "webhook-timestamp": "\(timestamp)",
                "webhook-signature": signatures.joined(separator: " "),
            ],
            body: message.body
        )
        do {
            let response = try await transport.send(request)
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
            return .silent(error == .tls ? "no TLS 1.2 connection with a valid certificate" : error.rawValue)
        }
    }
}
