// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Classes of ASCII characters, without regard to Unicode.
extension UInt8 {
    package var isControl: Bool { self < 0x20 || self == 0x7f }
    package var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }
    package var isCapital: Bool { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(self) }
    package var isLetterOrDigit: Bool { isDigit || isCapital || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self) }
}

/// Characters that control a terminal or do not show.
extension Unicode.Scalar {
    /// C0, DEL and C1: the general category Cc.
    package var isControl: Bool { value < 0x20 || (0x7f...0x9f).contains(value) }

    /// Whether it shows on a screen: no control or format character, no line separator, nothing for private use, and assigned by Unicode.
    package var isPrintable: Bool {
        if isASCII { return !isControl }
        return switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: false
        default: true
        }
    }
}

extension FixedWidthInteger where Self: UnsignedInteger {
    /// All of its hexadecimal digits, leading zeros included.
    package var hexadecimal: String {
        let digits = String(self, radix: 16)
        return String(repeating: "0", count: Self.bitWidth / 4 - digits.count) + digits
    }
}
