// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The shape that every `sub` of Apple's has had for years. Apple does not promise it, so siwatch refuses nothing that a backend tells.
package enum AppleUserID {
    package static let example = "001234.0123456789abcdef0123456789abcdef.0815"

    /// Whether these bytes are six digits, a dot, 32 lowercase hexadecimal digits, a dot and four digits.
    package static func isLike(_ bytes: some Collection<UInt8>) -> Bool {
        guard bytes.count == example.utf8.count else { return false }
        return zip(bytes, 0...).allSatisfy { byte, place in
            switch place {
            case 6, 39: byte == UInt8(ascii: ".")
            case 7..<39: (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte)
            default: (0x30...0x39).contains(byte)
            }
        }
    }
}
