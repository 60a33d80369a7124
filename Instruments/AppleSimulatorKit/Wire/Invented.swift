// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Random identifiers in the shapes of Apple's. They are opaque: no program should parse them.
enum Invented {
    /// A `sub`: `NNNNNN.<32 hex>.NNNN`.
    static func userID() -> String { "\(digits(6)).\(hexadecimal(bytes: 16)).\(digits(4))" }

    /// An address at Apple's mail relay.
    static func relayAddress() -> String {
        text(10, of: lowercaseAndDigits) + "@" + (Bool.random() ? "privaterelay.appleid.com" : "private.icloud.com")
    }

    /// An address outside of Apple, in the domain that RFC 2606 reserves for examples.
    static func ownAddress() -> String { text(10, of: lowercaseAndDigits) + "@example.com" }
    static func authorizationCode() -> String { token("c") }
    static func accessToken() -> String { token("a") }
    static func refreshToken() -> String { token("r") }

    /// The `kid` of a published key: ten characters since 2024.
    static func keyID() -> String { text(10, of: lettersAndDigits) }

    /// A `jti`: 22 characters, which are 128 bits in base64url.
    static func notificationID() -> String { Base64URL.encode(bytes(16)) }
    static func nonce() -> String { Base64URL.encode(bytes(16)) }

    /// `<prefix><32 hex>.0.<4 letters>.<22 base64url>`, about 64 characters.
    private static func token(_ prefix: String) -> String {
        "\(prefix)\(hexadecimal(bytes: 16)).0.\(text(4, of: lowercase)).\(Base64URL.encode(bytes(16)))"
    }

    private static let lowercase = Array("abcdefghijklmnopqrstuvwxyz".utf8)
    private static let lowercaseAndDigits = lowercase + Array("0123456789".utf8)
    private static let lettersAndDigits = lowercaseAndDigits + Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
    private static let hexDigits = Array("0123456789abcdef".utf8)

    private static func digits(_ count: Int) -> String { text(count, of: Array("0123456789".utf8)) }

    private static func hexadecimal(bytes count: Int) -> String {
        String(decoding: bytes(count).flatMap { [hexDigits[Int($0 >> 4)], hexDigits[Int($0 & 15)]] }, as: UTF8.self)
    }

    private static func text(_ count: Int, of alphabet: [UInt8]) -> String {
        String(decoding: bytes(count).map { alphabet[Int($0) % alphabet.count] }, as: UTF8.self)
    }

    /// Eight bytes per call of the system's generator, which is a system call on Linux.
    private static func bytes(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count + 7)
        while bytes.count < count {
            withUnsafeBytes(of: UInt64.random(in: .min ... .max)) { bytes.append(contentsOf: $0) }
        }
        bytes.removeLast(bytes.count - count)
        return bytes
    }
}
