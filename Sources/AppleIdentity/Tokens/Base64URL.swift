// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Base64 as JWS writes it (RFC 7515, section 2): the alphabet of RFC 4648, section 5, without padding.
enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// The six bits of each byte of the alphabet; `foreign` for all other bytes.
    private static let values: [UInt8] = {
        var values = Array(repeating: foreign, count: 256)
        for (value, character) in alphabet.enumerated() { values[Int(character)] = UInt8(value) }
        return values
    }()

    /// A bit that no value of six bits has.
    private static let foreign: UInt8 = 0x80

    /// Nil for padding, white space, another alphabet, an impossible length, or trailing bits that are not zero. So every value has exactly
    /// one text, and no byte of a signed token can change unnoticed. Foundation takes five times as long, for each notification.
    static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        let count = text.count
        guard count % 4 != 1 else { return nil }
        let values = Self.values
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count * 3 / 4)
        var seen: UInt8 = 0
        var pending: UInt32 = 0
        var bits: UInt32 = 0
        for character in text {
            let value = values[Int(character)]
            seen |= value
            pending = pending << 6 | UInt32(value)
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: pending >> bits))
            }
        }
        let trailing = pending & (1 << bits - 1)
        return seen < foreign && trailing == 0 ? bytes : nil
    }

    static func encode(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString(options: [.base64URLAlphabet, .omitPaddingCharacter])
    }
}
