// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

/// A quarantined notification as programs read it. Characters that a terminal might obey are spelled out.
struct QuarantineReport: Encodable {
    private let row: QuarantinedNotification
    private var payload: String?
    /// The header of the token inside, decoded but not verified.
    private var header: String?
    private var claims: String?

    init(_ row: QuarantinedNotification, showsPayload: Bool = false) {
        self.row = row
        guard showsPayload else { return }
        payload = String(decoding: row.payload, as: UTF8.self).printable
        let parts = Self.token(in: row.payload)
        (header, claims) = (parts?.header, parts?.claims)
    }

    func encode(to encoder: any Encoder) throws {
        try encoder.encode([
            "id": row.id, "receivedAt": row.receivedAt, "rejectedAt": row.rejectedAt, "reason": row.reason, "detail": row.detail,
            "bytes": row.payload.count, "payload": payload, "header": header, "claims": claims,
        ])
    }

    var text: String {
        let lines: [(String, String?)] = [
            ("id", "\(row.id)"), ("received", row.receivedAt.text), ("rejected", row.rejectedAt.text), ("reason", row.reason.printable),
            ("detail", row.detail.printable), ("header", header), ("claims", claims), ("payload", payload),
        ]
        return lines.compactMap { name, value in value.map { "\(name.padded(to: 10))\($0)" } }.joined(separator: "\n")
    }

    /// The first text in a body that looks like a signed token.
    private static func token(in payload: [UInt8]) -> (header: String, claims: String)? {
        let text = String(decoding: payload, as: UTF8.self)
        guard let match = text.firstMatch(of: /([A-Za-z0-9_\-]{2,})\.([A-Za-z0-9_\-]{2,})\.[A-Za-z0-9_\-]*/),
            let header = decoded(match.1), let claims = decoded(match.2), header.hasPrefix("{")
        else { return nil }
        return (header, claims)
    }

    private static func decoded(_ part: Substring) -> String? {
        let base64 = part.replacing("-", with: "+").replacing("_", with: "/")
        let padding = String(repeating: "=", count: (4 - base64.count % 4) % 4)
        return Data(base64Encoded: base64 + padding).map { String(decoding: $0, as: UTF8.self).printable }
    }
}
