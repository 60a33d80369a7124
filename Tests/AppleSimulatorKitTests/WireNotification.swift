// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import JWTKit

/// A notification taken apart by hand, as bytes on the wire.
struct WireNotification {
    let jws: String
    let header: [String: Any]
    let claims: [String: Any]

    init(_ body: String) throws {
        let envelope = try Self.object(Data(body.utf8))
        jws = envelope["payload"] as? String ?? ""
        let parts = jws.split(separator: ".").map { Self.bytes(String($0)) }
        header = try Self.object(parts[0])
        claims = try Self.object(parts[1])
    }

    var kid: String? { header["kid"] as? String }

    /// The event, whichever way `events` is written.
    var event: [String: Any] {
        get throws {
            if let text = claims["events"] as? String { return try Self.object(Data(text.utf8)) }
            return claims["events"] as? [String: Any] ?? [:]
        }
    }

    private static func object(_ json: Data) throws -> [String: Any] {
        try JSONSerialization.jsonObject(with: json) as? [String: Any] ?? [:]
    }

    private static func bytes(_ base64URL: String) -> Data {
        let base64 = base64URL.replacing("-", with: "+").replacing("_", with: "/")
        return Data(base64Encoded: base64 + String(repeating: "=", count: (4 - base64.count % 4) % 4)) ?? Data()
    }
}

/// The claims of a notification as the wire has them.
struct NotificationToken: JWTPayload {
    let iss: String
    let aud: String
    let iat: Int
    let exp: Int
    let jti: String
    let events: String

    func verify(using algorithm: some JWTAlgorithm) {}
}
