// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Testing

/// A compact JWS parsed by hand, without a check of its signature.
enum WireJWS {
    static func parts(of jws: String) throws -> (header: [String: Any], claims: [String: Any]) {
        let parts = jws.split(separator: ".")
        try #require(parts.count == 3)
        return (try object(bytes(String(parts[0]))), try object(bytes(String(parts[1]))))
    }

    static func object(_ json: Data) throws -> [String: Any] {
        try JSONSerialization.jsonObject(with: json) as? [String: Any] ?? [:]
    }

    private static func bytes(_ base64URL: String) -> Data {
        let base64 = base64URL.replacing("-", with: "+").replacing("_", with: "/")
        return Data(base64Encoded: base64 + String(repeating: "=", count: (4 - base64.count % 4) % 4)) ?? Data()
    }
}

extension Answer {
    /// The claims of the id_token, without a check of its signature.
    var claims: [String: Any] {
        get throws { try WireJWS.parts(of: self["id_token"] ?? "").claims }
    }
}
