// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import JWTKit
import NIOCore
import Testing

@testable import AppleSimulatorKit

struct WireTests {
    @Test(arguments: [0, 1, 2, 3, 4, 31, 32, 256]) func base64URLGoesBothWaysAndPaddingIsRefused(count: Int) {
        let bytes = Data((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 251 &+ 250) })
        let text = Base64URL.encode(bytes)
        #expect(!text.contains { "+/=".contains($0) })
        #expect(Base64URL.decode(text) == bytes)
        #expect(Base64URL.decode(text + "=") == nil)
    }

    @Test func aFormDecodesItsEscapes() throws {
        let form = try FormBody(ByteBuffer(string: "a=1%2B1&b=x+y&c=&d=%C3%A9&e=a=b&&"))
        #expect(form["a"] == "1+1")
        #expect(form["b"] == "x y")
        #expect(form["c"] == nil)
        #expect(form["d"] == "é")
        #expect(form["e"] == "a=b")
    }

    @Test(arguments: ["a=%", "a=%4", "a=%4g", "a=%FF", "a=1&a=2"]) func aBrokenFormIsRefused(text: String) {
        #expect(throws: TokenError.invalidRequest) { try FormBody(ByteBuffer(string: text)) }
    }

    @Test(arguments: [
        (784_111_777_000 as Int64, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (951_782_400_000, "Tue, 29 Feb 2000 00:00:00 GMT"), (1_795_254_481_495, "Sat, 21 Nov 2026 09:48:01 GMT"),
        (4_102_444_799_999, "Thu, 31 Dec 2099 23:59:59 GMT"),
    ])
    func aDateIsWrittenAsRFC9110HasIt(milliseconds: Int64, text: String) {
        #expect(HTTPDate.text(of: Moment(milliseconds: milliseconds)) == text)
    }

    @Test func wholeSecondsAreRoundedDown() {
        #expect(Moment(milliseconds: 1999).seconds == 1)
        #expect(Moment(milliseconds: -1).seconds == -1)
    }
}

/// A compact JWS parsed by hand, without a check of its signature.
enum WireJWS {
    static func parts(of jws: String) throws -> (header: [String: Any], claims: [String: Any]) {
        let parts = jws.split(separator: ".")
        try #require(parts.count == 3)
        return (try object(bytes(String(parts[0]))), try object(bytes(String(parts[1]))))
    }

    static func object(_ json: Data) throws -> [String: Any] { try JSONSerialization.jsonObject(with: json) as? [String: Any] ?? [:] }

    private static func bytes(_ base64URL: String) -> Data {
        let base64 = base64URL.replacing("-", with: "+").replacing("_", with: "/")
        return Data(base64Encoded: base64 + String(repeating: "=", count: (4 - base64.count % 4) % 4)) ?? Data()
    }
}

extension Answer {
    /// The claims of the id_token, without a check of its signature.
    var claims: [String: Any] { get throws { try WireJWS.parts(of: self["id_token"] ?? "").claims } }
}

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
