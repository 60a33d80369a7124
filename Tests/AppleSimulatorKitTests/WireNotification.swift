// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import JWTKit

/// A notification parsed by hand from the bytes on the wire.
struct WireNotification {
    let jws: String
    let header: [String: Any]
    let claims: [String: Any]

    init(_ body: String) throws {
        let envelope = try WireJWS.object(Data(body.utf8))
        jws = envelope["payload"] as? String ?? ""
        (header, claims) = try WireJWS.parts(of: jws)
    }

    var kid: String? { header["kid"] as? String }

    /// The event, in either form of `events`.
    var event: [String: Any] {
        get throws {
            if let text = claims["events"] as? String { return try WireJWS.object(Data(text.utf8)) }
            return claims["events"] as? [String: Any] ?? [:]
        }
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
