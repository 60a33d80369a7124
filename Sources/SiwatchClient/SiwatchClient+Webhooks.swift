// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
public import Foundation

extension SiwatchClient {
    /// What siwatch posts. The `data` of a test is empty. More types may come.
    public struct WebhookEvent: Sendable, Decodable, Equatable {
        public let type, timestamp: String
        public let data: Content

        public struct Content: Sendable, Decodable, Equatable {
            public let app, clientID, userID, changeID, reason, email, emailForwarding: String?
            public let occurredAt, endsSessionsBefore: Int64?
        }
    }

    /// Verifies a webhook by Standard Webhooks 1.0, and decodes its body, such as a `WebhookEvent`: its `user_id` becomes `userID`.
    ///
    /// The same `webhook-id` comes again until you answer 2xx.
    ///
    /// - Parameters:
    ///   - secrets: both while one changes.
    ///   - header: the value of a header, by its name in lower case.
    ///   - body: as it came, byte by byte.
    ///   - tolerance: how much the webhook's time may differ from `now`.
    /// - Throws: `WebhookRejected`, `BadWebhookSecret`, or `DecodingError` for a body that is no `Content`.
    public static func verifyWebhook<Content: Decodable>(
        secrets: [String],
        header: (String) -> String?,
        body: some Sequence<UInt8>,
        tolerance: Duration = .seconds(300),
        now: Date = Date(),
        as type: Content.Type = Content.self
    ) throws -> Content {
        let keys = try secrets.map(webhookKey)
        if keys.isEmpty { throw BadWebhookSecret() }
        guard let id = header("webhook-id"), !id.isEmpty,
            let timestamp = header("webhook-timestamp"), timestamp.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let seconds = Double(timestamp)
        else { throw WebhookRejected(detail: "webhook-id is missing, or webhook-timestamp is no whole number") }
        guard abs(now.timeIntervalSince1970 - seconds) <= tolerance / Duration.seconds(1) else {
            throw WebhookRejected(detail: "the webhook is too old, or from the future")
        }
        let content = Data(body)
        let signed = Data("\(id).\(timestamp).".utf8) + content
        let signatures = (header("webhook-signature") ?? "").split(separator: " ").compactMap { signature in
            signature.hasPrefix("v1,") ? Data(base64Encoded: String(signature.dropFirst(3))) : nil
        }
        let isSigned = keys.contains { key in
            // In constant time.
            signatures.contains { HMAC<SHA256>.isValidAuthenticationCode($0, authenticating: signed, using: key) }
        }
        guard isSigned else { throw WebhookRejected(detail: "no signature is by one of the secrets") }
        return try JSONDecoder.siwatch.decode(type, from: content)
    }

    private static func webhookKey(_ secret: String) throws -> SymmetricKey {
        let text = secret.hasPrefix("whsec_") ? String(secret.dropFirst("whsec_".count)) : secret
        guard let bytes = Data(base64Encoded: text), !bytes.isEmpty else { throw BadWebhookSecret() }
        return SymmetricKey(data: bytes)
    }
}
